# SPDX-License-Identifier: Apache-2.0
"""The pair's verifications: real drafts verified by the target, and the result of each exit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from outrider.core.endings import has_ended
from outrider.core.ports import Array, ExitInfo, ModelSession
from outrider.core.values import Prompt
from outrider.decoding.acceptance.confidence import hint_confidence
from outrider.runtime.datasets.held_out import Pair


@dataclass(frozen=True)
class ExitResult:
    """One exit's result in a verification: its choices, the verdict it expects, and its confidence."""

    choices: list[int]
    hint: list[int]
    confidence: float


@dataclass(frozen=True)
class Verification:
    """One draft and the target's forward over it.

    `draft` ends at an end token; `runners_up` are the draft's second choices. `choices`: the target's
    likeliest tokens, one for each draft token and one after them. `emitted`: the verdict, which is the
    accepted tokens and the target's own next one.
    """

    draft: list[int]
    runners_up: list[int]
    choices: list[int]
    emitted: list[int]
    exits: list[ExitResult]


def emitted_tokens(draft: Sequence[int], choices: Sequence[int], end_ids: Collection[int]) -> list[int]:
    """Return the draft as far as it equals the choices, and the next choice unless the text has ended."""
    accepted = 0
    while accepted < len(draft) and draft[accepted] == choices[accepted]:
        accepted += 1
    ended = accepted > 0 and draft[accepted - 1] in end_ids
    return list(choices[: accepted if ended else accepted + 1])


def verifications(
    pair: Pair, exits: ExitInfo | None, prompt: Prompt, num_draft_tokens: int, max_new_tokens: int = 96
) -> Iterator[Verification]:
    """Decode a prompt greedily, draft by draft; `exits` are the target's, if it has any."""
    target, draft = pair.target.open_session(), pair.draft.open_session()
    text, end_ids = [int(target.prefill(prompt).argmax())], pair.target.end_ids
    draft.prefill(prompt)
    while not has_ended(text, end_ids) and len(text) < max_new_tokens:
        lengths = target.length, draft.length
        drafted, runners_up = _draft(draft, text[-1], num_draft_tokens, end_ids)
        logits, exit_rows = _forward_with_exits(target, [text[-1], *drafted])
        choices = logits.argmax(-1).tolist()
        emitted = emitted_tokens(drafted, choices, end_ids)
        exit_results = (
            [exit_result(drafted, rows, exits.token_ids, end_ids) for rows in exit_rows] if exits else []
        )
        yield Verification(drafted, runners_up, choices, emitted, exit_results)
        text += emitted
        target.truncate(lengths[0] + len(emitted))
        draft.truncate(lengths[1] + len(emitted))


def _forward_with_exits(session: ModelSession, token_ids: Sequence[int]) -> tuple[Array, list[Array]]:
    """Return the logits of a forward, and those of its exits."""
    exit_rows: list[Array] = []
    return session.forward(token_ids, lambda _, rows: exit_rows.append(rows)), exit_rows


def exit_result(
    draft: Sequence[int], logits: Array, shortlist: Array, end_ids: Collection[int]
) -> ExitResult:
    """Return an exit's result for a draft by its logits (M, S) over the shortlist, noisy or not."""
    choices = shortlist[logits.argmax(-1)].tolist()
    hint = emitted_tokens(draft, choices, end_ids)
    return ExitResult(choices, hint, hint_confidence(logits[: len(hint)]))


def _draft(
    session: ModelSession, last: int, count: int, end_ids: Collection[int]
) -> tuple[list[int], list[int]]:
    """Return up to `count` tokens that follow `last`, and the second choices at their positions.

    The first choices and `last` are in the cache afterwards.
    """
    drafted: list[int] = []
    runners_up: list[int] = []
    logits = session.forward([last])
    while len(drafted) < count and not has_ended(drafted, end_ids):
        drafted.append(int(logits[0].argmax()))
        runners_up.append(next(i for i in logits[0].topk(2).indices.tolist() if i != drafted[-1]))
        logits = session.forward(drafted[-1:])
    return drafted, runners_up
