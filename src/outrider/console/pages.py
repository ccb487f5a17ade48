# SPDX-License-Identifier: Apache-2.0
"""Returns the pages with the texts of `en.json` filled in, so that they can be read without a script."""

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
    """Returns a page with its texts filled in.

    An element names its text by `data-words`, and its attributes by `data-label`, `data-title` and
    `data-placeholder`.
    """

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
