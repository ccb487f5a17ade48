# SPDX-License-Identifier: Apache-2.0
"""The pages as they are served: with their texts of `en.json` in them, to be read without a script."""

from __future__ import annotations

import json
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

STATIC = Path(__file__).parent / "static"
WORDS: dict[str, Any] = json.loads((STATIC / "en.json").read_text(encoding="utf-8"))
ATTRIBUTES = {"label": "aria-label", "title": "title", "placeholder": "placeholder"}
_TAG = re.compile(r"<[a-z][^>]*>")
_NAMED = re.compile(r' data-(words|label|title|placeholder)="([^"]+)"')


@cache
def page_of(name: str) -> str:
    """Returns a page: an element names its text by `data-words`, and what is said of it by `data-label`,
    `data-title` and `data-placeholder`."""
    return _TAG.sub(_filled, (STATIC / name).read_text(encoding="utf-8"))


def _filled(tag: re.Match[str]) -> str:
    text = ""

    def said(name: re.Match[str]) -> str:
        nonlocal text
        value = escape(WORDS[name[2]])
        if name[1] in ATTRIBUTES:
            return f' {ATTRIBUTES[name[1]]}="{value}"'
        text = value
        return ""

    return _NAMED.sub(said, tag[0]) + text
