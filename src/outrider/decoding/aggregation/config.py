# SPDX-License-Identifier: Apache-2.0
"""All settings of aggregation, validated when they are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from outrider.core.errors import ConfigError
from outrider.core.frames import (
    MAX_NEW_TOKENS,
    AggregationRule,
    AggregationRules,
    AggregatorPolicy,
    Synchronisation,
)
from outrider.core.values import Prompt
from outrider.decoding.acceptance.philox import signed
from outrider.decoding.protocol.refusals import check_wanted
from outrider.decoding.protocol.sampling_rules import Sampling, text_seed
from outrider.decoding.protocol.validation import require_choice, require_seconds, require_whole


@dataclass(frozen=True)
class AggregationConfig:
    """How two peers write one text.

    `sync`: `speculative` drafts ahead and rolls back (DRAGON); `token` waits for every token (VDRAG, in the
    evaluation DRDG/TW); `sequence` lets each side write its own text and takes one of the two (DRDG/SW);
    `alone` is the device without the cloud. `rule`: see `aggregation.rule`; by default `greedy` at
    temperature 0, else `coupled`. `aggregator`: which side joins the drafts, for rules that need both
    distributions. `window`: the most drafts ahead. Temperature, top-k and top-p are applied to each
    document's distribution before anything is joined; `greedy` uses the distributions at temperature 1.
    After `silence_s` without a frame, a side asks again. `wanted_model`: the cloud's model by the name that
    it prints, empty for any.
    """

    sync: Synchronisation = "speculative"
    rule: AggregationRule | None = None
    aggregator: AggregatorPolicy = "scheduled"
    window: int = 48
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    silence_s: float = 2.0
    wanted_model: str = ""

    def __post_init__(self) -> None:
        require_choice("sync", self.sync, get_args(Synchronisation))
        require_choice("aggregator", self.aggregator, get_args(AggregatorPolicy))
        if self.rule is not None:
            require_choice("rule", self.rule, get_args(AggregationRule))
        require_whole("window", self.window, 1, MAX_NEW_TOKENS)
        require_seconds("silence_s", self.silence_s)
        check_wanted(self.wanted_model)
        Sampling(self.temperature, self.top_p, self.seed, self.top_k)
        if self.temperature == 0.0 and self.rule not in (None, "greedy"):
            raise ConfigError(f"rule={self.rule} draws tokens: give a temperature above 0, or rule=greedy")
        if self.temperature > 0.0 and self.rule == "greedy":
            raise ConfigError("rule=greedy is for temperature=0: use coupled or rejection")

    @property
    def rule_in_force(self) -> AggregationRule:
        """The configured rule, or the default for the temperature."""
        return self.rule or ("greedy" if self.temperature == 0.0 else "coupled")

    def rules_for(self, prompt: Prompt) -> AggregationRules:
        """Return what both sides must agree on for a text; under one seed each prompt has its own noise."""
        return AggregationRules(
            sync=self.sync,
            rule=self.rule_in_force,
            aggregator=self.aggregator,
            window=1 if self.sync == "token" else self.window,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            seed_bits=signed(text_seed(self.seed, prompt)),
        )


def document_sampling(rules: AggregationRules) -> Sampling:
    """Return how a document's logits become its distribution."""
    temperature = 1.0 if rules.rule == "greedy" else rules.temperature
    return Sampling(temperature, rules.top_p, rules.seed, rules.top_k)
