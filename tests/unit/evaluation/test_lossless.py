from dataclasses import replace
from statistics import mean

import pytest
from support.toy_models import ToyModel, ToySettings

from outrider.core.values import Decoded, DecodeRequest, Prompt
from outrider.decoding.config import DecodingConfig
from outrider.evaluation.pair.latency import measure_compute, measure_row
from outrider.evaluation.pair.lossless import (
    STRATEGIES,
    Difference,
    compare,
    first_difference,
    speculative_decoders,
)
from outrider.runtime.datasets.held_out import Pair
from outrider.runtime.wiring.decoders import local_decoder

PROMPTS = [Prompt(f"w{index}", b"\xff\xd8") for index in range(12)]
LINKS = ("", " over a rough link")
PAIR = Pair(ToyModel(ToySettings(seed=1)), ToyModel(ToySettings(seed=1, agreement=0.6)))


class Wrong:
    """Changes one token in each text of another decoder."""

    def __init__(self, decoder):
        self.decoder = decoder

    def decode(self, request: DecodeRequest, *_) -> Decoded:
        decoded = self.decoder.decode(request)
        ids = list(decoded.token_ids)
        ids[min(2, len(ids) - 1)] += 1
        return replace(decoded, token_ids=tuple(ids))


def own_decoder():
    return local_decoder(PAIR.target, None, DecodingConfig(strategy="ar"))


@pytest.mark.lengthy
def test_every_strategy_is_lossless_here_and_over_a_rough_link():
    """Includes `outrider`, whose losslessness the documents promise."""
    others = speculative_decoders(PAIR, 3)
    tally = compare(PROMPTS, own_decoder(), others, max_new_tokens=24)
    assert tally.frames == len(PROMPTS) and tally.differences == []
    assert set(tally.tokens_per_round) == {f"{name}{link}" for name in STRATEGIES for link in LINKS}
    assert 1.0 < mean(tally.tokens_per_round["sd"]) < 5.0


def test_a_frame_on_which_several_decoders_differ_is_one():
    others = {"wrong": Wrong(own_decoder()), "as wrong": Wrong(own_decoder())}
    tally = compare(PROMPTS[:3], own_decoder(), others, max_new_tokens=24)
    assert len(tally.differences) == 6 and tally.frames_that_differ == 3


def test_a_decoder_that_differs_is_caught_with_its_position():
    tally = compare(PROMPTS[:1], own_decoder(), {"wrong": Wrong(own_decoder())}, max_new_tokens=24)
    assert tally.differences == [Difference(0, "wrong", min(2, tally.tokens[0] - 1))]


def test_first_difference():
    assert first_difference((1, 2, 3), (1, 5, 3)) == 1
    assert first_difference((1, 2, 3), (1, 2)) == 2


@pytest.mark.lengthy
def test_a_slower_link_costs_ar_each_token_once_and_sd_each_round_twice():
    compute = measure_compute(PAIR, PROMPTS, 4)
    near = measure_row(PAIR, PROMPTS, "sd", 0.0, compute)
    far = measure_row(PAIR, PROMPTS, "sd", 0.1, compute)
    streamed = measure_row(PAIR, PROMPTS, "ar", 0.1, compute)
    assert far.finish_s > near.finish_s + 0.2
    assert streamed.finish_s < far.finish_s, "a stream pays the link once"
    assert far.target_passes_per_token < streamed.target_passes_per_token
