"""Every choice of the decoding engine, validated once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from outrider.core.errors import ConfigError
from outrider.core.frames import MAX_CHUNK_TOKENS

STRATEGIES = ("ar", "sd")
ACCEPTANCES = ("greedy",)
LINK_LOSS_POLICIES = ("stop", "draft_only")


@dataclass(frozen=True)
class DecodingConfig:
    """A strategy is a setting of these fields, not a loop of its own.

    `ar`: the cloud steps alone and streams tokens. `sd`: the edge drafts `num_draft_tokens`, the cloud
    verifies. After `link_grace_s` without a link the edge goes on alone (`draft_only`) or keeps trying until
    the request's deadline (`stop`). After `silence_s` without an answer it asks again.
    """

    strategy: str = "sd"
    num_draft_tokens: int = 4
    acceptance: str = "greedy"
    link_loss: str = "stop"
    link_grace_s: float = 1.0
    silence_s: float = 2.0

    def __post_init__(self) -> None:
        _require_choice("strategy", self.strategy, STRATEGIES)
        _require_choice("acceptance", self.acceptance, ACCEPTANCES)
        _require_choice("link_loss", self.link_loss, LINK_LOSS_POLICIES)
        _require_whole("num_draft_tokens", self.num_draft_tokens, 1, MAX_CHUNK_TOKENS)
        _require_seconds("link_grace_s", self.link_grace_s)
        _require_seconds("silence_s", self.silence_s)
        if self.strategy == "ar" and self.link_loss == "draft_only":
            raise ConfigError("link_loss=draft_only needs a draft, strategy=ar has none: use sd or stop")

    @property
    def drafts(self) -> bool:
        """Whether the edge runs a draft model."""
        return self.strategy == "sd"

    @property
    def when_idle(self) -> Literal["wait", "step"]:
        """What the cloud does while no draft fits."""
        return "wait" if self.drafts else "step"

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> DecodingConfig:
        """From parsed options or a parameter file; unknown names are refused."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ConfigError(
                f"unknown decoding option(s) {', '.join(unknown)}; known: {', '.join(sorted(known))}"
            )
        return cls(**values)


def _require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name}={value!r} is not one of {', '.join(choices)}")


def _require_whole(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(f"{name}={value!r} must be a whole number from {low} to {high}")


def _require_seconds(name: str, value: object) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < math.inf:
        raise ConfigError(f"{name}={value!r} must be a positive number of seconds")
