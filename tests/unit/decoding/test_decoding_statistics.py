"""Edge and cloud, over a bad link, write texts that are distributed as the target's own."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.statistics import fits
from support.toy_models import ToyModel, ToySettings
from support.toys import request

from outrider.core.endings import has_ended
from outrider.core.frames import MAX_SEED, Frame, Resume
from outrider.core.link_profile import LinkProfile
from outrider.core.values import Prompt
from outrider.decoding.acceptance.quantized import target_distribution
from outrider.decoding.acceptance.schemes import SCHEMES, SparseScheme
from outrider.decoding.aggregation.config import AggregationConfig
from outrider.decoding.config import DecodingConfig
from outrider.decoding.protocol.prefix_digest import extend_digest, prompt_digest
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.wire.codec import encode, wire_bytes

LENGTH = 3
NUM_TEXTS = 800
NUM_PAIRS = 300
SAMPLED = [("sd", "rejection"), ("dssd", "split"), ("picospec", "sparse"), ("fsd", "rejection")]
EVERY = [*SAMPLED, ("ar", "coupled"), ("outrider", "coupled")]
LINK = LinkProfile(delay_s=0.02, jitter_s=0.2, loss=0.15, retransmit_s=None, ordered=False)
COMPUTE = ComputeProfile(draft_token_s=0.02, verify_s=0.05, exit_fractions=(0.2, 0.5))
TARGET = ToyModel(ToySettings(seed=22, vocab_size=4, eos_bias=-0.5, exit_agreement=(0.4, 0.8)))
DRAFT = ToyModel(ToySettings(seed=22, vocab_size=4, eos_bias=-0.5, agreement=0.4))
WIDE_TARGET = ToyModel(ToySettings(seed=6, vocab_size=48, eos_bias=-9.0))
WIDE_DRAFT = ToyModel(ToySettings(seed=6, vocab_size=48, eos_bias=-9.0, agreement=0.3))


def config(strategy: str, scheme: str, seed: int, **options) -> DecodingConfig:
    return DecodingConfig(
        strategy=strategy,
        acceptance=scheme,
        temperature=1.0,
        num_draft_tokens=2,
        seed=seed,
        silence_s=0.4,
        **options,
    )


def text_of(
    target: ToyModel, draft: ToyModel, decoding: DecodingConfig, length: int, sent: list[Frame] | None = None
) -> tuple[int, ...]:
    """Return one text, decoded over a link with jitter, reordering and loss; `sent` collects the frames."""

    def frame_bytes(frame: Frame) -> int:
        if sent is not None:
            sent.append(frame)
        return wire_bytes(encode(frame))

    world = VirtualWorld(frame_bytes, COMPUTE, uplink=LINK, downlink=LINK, seed=decoding.seed)
    asked = request(max_new_tokens=length, deadline_s=1e5)
    return VirtualDecoder(target, draft, decoding, world).decode(asked).token_ids


def texts_of(strategy: str, scheme: str, **options) -> list[tuple[int, ...]]:
    return [
        text_of(TARGET, DRAFT, config(strategy, scheme, seed, **options), LENGTH) for seed in range(NUM_TEXTS)
    ]


@cache
def expected(
    model: ToyModel, length: int, sampling: Sampling = Sampling(1.0)
) -> dict[tuple[int, ...], float]:
    """Return the probability of each text of at most `length` tokens, by the model alone."""
    root = prompt_digest(request().prompt)
    chances: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(length):
        longer: dict[tuple[int, ...], float] = {}
        for text, chance in chances.items():
            if has_ended(text, model.end_ids):
                longer[text] = chance
                continue
            row = target_distribution(model.row(extend_digest(root, text)), sampling)
            for token, prob in enumerate(row.tolist()):
                longer[(*text, token)] = chance * prob
        chances = longer
    return chances


@pytest.mark.lengthy
@pytest.mark.parametrize(("strategy", "scheme"), EVERY)
def test_texts_are_distributed_as_the_targets_own(strategy, scheme):
    texts = texts_of(strategy, scheme)
    assert fits(texts, expected(TARGET, LENGTH))
    assert not fits(texts, expected(DRAFT, LENGTH)), "the test can distinguish the draft from the target"


@pytest.mark.lengthy
@pytest.mark.parametrize(("strategy", "scheme"), EVERY)
def test_top_k_and_top_p_are_exact_in_every_scheme(strategy, scheme):
    """Top-k keeps three of four tokens, and top-p their nucleus; the draft keeps other tokens."""
    texts = texts_of(strategy, scheme, top_k=3, top_p=0.9)
    kept = expected(TARGET, LENGTH, Sampling(1.0, 0.9, top_k=3))
    assert all(kept.get(text, 0.0) > 0.0 for text in texts)
    assert fits(texts, kept)
    assert not fits(texts, expected(TARGET, LENGTH)), "the test can distinguish top-k from all tokens"


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("strategy", "scheme", "drafters"),
    [
        ("sd", "rejection", ("suffix",)),
        ("sd", "rejection", ("model", "suffix")),
        ("dssd", "split", ("model", "suffix")),
        ("picospec", "sparse", ("model", "suffix")),
    ],
)
def test_drafts_from_the_same_prompts_earlier_answer_bias_nothing(strategy, scheme, drafters):
    """The second answer is drafted from the first, and is still distributed as the target's own."""
    firsts, seconds = [], []
    for seed in range(NUM_PAIRS):
        decoding = config(strategy, scheme, seed, drafters=drafters)
        decoder = VirtualDecoder(TARGET, DRAFT, decoding, VirtualWorld(lambda _: 1, COMPUTE))
        asked = request(max_new_tokens=LENGTH, deadline_s=1e5)
        firsts.append(decoder.decode(asked).token_ids)
        seconds.append(decoder.decode(asked).token_ids)
    assert fits(firsts, expected(TARGET, LENGTH))
    assert fits(seconds, expected(TARGET, LENGTH))
    same = sum(first == second for first, second in zip(firsts, seconds, strict=True)) / NUM_PAIRS
    assert same == pytest.approx(sum(chance**2 for chance in expected(TARGET, LENGTH).values()), abs=0.05)


@pytest.mark.lengthy
def test_tail_draws_follow_the_targets_distribution(monkeypatch):
    """The draft disagrees on the first token, and the draws from the tail run out at times."""
    monkeypatch.setitem(SCHEMES, "sparse", SparseScheme("sparse", num_head=4, num_draws=1))
    sent: list[Frame] = []
    texts = [
        text_of(WIDE_TARGET, WIDE_DRAFT, config("picospec", "sparse", seed), 2, sent)[:1]
        for seed in range(NUM_TEXTS)
    ]
    assert any(isinstance(frame, Resume) and frame.draws for frame in sent)
    assert fits(texts, expected(WIDE_TARGET, 1))
    assert not fits(texts, expected(WIDE_DRAFT, 1))


@pytest.mark.lengthy
@pytest.mark.parametrize("seed", range(12))
def test_outrider_writes_what_ar_writes_with_the_same_seed_token_for_token(seed):
    ar, outrider = (
        text_of(WIDE_TARGET, WIDE_DRAFT, config(strategy, "coupled", seed, top_p=0.9), 40)
        for strategy in ("ar", "outrider")
    )
    assert ar == outrider
    assert len(ar) == 40


@pytest.mark.parametrize(("strategy", "scheme"), EVERY)
def test_every_bit_of_a_seed_counts(strategy, scheme):
    seeds = [0, 1, (1 << 64) - 1, *(1 << bit for bit in (8, 30, 31, 32, 33, 47, 62, 63))]
    texts = {text_of(WIDE_TARGET, WIDE_DRAFT, config(strategy, scheme, seed), 8) for seed in seeds}
    assert len(texts) == len(seeds)


@pytest.mark.lengthy
@given(st.sets(st.integers(0, MAX_SEED), min_size=2, max_size=9), st.text(max_size=9), st.integers(0, 9))
def test_different_seeds_stay_different_whatever_the_prompt(seeds, words, number):
    prompt = Prompt(words, b"")
    decodings = [DecodingConfig("sd", drafters=("suffix",), temperature=1.0, seed=seed) for seed in seeds]
    assert len({decoding.sampling_for(prompt, number).seed for decoding in decodings}) == len(seeds)
    peers = [AggregationConfig(temperature=1.0, seed=seed) for seed in seeds]
    assert len({peer.rules_for(prompt).seed for peer in peers}) == len(seeds)
