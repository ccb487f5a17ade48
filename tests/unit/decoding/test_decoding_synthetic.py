"""The synthetic pair has the statistics that it was asked for."""

import random
import statistics

import pytest
import torch

from outrider.core.errors import ConfigError
from outrider.core.values import Prompt
from outrider.decoding.fakes.synthetic import (
    FIRST_ID,
    STRATA,
    SyntheticModel,
    SyntheticSession,
    SyntheticSettings,
    TextEnd,
    synthetic_pair,
)
from outrider.decoding.fakes.synthetic_fit import draft_confidence, exit_agreement
from outrider.decoding.protocol.prefix_digest import common_length
from outrider.decoding.theory import acceptance_rate

PROMPT = Prompt("find the silver bottle", b"\xff\xd8")
ROUNDS = 1500


def some_ends(seed: int) -> list[TextEnd]:
    digests = random.Random(seed).sample(range(1 << 32), 4000)
    return [TextEnd(seed, digest, position) for position, digest in enumerate(digests)]


def draft_chunk(drafter: SyntheticSession, last: int, gamma: int) -> list[int]:
    tokens = [last]
    for _ in range(gamma):
        tokens.append(int(drafter.forward(tokens[-1:])[0].argmax()))
    return tokens[1:]


def choices_and_exits(verifier: SyntheticSession, tokens: list[int]) -> tuple[list[int], list[list[int]]]:
    exits: list[list[int]] = []
    own = verifier.forward(tokens, lambda _, rows: exits.append((FIRST_ID + rows.argmax(-1)).tolist()))
    return own.argmax(-1).tolist(), exits


def greedy_rounds(target: SyntheticModel, draft: SyntheticModel, gamma: int) -> list[tuple[int, int | None]]:
    """Return each round's number of accepted drafts, and the first exit that predicted them or None.

    Exits are numbered from 1.
    """
    verifier, drafter = target.open_session(), draft.open_session()
    last = int(verifier.prefill(PROMPT).argmax())
    drafter.prefill(PROMPT)
    rounds = []
    for _ in range(ROUNDS):
        length = verifier.length
        drafts = draft_chunk(drafter, last, gamma)
        choices, exits = choices_and_exits(verifier, [last, *drafts])
        accepted = common_length(drafts, choices)
        outcome = choices[: accepted + 1]
        predicted = [number for number, choices in enumerate(exits, 1) if choices[: accepted + 1] == outcome]
        rounds.append((accepted, predicted[0] if predicted else None))
        last = outcome[-1]
        verifier.truncate(length + 1 + accepted)
        drafter.truncate(min(drafter.length, verifier.length))
        if drafter.length < verifier.length:
            drafter.forward(drafts[-1:])
    return rounds


@pytest.mark.lengthy
def test_rounds_have_the_papers_length_and_misses_and_exit() -> None:
    rate = acceptance_rate(2.92, 4)
    chances = exit_agreement(rate, 4, 27, miss_rate=0.5563, average_exit=8.0)
    pair = synthetic_pair(SyntheticSettings(confidence=rate, exit_agreement=chances))
    rounds = greedy_rounds(*pair, gamma=4)
    hits = [first for _, first in rounds if first is not None]
    assert statistics.mean(accepted + 1 for accepted, _ in rounds) == pytest.approx(2.92, abs=0.12)
    assert 1.0 - len(hits) / len(rounds) == pytest.approx(0.5563, abs=0.05)
    assert statistics.mean(hits) == pytest.approx(8.0, abs=0.8)


def test_sampled_draft_is_accepted_at_the_wanted_rate() -> None:
    """The draft samples its token, and it equals the target's likeliest one at the wanted rate."""
    settings = SyntheticSettings(confidence=draft_confidence(0.61, 0.5, sampled=True))
    target, draft = synthetic_pair(settings)
    ends = some_ends(0)
    targets = target.rows(ends).argmax(-1)
    drawn = torch.multinomial(draft.rows(ends).softmax(-1), 1, generator=torch.manual_seed(0))[:, 0]
    assert float((drawn == targets).float().mean()) == pytest.approx(0.61, abs=0.03)


def test_draft_is_calibrated_in_its_second_choice() -> None:
    settings = SyntheticSettings(confidence=0.6, second_choice=0.5)
    target, draft = synthetic_pair(settings)
    ends = some_ends(1)
    targets, rows = target.rows(ends).argmax(-1), draft.rows(ends)
    ranks = rows.argsort(dim=-1, descending=True)
    assert float((ranks[:, 1] == targets).float().mean()) == pytest.approx(0.2, abs=0.02)
    assert float(rows.softmax(-1).gather(1, ranks[:, 1:2]).mean()) == pytest.approx(0.2, abs=1e-4)


def test_every_text_has_its_share_of_acceptance() -> None:
    target, draft = synthetic_pair(SyntheticSettings(confidence=0.6))
    ends = some_ends(2)
    right = (target.rows(ends).argmax(-1) == draft.rows(ends).argmax(-1)).tolist()
    for start in range(0, len(ends), STRATA):
        assert sum(right[start : start + STRATA]) == pytest.approx(0.6 * STRATA, abs=1.0)


def test_chances_of_exits_rise_with_depth() -> None:
    chances = exit_agreement(0.7, 4, 31, miss_rate=0.2, average_exit=13.0)
    assert list(chances) == sorted(chances)
    assert 0.0 < chances[0] < chances[-1] <= 1.0


def test_unreachable_sampled_acceptance_is_refused() -> None:
    with pytest.raises(ConfigError, match="acceptance_rate"):
        draft_confidence(0.01, 0.5, sampled=True)
