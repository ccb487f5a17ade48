# SPDX-License-Identifier: Apache-2.0
"""A sentence as it may be written down for ever: what it moves, and nothing that concerns memory."""

from __future__ import annotations

from outrider.core.errors import InstructionError
from outrider.core.language.plan import Follow, Step
from outrider.core.language.planner import plan_of


def brief(sentence: str) -> str:
    """The steps of a sentence in short. Of one that is no plan only its length: it may tell a secret."""
    try:
        steps = plan_of(sentence, None).steps
    except InstructionError:
        return f"no plan ({len(sentence)} characters)"
    return "; ".join(map(_brief, steps))


def _brief(step: Step) -> str:
    is_told = step.moves and not isinstance(step, Follow)
    return step.intent if is_told else step.intent.partition("(")[0]
