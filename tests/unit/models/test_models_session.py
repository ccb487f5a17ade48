"""The runtime against transformers' own forward pass, and its promises: sessions, rollback, equal bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.tiny_models import random_jpeg, random_prompt
from transformers import Qwen2VLForConditionalGeneration

from outrider.core.errors import ConfigError, FrameError
from outrider.core.language.prompt import PROMPT_PREFIX
from outrider.core.values import Prompt
from outrider.models import QwenModel, QwenSession, load_model
from outrider.models.backbone.batch import DECODE_ROWS, SPAN_STEP
from outrider.models.backbone.text_stack import TextStack
from outrider.models.inputs.images import Preprocessing, decode_jpeg, patchify
from outrider.models.session import PREFILL_ROWS

GENERATED = 30


@pytest.fixture(scope="module")
def reference(tiny_model_folder: Path) -> Qwen2VLForConditionalGeneration:
    return Qwen2VLForConditionalGeneration.from_pretrained(tiny_model_folder / "target").eval()


def reference_logits(
    reference: Qwen2VLForConditionalGeneration, model: QwenModel, prompt: Prompt, new_ids: list[int]
) -> torch.Tensor:
    """Return transformers' logits (1 + len(new_ids), V) after the prompt and each new token; no cache."""
    token_ids, image = model.tokenizer.encode(prompt.text), {}
    if prompt.jpeg:
        rgb = decode_jpeg(prompt.jpeg)
        rows, columns = rgb.shape[0] // 14, rgb.shape[1] // 14
        at = token_ids.index(model.tokenizer.image_id)
        token_ids[at : at + 1] = [model.tokenizer.image_id] * (rows * columns // 4)
        image["pixel_values"] = torch.from_numpy(patchify(rgb, Preprocessing()))
        image["image_grid_thw"] = torch.tensor([[1, rows, columns]])
    ids = torch.tensor([token_ids + new_ids])
    kinds = (ids == model.tokenizer.image_id).int()
    with torch.no_grad():
        logits = reference(ids, mm_token_type_ids=kinds, use_cache=False, **image).logits[0]
    return logits[len(token_ids) - 1 :, : model.vocab_size]


def greedy(session: QwenSession, prompt: Prompt, count: int) -> tuple[list[int], torch.Tensor]:
    """Return greedy token ids, and the logits (count + 1, V) after the prompt and after each of them."""
    rows, token_ids = [session.prefill(prompt)], []
    for _ in range(count):
        token_ids.append(int(rows[-1].argmax()))
        rows.append(session.forward(token_ids[-1:])[0])
    return token_ids, torch.stack(rows)


@pytest.mark.parametrize("prompt", [random_prompt(1), random_prompt(2), Prompt("find the cup", b"")])
def test_step_by_step_decoding_equals_transformers(
    target: QwenModel, reference: Qwen2VLForConditionalGeneration, prompt: Prompt
) -> None:
    token_ids, logits = greedy(target.open_session(), prompt, GENERATED)
    expected = reference_logits(reference, target, prompt, token_ids)
    assert torch.allclose(logits, expected, atol=1e-4, rtol=1e-4)
    assert torch.equal(logits.argmax(-1), expected.argmax(-1))
    assert len(set(token_ids)) > 3, "a text of one repeated token would not tell positions apart"


def test_a_frame_of_another_size_equals_transformers(
    target: QwenModel, reference: Qwen2VLForConditionalGeneration
) -> None:
    prompt = Prompt(random_prompt(1).text, random_jpeg(7, width=84, height=224))
    token_ids, logits = greedy(target.open_session(), prompt, 4)
    assert torch.allclose(
        logits, reference_logits(reference, target, prompt, token_ids), atol=1e-4, rtol=1e-4
    )


def test_interleaved_sessions_do_not_meet(target: QwenModel) -> None:
    prompts = [random_prompt(1), Prompt("find the cup", b"")]
    alone = [greedy(target.open_session(), prompt, 6)[1] for prompt in prompts]
    sessions = [target.open_session() for _ in prompts]
    rows = [[session.prefill(prompt)] for session, prompt in zip(sessions, prompts, strict=True)]
    for _ in range(6):
        for session, seen in zip(sessions, rows, strict=True):
            seen.append(session.forward([int(seen[-1].argmax())])[0])
    for seen, expected in zip(rows, alone, strict=True):
        assert torch.equal(torch.stack(seen), expected)


@pytest.mark.parametrize("chunk", [2, 3, 5, DECODE_ROWS, DECODE_ROWS + 1, GENERATED])
def test_one_token_and_a_chunk_give_the_same_bits(target: QwenModel, chunk: int) -> None:
    token_ids, logits = greedy(target.open_session(), random_prompt(4), GENERATED)
    session = target.open_session()
    rows = [session.prefill(random_prompt(4))[None]]
    assert session.length < SPAN_STEP < session.length + GENERATED, "the text is to cross a span's end"
    rows += [session.forward(token_ids[i : i + chunk]) for i in range(0, GENERATED, chunk)]
    assert torch.equal(torch.cat(rows), logits)


def test_truncation_leaves_no_trace(target: QwenModel) -> None:
    token_ids, logits = greedy(target.open_session(), random_prompt(5), 6)
    session = target.open_session()
    session.prefill(random_prompt(5))
    length = session.length
    session.forward(token_ids[:2])
    session.forward([7, 8, 9, 10, 11])
    session.truncate(length + 2)
    assert session.length == length + 2
    assert torch.equal(session.forward(token_ids[2:6]), logits[3:])


def test_truncate_refuses_what_it_cannot_keep(target: QwenModel) -> None:
    session = target.open_session()
    session.prefill(random_prompt(1))
    with pytest.raises(ValueError, match="cannot truncate"):
        session.truncate(session.length + 1)
    with pytest.raises(ValueError, match="cannot truncate"):
        session.truncate(3)


def test_a_reused_session_gives_the_same_bits_as_a_fresh_one(target: QwenModel) -> None:
    used = target.open_session()
    for other in (random_prompt(1), Prompt("find the cup", b""), random_prompt(2)):
        greedy(used, other, 3)
    assert torch.equal(
        greedy(used, random_prompt(3), 5)[1], greedy(target.open_session(), random_prompt(3), 5)[1]
    )


def test_the_head_of_the_prompt_is_run_once(target: QwenModel, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    run = QwenSession._run_prompt

    def counting(session: QwenSession, layout: object, start: int, end: int) -> torch.Tensor:
        rows.append(end - start)
        return run(session, layout, start, end)  # type: ignore[arg-type]

    monkeypatch.setattr(QwenSession, "_run_prompt", counting)
    session = target.open_session()
    head = len(target.tokenizer.encode(PROMPT_PREFIX)) - 2
    session.prefill(random_prompt(1))
    first = session.length
    session.prefill(random_prompt(2))
    assert rows == [head, first - head, session.length - head]


def test_the_parts_of_a_prompt_are_alike(target: QwenModel, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    run = TextStack.forward

    def counting(stack: TextStack, hidden: torch.Tensor, *others: Any, **named: Any) -> torch.Tensor:
        rows.append(hidden.shape[0])
        return run(stack, hidden, *others, **named)

    monkeypatch.setattr(TextStack, "forward", counting)
    session = target.open_session()
    session.prefill(Prompt("find the cup " * 60, b""))
    assert sum(rows) == session.length
    assert PREFILL_ROWS // 2 < min(rows) <= max(rows) <= min(min(rows) + 1, PREFILL_ROWS)


def test_the_same_frame_is_encoded_once(tiny_model_folder: Path) -> None:
    model = load_model(tiny_model_folder / "target")
    runs: list[int] = []
    model.vision._tower.patch_embed.register_forward_hook(lambda *_: runs.append(1))
    for _ in range(2):
        model.open_session().prefill(random_prompt(1))
    model.open_session().prefill(random_prompt(2))
    assert len(runs) == 2


def test_padding_rows_of_the_vocabulary_never_appear(
    target: QwenModel, reference: Qwen2VLForConditionalGeneration
) -> None:
    assert reference.config.text_config.vocab_size > target.vocab_size == target.tokenizer.vocab_size
    assert target.open_session().prefill(random_prompt(1)).shape == (target.vocab_size,)


def test_too_long_a_prompt_or_text_is_refused(tiny_model_folder: Path) -> None:
    model = load_model(tiny_model_folder / "target", max_length=120)
    session = model.open_session()
    with pytest.raises(ConfigError, match="do not fit"):
        session.prefill(random_prompt(1, instruction="find the bottle " * 40))
    with pytest.raises(ConfigError, match="smaller frame"):
        session.prefill(Prompt(random_prompt(1).text, random_jpeg(1, width=1280, height=720)))
    session.prefill(random_prompt(1))
    room = model.max_length - session.length
    session.forward([5] * room)
    with pytest.raises(ConfigError, match="max_length"):
        session.forward([5])


@pytest.mark.parametrize("jpeg", [b"", b"GIF89a", random_jpeg(1)[:-40], b"\xff\xd8\xff\x00\x00\xff\xd9"])
def test_a_bad_frame_is_refused_and_the_session_goes_on(target: QwenModel, jpeg: bytes) -> None:
    session = target.open_session()
    before = greedy(session, random_prompt(1), 3)[1]
    with pytest.raises(FrameError):
        session.prefill(Prompt(random_prompt(2).text, jpeg))
    assert torch.equal(greedy(session, random_prompt(1), 3)[1], before)


def test_two_image_placeholders_are_refused(target: QwenModel) -> None:
    with pytest.raises(ConfigError, match="at most one"):
        one = random_prompt(1)
        target.open_session().prefill(Prompt(one.text.replace("task:", "<|image_pad|>task:"), one.jpeg))
