"""A headless Chromium, where there is one."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


@contextlib.contextmanager
def open_browser(*options: str) -> Iterator[Any]:
    """`options` are Chromium's. Skips the test where Playwright or Chromium is missing."""
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
