"""Where link, server or exits change, `outrider` with drafts at both ends is soon no slower than `ar`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch

from outrider.core.link_profile import LinkProfile
from outrider.core.ports import ExitInfo
from outrider.core.values import DecodeRequest, Prompt, Verified
from outrider.decoding.config import DecodingConfig
from outrider.decoding.fakes.synthetic import (
    FIRST_ID,
    NUM_CHOICES,
    VOCAB_SIZE,
    Place,
    SyntheticModel,
    certain_rows,
)
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.decoder import VirtualDecoder, VirtualWorld
from outrider.wire.codec import encode, wire_bytes

STEP_S = 0.1
EXITS = 4
TOKENS = 300
SETTLED, WINDOW = 60, 40
"""In steps: the time after a change that does not count, and that in which the speed is measured."""


@dataclass(frozen=True)
class Conditions:
    """Times are in steps of the server as it is at first."""

    round_trip: float = 0.3
    agreement: float = 0.8
    draft: float = 0.3
    cloud_draft: float = 0.08
    server: float = 1.0
    exit: float = 0.02
    exits_right: float = 0.6

    @property
    def world(self) -> VirtualWorld:
        step_s, exit_s = self.server * STEP_S, self.server * self.exit * STEP_S
        compute = ComputeProfile(
            draft_prefill_s=0.0,
            draft_token_s=self.draft * STEP_S,
            target_prefill_s=0.0,
            verify_s=step_s,
            verify_token_s=0.01 * step_s,
            step_s=step_s,
            verify_exit_s=exit_s,
            step_exit_s=exit_s,
            branch_costs=(0.0, 0.2, 0.4),
            cloud_draft_token_s=self.cloud_draft * self.server * STEP_S,
        )
        link = LinkProfile(self.round_trip * STEP_S / 2.0)
        return VirtualWorld(lambda frame: wire_bytes(encode(frame)), compute, link, link)


USUAL = Conditions()
CHANGES = (
    replace(USUAL, round_trip=0.03),
    replace(USUAL, round_trip=3.0),
    replace(USUAL, server=3.0),
    replace(USUAL, server=1.0 / 3.0),
    replace(USUAL, exit=0.2),
    replace(USUAL, exits_right=0.0),
)
USELESS = (
    replace(USUAL, agreement=0.05),
    replace(USUAL, draft=1.5, cloud_draft=0.4),
    replace(USUAL, agreement=0.05, draft=1.5, cloud_draft=0.4),
    Conditions(3.0, 0.05, 1.5, 0.4, 3.0, 0.2, 0.0),
    Conditions(3.0, 0.05, 1.5, 0.4, 1.0 / 3.0, 0.2, 0.0),
)
"""Little or nothing pays here but a plain step, and what is tried in vain shows."""


class Pair:
    """A target and a draft that are as right as the conditions say that hold now."""

    def __init__(self) -> None:
        self.now = USUAL
        exits = ExitInfo(tuple(range(1, EXITS + 1)), EXITS + 1, torch.arange(FIRST_ID, VOCAB_SIZE))
        right: Callable[[Place], int] = lambda place: place.digest % NUM_CHOICES  # noqa: E731

        def choice(place: Place, lot: int, chance: float) -> int:
            is_right = (place.digest // (NUM_CHOICES * 7**lot)) % 1000 < 1000 * chance
            return right(place) if is_right else (right(place) + 1) % NUM_CHOICES

        self.target = SyntheticModel(
            "target",
            certain_rows(),
            right,
            exits,
            lambda place: [choice(place, 1, self.now.exits_right)] * EXITS,
        )
        self.draft = SyntheticModel(
            "draft", certain_rows(), lambda place: choice(place, 2, self.now.agreement)
        )


def commits(changes: list[Conditions], strategy: str) -> list[list[tuple[float, int]]]:
    """Of each text, under one of the conditions after another: when how many of its tokens were verified."""
    pair = Pair()
    config = DecodingConfig(strategy, silence_s=1e4)
    edge = None if strategy == "ar" else pair.draft
    decoder = VirtualDecoder(pair.target, edge, config, USUAL.world, cloud_draft=pair.draft)
    texts = []
    for number, pair.now in enumerate(changes):
        decoder.move_to(pair.now.world)
        told: list[tuple[float, int]] = []

        def on_verified(verified: Verified, told: list = told, start_s: float = decoder.now_s) -> None:
            told.append((decoder.now_s - start_s, len(verified.token_ids)))

        decoder.decode(DecodeRequest(Prompt(f"text {number}", b"\xff\xd8"), TOKENS, 1e6), on_verified)
        texts.append(told)
    return texts


def slowest(told: list[tuple[float, int]], step_s: float, after: int) -> float:
    """The least tokens a step in a window that begins so many steps after the first token or later."""
    begin_s, end_s = told[0][0] + after * step_s, told[-1][0]
    starts = [at_s for at_s, _ in told if begin_s <= at_s <= end_s - WINDOW * step_s]
    counts = [
        sum(count for at_s, count in told if start_s < at_s <= start_s + (WINDOW + 1e-6) * step_s)
        for start_s in starts
    ]
    return min(counts, default=WINDOW) / WINDOW


def test_no_window_is_slower_than_ar() -> None:
    changes = [USUAL, *CHANGES, USUAL]
    for text, now in zip(commits(changes, "outrider"), changes, strict=True):
        step_s = now.server * STEP_S
        assert slowest(text, step_s, SETTLED) >= 0.97, now
        assert slowest(text, step_s, 0) >= 0.6, now


def test_where_nothing_pays_trials_cost_little() -> None:
    """A trial of exits at 80 % of a forward and one of a draft at 40 % may fall into one window."""
    changes = [USUAL, *USELESS, USUAL]
    *texts, back = commits(changes, "outrider")
    for text, now in zip(texts, changes, strict=False):
        step_s = now.server * STEP_S
        assert slowest(text, step_s, SETTLED) >= 0.95, now
        assert slowest(text, step_s, 0) >= 0.6, now
    assert slowest(back, STEP_S, SETTLED) >= 1.4, "drafts that pay again are soon used again"


def test_the_measure_gives_one_for_ar() -> None:
    for text in commits([USUAL], "ar"):
        assert slowest(text, STEP_S, SETTLED) == pytest.approx(1.0, abs=0.01)
