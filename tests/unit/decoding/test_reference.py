"""The engine against speculative decoding as the papers print it: the same tokens under any schedule."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.schedules import schedules, worlds
from support.toy_models import ToyModel
from support.toys import own_text, request, toy_pair

from outrider.core.ports import Array
from outrider.core.values import DecodeRequest
from outrider.decoding import reference
from outrider.decoding.acceptance.counter_rng import CounterChance, Purpose
from outrider.decoding.acceptance.quantized import draft_distribution, target_distribution
from outrider.decoding.config import DecodingConfig
from outrider.decoding.protocol.prefix_digest import extend_digest, prompt_digest
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.decoding.simulation.decoder import VirtualDecoder

PURPOSES = {"draft": Purpose.DRAFT, "recovered": Purpose.RESIDUAL, "bonus": Purpose.TARGET}


@dataclass(frozen=True)
class EngineDraws:
    """The engine's random numbers."""

    chance: CounterChance

    def accepts(self, probability: float, position: int) -> bool:
        return self.chance.happens(probability, Purpose.ACCEPT, position)

    def pick(self, weights: Array, kind: str, position: int) -> int:
        return self.chance.pick(weights, PURPOSES[kind], position)


def textbook(
    target: ToyModel, draft: ToyModel, asked: DecodeRequest, count: int, sampling: Sampling
) -> tuple[int, ...]:
    root = prompt_digest(asked.prompt)

    def row(model: ToyModel, text: tuple[int, ...]) -> Array:
        return model.row(extend_digest(root, text))

    def target_probs(text: tuple[int, ...], drafted: tuple[int, ...]) -> Array:
        rows = torch.stack([row(target, text + drafted[:n]) for n in range(len(drafted) + 1)])
        return target_distribution(rows, sampling)

    return reference.speculative_decode(
        target_probs,
        lambda text: draft_distribution(row(draft, text), sampling),
        EngineDraws(CounterChance(sampling.seed)),
        count,
        asked.max_new_tokens,
        target.end_ids,
    )


CONFIGS = {
    "sd": DecodingConfig("sd", acceptance="rejection", silence_s=0.4),
    "dssd": DecodingConfig("dssd", acceptance="split", silence_s=0.4),
    "fsd": DecodingConfig("fsd", acceptance="rejection", silence_s=0.4),
}


@pytest.mark.lengthy
@schedules
@given(
    worlds,
    st.sampled_from(sorted(CONFIGS)),
    st.sampled_from([0.0, 0.7, 1.3]),
    st.sampled_from([1.0, 0.8]),
    st.integers(1, 6),
    st.integers(0, 50),
    st.sampled_from([0.0, 0.6, 1.0]),
    st.sampled_from([-3.0, 1.5]),
    st.integers(1, 30),
)
def test_any_schedule_writes_the_textbooks_text(
    world, strategy, temperature, top_p, count, seed, agreement, eos_bias, max_new_tokens
):
    target, draft = toy_pair(seed, agreement, eos_bias)
    config = replace(
        CONFIGS[strategy], temperature=temperature, top_p=top_p, num_draft_tokens=count, seed=seed
    )
    decoder = VirtualDecoder(target, draft, config, world)
    for name in ("first", "second"):
        asked = request(name, max_new_tokens, deadline_s=1e5)
        expected = textbook(target, draft, asked, count, config.sampling_for(asked.prompt))
        assert decoder.decode(asked).token_ids == expected


@pytest.mark.parametrize("agreement", [0.0, 0.5, 1.0])
def test_at_temperature_zero_the_textbook_writes_the_targets_own_text(agreement):
    target, draft = toy_pair(4, agreement, eos_bias=-2.0)
    for name in ("first", "second", "third"):
        asked = request(name, max_new_tokens=40)
        assert textbook(target, draft, asked, 3, Sampling()) == own_text(target, asked)
