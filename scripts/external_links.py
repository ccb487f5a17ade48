# SPDX-License-Identifier: Apache-2.0
"""Requests every web page that the documents link to (`make links`). Exit status 1 if one is missing.

`make docs` and the tests check the links between documents, which need no network. EXTERNAL lists every
external link of the documents; a test checks that it is complete.
"""

from __future__ import annotations

import re
import sys
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\((https?://[^)\s]+)\)")
TIMEOUT_S = 20.0
EXTERNAL = (
    "https://arxiv.org/abs/2211.17192",
    "https://arxiv.org/abs/2404.16710",
    "https://arxiv.org/abs/2404.18911",
    "https://arxiv.org/abs/2503.01840",
    "https://arxiv.org/abs/2505.21594",
    "https://arxiv.org/abs/2507.12000",
    "https://arxiv.org/abs/2603.03251",
    "https://arxiv.org/abs/2603.19133",
    "https://arxiv.org/abs/2606.25091",
    "https://keepachangelog.com/en/1.1.0/",
    "https://semver.org/spec/v2.0.0.html",
    "https://www.contributor-covenant.org/version/2/1/code_of_conduct/",
)


def documents() -> list[Path]:
    """Returns the documents at the top of the repository and those under docs/."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def links_of(documents: Iterable[Path]) -> set[str]:
    """Returns the web addresses that documents link to."""
    return {link for document in documents for link in LINK.findall(document.read_text(encoding="utf-8"))}


def broken(links: Iterable[str]) -> Iterator[str]:
    """Yields each link that leads to no page, with the reason."""
    for link in links:
        request = urllib.request.Request(link, headers={"User-Agent": "outrider-links"})
        try:
            urllib.request.urlopen(request, timeout=TIMEOUT_S).close()
        except OSError as error:
            yield f"{link}: {error}"


def main(links: Sequence[str] = EXTERNAL) -> int:
    """Requests all links and prints the broken ones; returns the exit status."""
    found = list(broken(links))
    for line in found:
        print(line, file=sys.stderr)
    print(f"{len(links) - len(found)} of {len(links)} links lead to a page")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
