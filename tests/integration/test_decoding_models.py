"""The engine on real (tiny, random) Qwen2-VL models: `sd` and `ar` agree to the token."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch
from support.captured import stand_in_for_cuda
from support.tiny_models import add_exits, build_tiny_pair, random_head

from outrider.core.frames import Peer
from outrider.core.language.prompt import PromptContext, render_prompt
from outrider.core.link_profile import LinkProfile
from outrider.core.sensors.camera import MODEL_IMAGE_HEIGHT, MODEL_IMAGE_WIDTH
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.acceptance.schemes import GREEDY
from outrider.decoding.config import DecodingConfig
from outrider.decoding.execution.workers import TargetWorker
from outrider.decoding.jobs import Aborted, Judgement, PrefillTarget, SessionKey, Verify
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.fleet import Fleet
from outrider.decoding.simulation.fleet_world import FleetText, FleetWorld
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.models import QwenModel, load_head, load_model
from outrider.models.backbone import cuda_graph_steps
from outrider.models.backbone.draft_head import write_head
from outrider.runtime.wiring.decoders import local_decoder
from outrider.wire.codec import encode, wire_bytes


@pytest.fixture(scope="module")
def pair(tiny_model_folder):
    return (
        load_model(tiny_model_folder / "target", role="target"),
        load_model(tiny_model_folder / "draft", role="draft"),
    )


def asked(seed: int) -> DecodeRequest:
    pixels = np.random.default_rng(seed).integers(
        0, 256, (MODEL_IMAGE_HEIGHT, MODEL_IMAGE_WIDTH, 3), np.uint8
    )
    _, jpeg = cv2.imencode(".jpg", cv2.blur(pixels, (9, 9)))
    return DecodeRequest(
        Prompt(render_prompt(PromptContext("find the red chair")), jpeg.tobytes()), 24, 600.0
    )


def test_strategies_agree_on_real_models(pair):
    target, draft = pair
    noisy = LinkProfile(delay_s=0.05, jitter_s=0.2, loss=0.2, ordered=False)
    world = VirtualWorld(lambda frame: wire_bytes(encode(frame)), uplink=noisy, downlink=noisy, seed=4)
    ar = local_decoder(target, None, DecodingConfig(strategy="ar"))
    others = [
        local_decoder(target, draft, DecodingConfig(num_draft_tokens=4)),
        local_decoder(target, target, DecodingConfig(num_draft_tokens=6)),
        VirtualDecoder(target, draft, DecodingConfig(num_draft_tokens=3), world),
        VirtualDecoder(target, None, DecodingConfig(strategy="ar"), world),
    ]
    for seed in range(4):
        expected = ar.decode(asked(seed))
        for decoder in others:
            decoded = decoder.decode(asked(seed))
            assert decoded.token_ids == expected.token_ids
            assert decoded.text == expected.text


def test_a_draft_model_equal_to_the_target_is_always_accepted(pair):
    target, _ = pair
    config = DecodingConfig(strategy="sd", acceptance="greedy", num_draft_tokens=5)
    decoded = local_decoder(target, target, config).decode(asked(1))
    assert decoded.target_passes == len(decoded.rounds) == -(-len(decoded.token_ids) // 6)


def with_exits(path):
    """Returns the folder of a tiny pair whose target has an early exit."""
    folder = build_tiny_pair(path)
    add_exits(folder / "target", (1,), torch.arange(5, 60))
    return folder


def target_at(place: str, folder, monkeypatch, sessions: int) -> QwenModel:
    """Returns the target on the CPU, on the CPU with a GPU's execution path, or on a GPU if there is one."""
    if place == "a GPU" and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    loaded = load_model(folder / "target", sessions=sessions, device="cuda" if place == "a GPU" else "cpu")
    return captured(loaded, monkeypatch) if place == "as on a GPU" else loaded


def captured(loaded: QwenModel, monkeypatch) -> QwenModel:
    """Returns the same weights with a GPU's execution path: captured steps, on a stand-in for CUDA."""
    stand_in_for_cuda(monkeypatch)
    monkeypatch.setattr(cuda_graph_steps, "DirectLauncher", cuda_graph_steps.GraphLauncher)
    parts = loaded.name, loaded.tokenizer, loaded.text, loaded.vision, loaded.max_length, loaded.card
    return QwenModel(*parts, loaded.exit_heads, sessions=3, static_steps=True)


@pytest.mark.parametrize("place", ["the CPU", "as on a GPU", "a GPU"])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_draft_head_changes_no_token(tmp_path, monkeypatch, place, temperature):
    folder = with_exits(tmp_path)
    text = load_model(folder / "target").text
    write_head(folder / "target", random_head(text), text)
    target = target_at(place, folder, monkeypatch, sessions=3)
    head = load_head(folder / "target", target)
    config = DecodingConfig(drafters=("lookup",), temperature=temperature, seed=3)
    alone = DecodingConfig("ar", temperature=temperature, seed=3)
    world = VirtualWorld(lambda frame: wire_bytes(encode(frame)), uplink=LinkProfile(0.05), seed=4)
    expected = VirtualDecoder(target, None, alone, world)
    served = VirtualDecoder(target, None, config, world, cloud_head=head)
    steps, advance = [], head.advance
    monkeypatch.setattr(head, "advance", lambda *given: steps.append(1) or advance(*given))
    for seed in range(3):
        assert served.decode(asked(seed)).token_ids == expected.decode(asked(seed)).token_ids
    assert steps, "the head drafts nothing"


@pytest.mark.parametrize("place", ["as on a GPU", "a GPU"])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_robots_on_a_targets_captured_steps_write_what_it_writes_alone(
    tmp_path, monkeypatch, temperature, place
):
    """As on a GPU: sessions in one batch, hints during a forward pass, chunks of any length."""
    folder = with_exits(tmp_path)
    target = target_at(place, folder, monkeypatch, sessions=3)
    draft = load_model(folder / "draft", role="draft")
    settings = {"temperature": temperature, "seed": 5}
    alone = local_decoder(target, None, DecodingConfig(strategy="ar", **settings))
    expected = [alone.decode(asked(seed)).token_ids for seed in range(3)]
    fleet = Fleet(target, FleetWorld(lambda frame: wire_bytes(encode(frame))))
    robots = [
        fleet.add(
            iter([FleetText(asked(seed).prompt, 24)]),
            each if strategy != "ar" else None,
            DecodingConfig(strategy=strategy, num_draft_tokens=6, **settings),
        )
        for seed, (strategy, each) in enumerate([("outrider", draft), ("outrider", target), ("ar", None)])
    ]
    fleet.run()
    assert [robot.texts for robot in robots] == [[text] for text in expected]
    assert max(fleet.cloud.record.batches) > 1


@pytest.mark.parametrize("place", ["the CPU", "as on a GPU", "a GPU"])
def test_an_aborted_verification_does_not_change_the_next(tmp_path, monkeypatch, place):
    target = target_at(place, with_exits(tmp_path), monkeypatch, sessions=2)
    workers = TargetWorker(target), TargetWorker(target)
    key, sampling = SessionKey(Peer("", b"robot"), 1), Sampling()

    def judged(tokens: tuple[int, ...], draft: tuple[int, ...], *aborted: tuple[int, ...]) -> Judgement:
        """Returns both workers' judgement, after the first one aborted verifications of `aborted`."""
        for other in aborted:
            job = Verify(key, 1, tokens, other, (None,) * len(other), GREEDY, sampling, True, True)
            [left] = workers[0].run([job], lambda job, hint: True)
            assert isinstance(left, Aborted)
        job = Verify(key, 1, tokens, draft, (None,) * len(draft), GREEDY, sampling, True, True)
        [one], [other] = (worker.run([job], lambda job, hint: False) for worker in workers)
        assert isinstance(one, Judgement) and one == other
        return one

    for worker in workers:
        while worker.run([PrefillTarget(key, 1, asked(0).prompt, 24)], lambda job, hint: False) != [None]:
            pass
    text: tuple[int, ...] = ()
    for draft, *aborted in (((7, 8),), ((7,), (9, 10, 11)), ((), (7, 8), (9,)), ((12, 13), ())):
        one = judged(text, draft, *aborted)
        text += (*draft[: one.accepted], one.next_token)
    assert len(text) >= 4
