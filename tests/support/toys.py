"""Toy pairs, prompts and the target's own text, for the decoding tests."""

from __future__ import annotations

from support.choices import choose
from support.toy_models import ToyModel, ToySettings

from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.protocol.prefix_digest import extend_digest, prompt_digest
from outrider.decoding.protocol.sampling_rules import Sampling

JPEG = b"\xff\xd8 a frame"


EXIT_AGREEMENT = (0.3, 0.6, 0.9)


def toy_pair(seed: int, agreement: float, eos_bias: float = -1.0) -> tuple[ToyModel, ToyModel]:
    """Returns a target with early exits, and a draft that agrees with it at the given rate per position."""
    target = ToyModel(ToySettings(seed=seed, eos_bias=eos_bias, exit_agreement=EXIT_AGREEMENT))
    draft = ToyModel(ToySettings(seed=seed, eos_bias=eos_bias, agreement=agreement, prompt_length=5))
    return target, draft


def request(
    name: str = "find the silver bottle", max_new_tokens: int = 40, deadline_s: float = 30.0
) -> DecodeRequest:
    return DecodeRequest(Prompt(name, JPEG), max_new_tokens, deadline_s)


def own_text(model: ToyModel, asked: DecodeRequest, sampling: Sampling | None = None) -> tuple[int, ...]:
    """Returns the text of plain decoding, which every strategy must reproduce. Greedy by default."""
    sampling = sampling or Sampling()
    session = model.open_session()
    tokens = [choose(session.prefill(asked.prompt), sampling, 0)]
    while tokens[-1] not in model.end_ids and len(tokens) < asked.max_new_tokens:
        tokens.append(choose(session.forward(tokens[-1:])[0], sampling, len(tokens)))
    return tuple(tokens)


def greedy_token_after(model: ToyModel, asked: DecodeRequest, tokens: tuple[int, ...]) -> int:
    """Returns the token that a model would greedily write next."""
    return int(model.row(extend_digest(prompt_digest(asked.prompt), tokens)).argmax())
