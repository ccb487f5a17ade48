"""A headless Chromium for tests, if one is installed."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
SEATED = "#driver >> text=you drive"
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


@contextlib.contextmanager
def open_browser(*options: str) -> Iterator[Any]:
    """Opens a browser with Chromium's `options`. Skips the test if Playwright or Chromium is missing."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        pytest.skip("no chromium is installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu", *options]
        )
        yield browser
        browser.close()


def take_seat(page: Any) -> None:
    """Takes the driver's seat with the button next to the driving keys."""
    page.click("#seat")
    page.wait_for_selector(SEATED)


def release_stop(page: Any) -> None:
    """Releases the emergency stop by a click, and by more if a stop was still on its way."""
    page.click("#banner button")
    has_released(page)


def has_released(page: Any) -> None:
    """Waits until the stop is released; clicks again if the release was refused."""
    from playwright.sync_api import TimeoutError as NotYetError

    for _ in range(10):
        with contextlib.suppress(NotYetError):
            page.wait_for_selector("body:not(.stopped)", timeout=2000)
            return
        with contextlib.suppress(NotYetError):  # the stop may be released by now
            page.click("#banner button", timeout=2000)
    raise AssertionError("the stop was not released")


class Fingers:
    """Several fingers at once on a phone's screen, which Playwright does not support."""

    def __init__(self, page: Any) -> None:
        self._page, self._points = page, list[dict[str, float]]()
        self._session = page.context.new_cdp_session(page)

    def down(self, selector: str) -> None:
        """Puts one more finger on the middle of an element."""
        element = self._page.locator(selector)
        element.evaluate("element => element.scrollIntoView({block: 'center'})")
        box = element.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self._points.append({"x": x, "y": y, "id": len(self._points)})
        self._send("touchStart", self._points)

    def lift(self) -> None:
        """Lifts all fingers."""
        self._points.clear()
        self._send("touchEnd", [])

    def _send(self, kind: str, points: list[dict[str, float]]) -> None:
        self._session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
