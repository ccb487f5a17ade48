# SPDX-License-Identifier: Apache-2.0
"""The pages as they are served: with their texts of `en.json` in them, to be read without a script."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
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
    """Returns a page in English."""
    return filled((STATIC / name).read_text(encoding="utf-8"), WORDS)


def filled(page: str, texts: Mapping[str, Any]) -> str:
    """Returns a page with its texts in it: an element names its own by `data-words`, and what is said of it
    by `data-label`, `data-title` and `data-placeholder`."""

    def with_texts(tag: re.Match[str]) -> str:
        own = ""

        def said(name: re.Match[str]) -> str:
            nonlocal own
            text = escape(texts[name[2]])
            if name[1] in ATTRIBUTES:
                return f' {ATTRIBUTES[name[1]]}="{text}"'
            own = text
            return ""

        return _NAMED.sub(said, tag[0]) + own

    return _TAG.sub(with_texts, page)
