"""Drafts on the target's side, measured on toys of known agreement, a shipped head and by the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.heads import ToyHead, toy_with_head
from support.tiny_models import build_tiny_pair, random_head
from support.toy_models import ToyModel, ToySettings

from outrider.cli import app
from outrider.core.errors import ModelError, OutriderError
from outrider.core.ports import Array
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.evaluation.pair.head_quality import (
    ALONE,
    HEAD,
    LOOKUP_ONLY,
    MODEL,
    Loaded,
    measure_head,
)
from outrider.models import load_head, load_model
from outrider.models.backbone.draft_head import write_head
from outrider.runtime.common.paths import models_folder
from outrider.runtime.datasets.held_out import held_out_prompts
from outrider.wire.codec import encode, wire_bytes

PROMPTS = [Prompt(f"w{index}", b"\xff\xd8") for index in range(8)]


def toys(agreement: float, eos_bias: float = -3.0) -> Loaded:
    target, head = toy_with_head(1, agreement, eos_bias)
    return target, ToyModel(ToySettings(seed=1, agreement=0.0, eos_bias=eos_bias)), head


@pytest.mark.lengthy
def test_what_is_measured_is_printed_and_written(tmp_path: Path) -> None:
    figures = measure_head(lambda: toys(1.0), PROMPTS, tmp_path / "head.json")
    assert figures["frames"] == len(PROMPTS) - 1
    assert json.loads((tmp_path / "head.json").read_text()) == json.loads(json.dumps(figures))
    alone = figures["drafts"][ALONE]
    assert alone["interval"] == pytest.approx((1.0, 1.0)), "but for rounding, whatever the clock says"
    assert (alone["over_ar"], alone["tokens_per_pass"], alone["token_share"]) == (1.0, 1.0, None)
    shares = {name: row["token_share"] for name, row in figures["drafts"].items()}
    assert shares[LOOKUP_ONLY] is None and shares[HEAD] > 0.0 and shares[MODEL] > 0.0


@pytest.mark.lengthy
def test_the_shipped_targets_head_saves_passes() -> None:
    folder = models_folder(None) / "target"
    target = load_model(folder)
    compute = ComputeProfile(verify_s=0.03, cloud_draft_token_s=0.002)
    world = VirtualWorld(lambda frame: wire_bytes(encode(frame)), compute)
    served = VirtualDecoder(target, None, DecodingConfig(), world, cloud_head=load_head(folder, target))
    alone = VirtualDecoder(target, None, DecodingConfig("ar"), world)
    tokens = passes = 0
    for prompt in held_out_prompts(5, seed=3):
        decoded = served.decode(DecodeRequest(prompt, deadline_s=1e5))
        assert decoded.token_ids == alone.decode(DecodeRequest(prompt, deadline_s=1e5)).token_ids
        tokens, passes = tokens + len(decoded.token_ids), passes + decoded.target_passes
    assert tokens > 2.0 * passes
    assert served.now_s < 0.6 * alone.now_s


def test_texts_that_differ_are_a_fault() -> None:
    seeds = iter(range(9))

    def load() -> Loaded:
        target, head = toy_with_head(next(seeds), 1.0, -3.0)
        return target, target, head

    with pytest.raises(OutriderError, match="has changed a text"):
        measure_head(load, PROMPTS[:2])


@pytest.mark.lengthy
def test_the_command_measures_a_models_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = build_tiny_pair(tmp_path)
    command = ["eval", "head", "--models", str(folder), "--frames", "1"]
    with pytest.raises(ModelError, match="outrider train head"):
        app(command, standalone_mode=False)
    text = load_model(folder / "target").text
    write_head(folder / "target", random_head(text), text)
    app(command, standalone_mode=False)
    printed = capsys.readouterr().out
    assert all(name in printed for name in (ALONE, LOOKUP_ONLY, HEAD, MODEL))


def test_a_toys_head_says_what_it_is() -> None:
    target, head = toy_with_head(1, 1.0)
    row: Array = target.row(7)
    assert isinstance(head, ToyHead) and head.logits(head.begin(row)[None]).equal(row[None])
