# SPDX-License-Identifier: Apache-2.0
"""How the tokens of a text are drawn: temperature, top-k, top-p, and the seed of all random decisions."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.core.errors import ConfigError, ProtocolError
from outrider.core.frames import MAX_SEED, MAX_VOCABULARY, Rules
from outrider.core.values import Prompt
from outrider.decoding.protocol.prefix_digest import prompt_digest
from outrider.decoding.protocol.validation import is_number, require_whole


def mixed_seed(seed: int, number: int) -> int:
    """Return another 64-bit seed for each number. Its noise is independent of the first seed's."""
    return (seed + number * 0x1E3779B97F4A7C15) & MAX_SEED


def text_seed(seed: int, prompt: Prompt) -> int:
    """Return the 64-bit seed of one prompt's text. It differs for every seed and (nearly) every prompt."""
    return (seed << 32 & MAX_SEED | seed >> 32) ^ prompt_digest(prompt)


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn. Temperature 0 picks the likeliest token; top_p 1 and top_k 0 keep every token.

    Raises ConfigError for a value out of range.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    top_k: int = 0

    def __post_init__(self) -> None:
        if not is_number(self.temperature) or not 0.0 <= self.temperature <= 100.0:
            raise ConfigError(f"temperature={self.temperature!r} must be a number from 0 to 100")
        if not is_number(self.top_p) or not 0.0 < self.top_p <= 1.0:
            raise ConfigError(f"top_p={self.top_p!r} must be above 0 and at most 1")
        require_whole("top_k", self.top_k, 0, MAX_VOCABULARY)
        require_whole("seed", self.seed, 0, MAX_SEED)


def sampling_of(rules: Rules) -> Sampling:
    """Return the sampling that an edge's rules ask for. Raises ProtocolError for a value out of range."""
    try:
        return Sampling(rules.temperature, rules.top_p, rules.seed, rules.top_k)
    except ConfigError as error:
        raise ProtocolError(str(error)) from None
