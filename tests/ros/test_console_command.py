"""`outrider console --sim` with the shipped pair: a person opens the page and finds something."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.browsers import PHONE, SEATED, Fingers, has_released, open_browser
from support.consoles import Page, wait_until

from outrider.core.values import Pose2D
from outrider.runtime.common.ports import free_port
from outrider.runtime.mission.episode import has_reached, wanted_in
from outrider.simulation.homes.home import generate_home
from outrider.simulation.homes.vocabulary import target_of

pytestmark = [pytest.mark.ros, pytest.mark.xdist_group("graph")]
SEED, PLACEMENT, INSTRUCTION = 1, "in_view", "find the silver bottle"
GOAL_MS = 120_000
WATCH = """() => {
  const Plain = WebSocket;
  window.WebSocket = class extends Plain {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", ({ data }) => {
        if (typeof data === "string" && data.includes('"is":"state"')) window.state = JSON.parse(data);
      });
    }
  };
  const play = HTMLMediaElement.prototype.play;
  window.played = 0;
  HTMLMediaElement.prototype.play = function () {
    this.addEventListener("playing", () => (window.played += 1));
    return play.call(this);
  };
}"""


@pytest.fixture
def browser() -> Iterator[Any]:
    """Comes before `console` in a test's arguments: without a browser, no robot is then started."""
    with open_browser() as opened:
        yield opened


@pytest.fixture
def console(tmp_path: Path) -> Iterator[str]:
    """Starts `outrider console --sim` as a person does. Yields the address of its page."""
    memory = tmp_path / "memory.db"
    port = free_port()
    command = [sys.executable, "-m", "outrider", "console", "--sim", "--port", str(port)]
    command += ["--placement", PLACEMENT, "--seed", str(SEED)]
    env = {**os.environ, "OUTRIDER_MEMORY": str(memory)}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    line = next(line for line in process.stdout if "http://" in line or "error" in line)
    found = re.search(r"http://\S+", line)
    assert found, line
    yield found[0]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_a_console_that_cannot_start_says_why_in_one_line() -> None:
    command = [sys.executable, "-m", "outrider", "console", "--port", "0", "--tls-cert", "none.pem"]
    process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    assert process.returncode == 2
    assert process.stdout == "error: tls_cert and tls_key belong together: give both files, or none\n"


def test_the_simulated_robot_waits_for_commands(console: str) -> None:
    page = Page(SimpleNamespace(port=int(console.rstrip("/").rpartition(":")[2])))
    assert page.read_picture()[1].startswith(b"\xff\xd8")
    page.seated().send(do="say", text="turn left")
    page.read("goal", state="running")
    page.send(do="cancel")
    assert "cancelled" in page.read("goal", state="failed")["message"]
    page.socket.close()


def stop_while_driving(page: Any, fingers: Fingers | None) -> None:
    """Turns by hand, with a finger or a key, and presses stop meanwhile."""
    if fingers:
        fingers.down("[data-drive='turn,-1']")
    else:
        page.focus("#pad")
        page.keyboard.down("d")
    page.wait_for_selector("#motion.warn")
    if fingers:
        fingers.down("#e-stop")
    else:
        page.click("#e-stop")
    wait_until(lambda: page.evaluate("window.state.e_stop && !window.state.moving"), "a stop")
    if fingers:
        fingers.lift()
    else:
        page.keyboard.up("d")


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])
def test_from_opening_the_page_to_the_robot_at_the_object(
    browser: Any, console: str, options: dict[str, Any]
) -> None:
    page: Any = browser.new_page(**options)
    page.add_init_script(f"({WATCH})()")
    page.goto(console)
    page.wait_for_selector("#robot-link.good", timeout=60_000)
    page.wait_for_selector("#camera-empty", state="hidden")
    press = page.tap if options else page.click
    page.check("#speaks")
    page.fill("#words", INSTRUCTION)
    press("#command button[type=submit]")
    page.wait_for_selector(f"#unseated button >> text={INSTRUCTION}")
    assert not page.evaluate("window.state.driver || window.state.goal"), "nothing is taken silently"
    press("#unseated button")
    page.wait_for_selector(SEATED)
    page.wait_for_selector("#answer.running")
    for link, shown in (("satellite", "580 ms"), ("lan", "0.5 ms")):
        page.select_option("#link", link)
        page.wait_for_selector(f"#round-trip-value >> text={shown}")
    page.wait_for_selector("#action:visible", timeout=60_000)
    page.wait_for_selector("#answer.good", timeout=GOAL_MS)
    assert page.locator("#texts .token.a").count() > 0, "accepted drafts are shown"
    home = generate_home(SEED, target_of(INSTRUCTION), PLACEMENT)
    # The page's pose is odometry, whose noise is two percent of a short way.
    assert has_reached(home, wanted_in(INSTRUCTION, home), Pose2D(*page.evaluate("window.state.pose")))
    press("#past summary")
    page.wait_for_selector(f"#history .good >> text={INSTRUCTION}")
    page.fill("#words", "what did you do?")
    press("#command button[type=submit]")
    page.wait_for_selector("#history >> text=what did you do?")
    if shutil.which("espeak-ng"):
        wait_until(lambda: page.evaluate("window.played > 0"), "the answer is spoken")
    else:
        page.wait_for_selector("#toasts >> text=install espeak-ng")
    stop_while_driving(page, Fingers(page) if options else None)
    press("#banner button")
    has_released(page)
    press("#seat")
    wait_until(lambda: not page.evaluate("window.state.driver"), "the seat is given back")
