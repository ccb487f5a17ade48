"""Theorem 1 and eq. 5 of DRAGON on the shipped pair, with compression and a different prompt on each side."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from support.closed_forms import acceptance_rates, coupled_acceptance_bounds
from support.peers import peer_world
from support.statistics import fits
from support.tiny_models import random_prompt

from outrider.core.values import DecodeRequest
from outrider.decoding.acceptance.quantized import PEER_BITS, unbiased_grid
from outrider.decoding.acceptance.sampling import probabilities
from outrider.decoding.aggregation.config import AggregationConfig
from outrider.decoding.aggregation.rule import (
    device_share,
    mixture,
)
from outrider.decoding.aggregation.virtual import PeerCompute, VirtualPeers
from outrider.decoding.aggregation.worker import Context
from outrider.decoding.fakes.replay import ReplayModel
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.runtime.datasets.held_out import load_pair

TEXTS = 400
TEMPERATURE = 2.0
PROMPTS = (random_prompt(1, "stop"), random_prompt(2, "find the red chair"))
LOG_RELEVANCES = (0.4, 0.0)
SHARE = device_share(*LOG_RELEVANCES)


@pytest.fixture(scope="module")
def models() -> tuple[ReplayModel, ReplayModel]:
    pair = load_pair()
    return ReplayModel(pair.draft), ReplayModel(pair.target)


@pytest.fixture(scope="module")
def texts(models):
    """Returns, for each rule, two-token texts of many seeds and whether the first drafts were accepted."""
    world = peer_world(PeerCompute(0.0, 0.01), PeerCompute(0.0, 0.01))
    documents = [
        lambda question, context=Context(prompt, relevance): (context,)
        for prompt, relevance in zip(PROMPTS, LOG_RELEVANCES, strict=True)
    ]
    asked = DecodeRequest(random_prompt(0), 2, 100.0)
    result = {}
    for rule in ("rejection", "coupled"):
        result[rule] = []
        for seed in range(TEXTS):
            config = AggregationConfig("token", rule, "device", temperature=TEMPERATURE, seed=seed)
            peers = VirtualPeers(*models, config, world, *documents)
            tokens = peers.decode(asked).token_ids
            result[rule].append((tokens, [text.outcomes[:1] for text in peers.texts]))
    return result


def rows_after(models, tokens):
    """Returns both sides' distributions after a text, not rounded to a grid."""
    rows = []
    for model, prompt in zip(models, PROMPTS, strict=True):
        session = model.open_session()
        row = session.prefill(prompt)
        if tokens:
            row = session.forward(tokens)[-1]
        rows.append(probabilities(row, Sampling(TEMPERATURE)))
    return tuple(rows)


def common_texts(models, least):
    """Returns the texts of at most two tokens to which VDRAG gives more than the probability `least`."""
    found = {}
    first = mixture(rows_after(models, ()), SHARE)
    for token in (first > least).nonzero()[:, 0].tolist():
        if token in models[0].end_ids:
            found[(token,)] = float(first[token])
            continue
        joint = first[token] * mixture(rows_after(models, (token,)), SHARE)
        for second in (joint > least).nonzero()[:, 0].tolist():
            found[token, second] = float(joint[second])
    return found


@pytest.mark.parametrize("rule", ["rejection", "coupled"])
def test_texts_are_vdrags(models, texts, rule):
    expected = common_texts(models, 5.0 / TEXTS)
    assert len(expected) >= 4
    sampled = [tokens if tokens in expected else "rare" for tokens, _ in texts[rule]]
    assert fits(sampled, expected | {"rare": 1.0 - sum(expected.values())})
    device, cloud = (row for row in rows_after(models, ()))
    assert float((device - cloud).abs().sum()) / 2.0 > 0.05, "the sides say the same: nothing is tested"
    firsts = Counter(tokens[0] for tokens, _ in texts[rule])
    assert not fits(firsts.elements(), dict(enumerate(device.tolist()))), "the device's alone would fit"


def test_drafts_are_accepted_as_often_as_equation_5_says(models, texts):
    full = rows_after(models, ())
    offsets = [(index + 0.5) / 64 for index in range(64)]
    rates = torch.tensor(
        [
            acceptance_rates(tuple(unbiased_grid(row, PEER_BITS, offset) for row in full), SHARE)
            for offset in offsets
        ]
    ).mean(0)
    for side, rate in enumerate(rates.tolist()):
        stood = [outcomes[side][0] for _, outcomes in texts["rejection"] if outcomes[side]]
        assert len(stood) > 0.8 * TEXTS
        slack = 4.0 * math.sqrt(rate * (1.0 - rate) / len(stood))
        assert sum(stood) / len(stood) == pytest.approx(rate, abs=slack)


def test_coupled_acceptance_is_within_its_bounds(models, texts):
    """The device's drafts count, whoever owns their position: each is made before its position is settled."""
    least, greatest = coupled_acceptance_bounds(rows_after(models, ()), SHARE, 0)
    stood = [outcomes[0][0] for _, outcomes in texts["coupled"] if outcomes[0]]
    slack = 4.0 * math.sqrt(0.25 / len(stood))
    assert len(stood) == TEXTS
    assert least - slack <= sum(stood) / len(stood) <= greatest + slack
