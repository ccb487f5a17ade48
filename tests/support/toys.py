"""Shared by the decoding tests: toy pairs, prompts, and the text a target alone would write."""

from __future__ import annotations

from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.digest import extend_digest, prompt_digest
from outrider.decoding.toy import ToyModel, ToySettings

JPEG = b"\xff\xd8 a frame"


def toy_pair(seed: int, agreement: float, eos_bias: float = -1.0) -> tuple[ToyModel, ToyModel]:
    """A target and a draft that predicts like it with the given chance per position."""
    target = ToyModel(ToySettings(seed=seed, eos_bias=eos_bias))
    draft = ToyModel(ToySettings(seed=seed, eos_bias=eos_bias, agreement=agreement, prompt_length=5))
    return target, draft


def request(
    name: str = "find the silver bottle", max_new_tokens: int = 40, deadline_s: float = 30.0
) -> DecodeRequest:
    return DecodeRequest(Prompt(name, JPEG), max_new_tokens, deadline_s)


def greedy_text(model: ToyModel, asked: DecodeRequest) -> tuple[int, ...]:
    """Plain greedy decoding with a session of its own: what every strategy must reproduce."""
    session = model.open_session()
    tokens = [int(session.prefill(asked.prompt).argmax())]
    while tokens[-1] != model.eos_id and len(tokens) < asked.max_new_tokens:
        tokens.append(int(session.forward(tokens[-1:])[0].argmax()))
    return tuple(tokens)


def greedy_token_after(model: ToyModel, asked: DecodeRequest, tokens: tuple[int, ...]) -> int:
    """What a model would write next."""
    return int(model.row(extend_digest(prompt_digest(asked.prompt), tokens)).argmax())
