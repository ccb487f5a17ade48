"""All English text of the pages is in one file."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from support.browsers import PHONE, has_released
from support.consoles import FakeRobot, Page, wait_until

from outrider.console import app
from outrider.console import messages as m
from outrider.console.pages import STATIC, filled
from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.core.values import LinkState, Pose2D
from outrider.navigation.motion.step_motions import Ending

WORDS: dict[str, Any] = json.loads((STATIC / "en.json").read_text(encoding="utf-8"))
PAGES = [path.name for path in STATIC.glob("*.html")]
WRITTEN = ("aria-label", "title", "placeholder", "alt", "value")
NAMED = ("data-words", "data-label", "data-title", "data-placeholder")
FOREIGN = "ж"
SHOWN = """() => {
  const said = [...window.drawn];
  const walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) said.push(walker.currentNode.data);
  for (const name of ["aria-label", "title", "placeholder", "alt"])
    for (const element of document.querySelectorAll(`[${name}]`)) said.push(element.getAttribute(name));
  return said;
}"""
WATCHED = """window.drawn = [];
const fillText = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
  window.drawn.push(text);
  fillText.call(this, text, ...at);
};
Object.defineProperty(navigator, "mediaDevices", { value: undefined });
"""


class Reader(HTMLParser):
    """Collects the text that a page itself shows, and the names of the texts it asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.shown += [value or "" for name, value in attrs if name in WRITTEN]
        self.names += [value or "" for name, value in attrs if name in NAMED]

    def handle_data(self, data: str) -> None:
        self.shown.append(data)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_nothing_by_itself_but_keys_and_signs(name: str) -> None:
    reader = Reader()
    reader.feed((STATIC / name).read_text(encoding="utf-8"))
    assert [shown for shown in reader.shown if re.search("[A-Za-z]{2}", shown)] == []
    assert [name for name in reader.names if name not in WORDS] == []


def test_a_script_asks_for_no_text_that_is_missing() -> None:
    scripts = [path.read_text(encoding="utf-8") for path in STATIC.glob("*.js")]
    asked = {name for script in scripts for name in re.findall(r'(?:words|list)\("([^"]+)"', script)}
    assert len(asked) > 10 and asked <= WORDS.keys()


def test_all_states_and_outcomes_of_a_robot_have_a_text() -> None:
    names = [f"link.{state.value}" for state in LinkState]
    names += [f"outcome.{ending.name.lower().replace('_', ' ')}" for ending in Ending]
    assert [name for name in names if name not in WORDS] == []


def foreign(text: Any) -> Any:
    """Replaces the letters of a text or of several; placeholders for values stay."""
    if isinstance(text, list):
        return [foreign(one) for one in text]
    return re.sub(r"(\{\w+\})|[A-Za-z]", lambda found: found[1] or FOREIGN, text)


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Serves the pages in a language without English letters. Returns its texts."""
    texts = {name: foreign(text) for name, text in WORDS.items()}
    monkeypatch.setattr(app, "page_of", lambda name: page_in(name, texts))
    return texts


def page_in(name: str, texts: dict[str, Any]) -> str:
    return filled((STATIC / name).read_text(encoding="utf-8"), texts)


def with_texts(page: Any, texts: dict[str, Any]) -> None:
    """Serves these texts to a page's scripts."""
    page.route("**/en.json", lambda route: route.fulfill(json=texts))


def english(page: Any) -> list[str]:
    """Returns what a page shows in English letters, except viewers' names, which the console gives."""
    said = (re.sub(r"\bviewer \d+", "", str(shown)) for shown in page.evaluate(SHOWN))
    return sorted({shown for shown in said if re.search("[A-Za-z]{2}", shown)})


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])
def test_a_page_in_another_language_says_no_word_of_english(
    browser: Any, other: dict[str, Any], options: dict[str, Any]
) -> None:
    """Here the robot's own words are in that language too."""
    robot = FakeRobot(hears=False)
    server = ConsoleServer(robot, ConsoleSettings(port=0))
    page = browser.new_page(**options)
    page.add_init_script(WATCHED)
    with_texts(page, other)
    try:
        page.goto(server.url)
        page.wait_for_selector("#page-link.good")
        assert english(page) == []
        show_all(server)
        page.wait_for_selector("#texts .outcome")
        assert english(page) == []
        page.click("#talk")
        page.wait_for_selector("#answer.bad")
        assert english(page) == []
        page.fill("#words", FOREIGN)
        page.press("#words", "Enter")
        page.wait_for_selector("#unseated button:focus")
        assert english(page) == []
        page.keyboard.press("Escape")
        page.wait_for_selector("body.stopped")
        page.click("#banner button")
        page.wait_for_selector(f"#unseated button >> text={foreign(WORDS['unseated.e_stop'])}")
        assert english(page) == []
        page.click("#unseated button")
        has_released(page)
        for success in (True, False):
            page.fill("#words", FOREIGN)
            page.press("#words", "Enter")
            wait_until(lambda: robot.goals, "the command")
            assert english(page) == []
            robot.goals.pop()[1](GoalEnd(success, ""))
            page.wait_for_selector("#answer.good" if success else "#answer.bad")
            assert english(page) == []
        somebody = Page(server)
        somebody.send(do="e_stop", engaged=True)
        page.wait_for_selector("body.stopped")
        assert english(page) == []
    finally:
        server.close()
    page.wait_for_selector("#page-link.bad")
    page.keyboard.press("Escape")
    page.wait_for_selector(f".banner.bad >> text={FOREIGN}")
    assert english(page) == []
    page.close()


def show_all(server: ConsoleServer) -> None:
    """Shows every kind of news; its own words are in the other language."""
    server.show_pose(Pose2D(0.0, 0.0, 0.0))
    server.show(m.Plan((FOREIGN, FOREIGN), 1, True))
    server.show(m.Sights((m.Thing(FOREIGN, 1.0, 0.5),), m.Thing(FOREIGN, 1.0, 0.5)))
    server.show(m.Memories((m.Thing(FOREIGN, 2.0, 0.5),)))
    server.show(m.Switches(FOREIGN, 55.0, (FOREIGN,), (1.0, 600.0), FOREIGN, (FOREIGN,)))
    server.show(m.Round(4, 3, 4, 0.1, 0.05))
    server.show(m.Notice("warning", FOREIGN))
    for step, ending in enumerate(Ending):
        outcome = ending.name.lower().replace("_", " ")
        server.show(m.Text("s", step, "finished", FOREIGN, FOREIGN, 0.2, 50.0, 2.0))
        server.show(m.Motion("s", step, FOREIGN, outcome, FOREIGN))
    for state in LinkState:
        server.update(link=state.value, moving=state is LinkState.LOCAL)


@pytest.mark.parametrize("name", ["login.html", "robots.html"])
def test_the_other_pages_too(browser: Any, other: dict[str, Any], name: str) -> None:
    server = ConsoleServer(FakeRobot(), ConsoleSettings(port=0))
    page = browser.new_page()
    page.add_init_script(WATCHED)
    with_texts(page, other)
    page.route("**/robots", lambda route: route.fulfill(json={FOREIGN: True, FOREIGN * 2: False}))
    try:
        html = page_in(name, other)
        page.route(f"**/{name}", lambda route: route.fulfill(body=html, content_type="text/html"))
        page.goto(f"{server.url}{name}")
        page.wait_for_selector(f"h1:has-text('{FOREIGN}')")
        assert english(page) == []
    finally:
        server.close()
        page.close()
