# SPDX-License-Identifier: Apache-2.0
"""What a person tells the robot to remember: the statement, and for whom it is."""

from __future__ import annotations

import re

from outrider.core.language.plan import Remember
from outrider.core.values import Visibility

_VISIBILITY = re.compile(r"[\s,;.(]+(?:keep (?:it|this) )?(?P<visibility>private|shareable)\)?$", re.I)
_HERE = re.compile(
    r"\b(?:is|are|lies|lie|hangs|hang|stands|stand|sits|sit) (?:right |just )?here$|^(?:this|here) is ", re.I
)
_NO_STATEMENT = re.compile(r"(?:how|when|where|what)\b", re.I)


def statement(text: str) -> Remember | None:
    """A text as what to remember, private unless it says otherwise; None for a question."""
    text = text.strip(" .!,:")
    if not text or _NO_STATEMENT.match(text):
        return None
    visibility = Visibility.PRIVATE
    said = _VISIBILITY.search(text)
    if said is not None:
        visibility = Visibility(said["visibility"].lower())
        text = text[: said.start()]
    return Remember(text, visibility, _HERE.search(text) is not None)
