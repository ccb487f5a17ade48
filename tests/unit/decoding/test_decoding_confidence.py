"""Confidence of hints: checked by hand, and higher for hints that are right more often."""

from __future__ import annotations

import pytest
import torch
from support.toy_models import ToyModel, ToySettings

from outrider.decoding.acceptance.confidence import hint_confidence, token_confidence


def test_a_tokens_confidence_is_its_probability():
    probabilities = torch.tensor([[0.7, 0.2, 0.1], [0.25, 0.25, 0.5]])
    logits = probabilities.log() + torch.tensor([[5.0], [-3.0]])
    assert token_confidence(logits).tolist() == pytest.approx([0.7, 0.5])
    assert hint_confidence(logits) == pytest.approx(0.35)
    assert hint_confidence(logits[:1]) == pytest.approx(0.7)


def test_one_uncertain_token_lowers_a_hints_confidence():
    sure, guess = [9.0, 0.0, 0.0], [0.1, 0.0, 0.0]
    assert hint_confidence(torch.tensor([sure, sure, guess])) < hint_confidence(torch.tensor([sure, sure]))
    assert hint_confidence(torch.tensor([sure, sure, guess])) == pytest.approx(
        hint_confidence(torch.tensor([guess])), rel=0.01
    )


def test_extreme_logits_stay_finite():
    assert hint_confidence(torch.tensor([[1e4, 0.0], [0.0, -1e4]])) == 1.0


def test_more_confident_hints_are_right_more_often():
    model = ToyModel(ToySettings(seed=3, exit_agreement=(0.6,)))
    hints = []
    for digest in range(0, 900, 3):
        texts = (digest, digest + 1, digest + 2)
        exits = torch.stack([model.exit_row(0, text) for text in texts])
        own = torch.stack([model.row(text) for text in texts])
        hints.append((hint_confidence(exits), bool(torch.equal(exits.argmax(-1), own.argmax(-1)))))
    hints.sort()
    half = len(hints) // 2
    assert sum(is_right for _, is_right in hints[half:]) > 3 * sum(is_right for _, is_right in hints[:half])
