# SPDX-License-Identifier: Apache-2.0
"""Every choice of the decoding engine, validated once. A strategy is a row of settings, not a loop."""

from __future__ import annotations

import math
from dataclasses import dataclass

from outrider.core.errors import ConfigError
from outrider.core.frames import (
    MAX_CHUNK_TOKENS,
    MAX_SEED,
    MAX_VOCABULARY,
    AcceptanceName,
    HintOrder,
    HintPolicy,
    IdlePolicy,
)
from outrider.core.model_options import DRAFT_BRANCHES
from outrider.core.values import Prompt
from outrider.decoding.drafting.retrieval.drafts import CALIBRATION, MODEL, source_names
from outrider.decoding.protocol.prefix_digest import prompt_digest
from outrider.decoding.protocol.refusals import check_wanted
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

ACCEPTANCES = ("greedy", "coupled", "rejection", "split", "sparse")
DETERMINISTIC = ("greedy", "coupled")
HINT_ORDERS = ("confidence", "fifo", "random")
LINK_LOSS_POLICIES = ("stop", "draft_only")


def mixed_seed(seed: int, number: int) -> int:
    """Another 64-bit seed for each number: noise that has nothing to do with the first."""
    return (seed + number * 0x1E3779B97F4A7C15) & MAX_SEED


def text_seed(seed: int, prompt: Prompt) -> int:
    """The 64-bit seed of one prompt's text: another one for every seed, and, but for chance, every prompt."""
    return (seed << 32 & MAX_SEED | seed >> 32) ^ prompt_digest(prompt)


@dataclass(frozen=True)
class Strategy:
    """What edge and cloud do.

    `window`: chunks in flight, the one being verified included. `streams`: a branch leaves as soon as the
    cloud may need it, whole or not. `num_guesses`: how many of its own second choices the edge drafts on at
    each position. `ahead`: branches that may still prove wrong go up before the verdict.
    """

    drafts: bool = True
    window: int = 1
    streams: bool = False
    hints: HintPolicy = "none"
    num_guesses: int = 0
    ahead: bool = False
    when_idle: IdlePolicy = "wait"
    bonus: bool = True
    acceptance: AcceptanceName = "rejection"


STRATEGIES: dict[str, Strategy] = {
    "ar": Strategy(drafts=False, when_idle="step", acceptance="coupled"),
    "sd": Strategy(),
    "dssd": Strategy(acceptance="split"),
    "fsd": Strategy(hints="all"),
    "picospec": Strategy(window=2, streams=True, bonus=False, acceptance="sparse"),
    "outrider": Strategy(
        window=8,
        streams=True,
        hints="useful",
        num_guesses=1,
        ahead=True,
        when_idle="adaptive",
        acceptance="coupled",
    ),
}


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn. Temperature 0 takes the likeliest token; top_p 1 and top_k 0 keep every token."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    top_k: int = 0

    def __post_init__(self) -> None:
        if not _is_number(self.temperature) or not 0.0 <= self.temperature <= 100.0:
            raise ConfigError(f"temperature={self.temperature!r} must be a number from 0 to 100")
        if not _is_number(self.top_p) or not 0.0 < self.top_p <= 1.0:
            raise ConfigError(f"top_p={self.top_p!r} must be above 0 and at most 1")
        _require_whole("top_k", self.top_k, 0, MAX_VOCABULARY)
        _require_whole("seed", self.seed, 0, MAX_SEED)


@dataclass(frozen=True)
class DecodingConfig:
    """A strategy with its sizes. `acceptance` is the strategy's own where left open (`scheme`). `workers`:
    how many branches are drafted on in one batch; more than one pays where the draft model batches them.
    `drafters`: where drafts come from in every strategy that drafts, the draft model and sources of retrieved
    text, which are used where they are surer than the model has proved to be.

    `wanted_model`: the target by the name that its verifier prints, empty for any.
    After `link_grace_s` without a link the edge goes on alone (`draft_only`) or keeps trying until the
    request's deadline (`stop`). After `silence_s` without an answer it asks again.
    `tuning`: of the edge's policy; a verifier has its own.
    """

    strategy: str = "outrider"
    num_draft_tokens: int = 4
    drafters: tuple[str, ...] = (MODEL,)
    acceptance: AcceptanceName | None = None
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    workers: int = DRAFT_BRANCHES
    edge_hint_order: HintOrder = "confidence"
    cloud_hint_order: HintOrder = "confidence"
    link_loss: str = "stop"
    link_grace_s: float = 1.0
    silence_s: float = 2.0
    wanted_model: str = ""
    tuning: AdaptiveTuning = DEFAULT_TUNING

    def __post_init__(self) -> None:
        _require_choice("strategy", self.strategy, tuple(STRATEGIES))
        if self.acceptance is not None:
            _require_choice("acceptance", self.acceptance, ACCEPTANCES)
        _require_choice("link_loss", self.link_loss, LINK_LOSS_POLICIES)
        _require_choice("edge_hint_order", self.edge_hint_order, HINT_ORDERS)
        _require_choice("cloud_hint_order", self.cloud_hint_order, HINT_ORDERS)
        _require_whole("num_draft_tokens", self.num_draft_tokens, 1, MAX_CHUNK_TOKENS)
        _require_whole("workers", self.workers, 1, 64)
        _require_seconds("link_grace_s", self.link_grace_s)
        _require_seconds("silence_s", self.silence_s)
        if not isinstance(self.tuning, AdaptiveTuning):
            raise ConfigError(f"tuning={self.tuning!r} must be an AdaptiveTuning")
        check_wanted(self.wanted_model)
        Sampling(self.temperature, self.top_p, self.seed, self.top_k)
        self._check_drafters()
        self._check_fit()

    def _check_drafters(self) -> None:
        names = self.drafters
        if not isinstance(names, (tuple, list)) or not names or len(set(names)) < len(names):
            raise ConfigError(f"drafters={names!r} must be a list of different names, at least one")
        for name in names:
            _require_choice("drafters", name, (MODEL, *source_names()))
        if CALIBRATION in names and "suffix" not in names:
            raise ConfigError(f"drafters={names!r}: calibration corrects what suffix copies, so name both")
        if CALIBRATION in names and MODEL not in names:
            raise ConfigError(f"drafters={names!r}: calibration needs the draft model's prefill: name model")
        object.__setattr__(self, "drafters", tuple(names))

    def _check_fit(self) -> None:
        plan, scheme = self.plan, self.scheme
        if not self.needs_model and self.link_loss == "draft_only":
            raise ConfigError(
                f"link_loss=draft_only needs a draft model, which strategy={self.strategy} with "
                f"drafters={','.join(self.drafters)} has not: use others or link_loss=stop"
            )
        if scheme not in DETERMINISTIC and plan.when_idle != "wait":
            raise ConfigError(
                f"acceptance={scheme} does not go with strategy={self.strategy}, whose cloud takes steps of "
                "its own: use coupled or greedy"
            )
        if scheme in ("split", "sparse") and plan.hints != "none":
            raise ConfigError(
                f"acceptance={scheme} leaves the last token to the edge, so strategy={self.strategy} would "
                "have no hints: use coupled, greedy or rejection"
            )
        if scheme == "greedy" and self.temperature > 0:
            raise ConfigError("acceptance=greedy is for temperature=0: use coupled")

    @property
    def plan(self) -> Strategy:
        return STRATEGIES[self.strategy]

    @property
    def needs_model(self) -> bool:
        """Whether the edge runs a draft model."""
        return self.plan.drafts and MODEL in self.drafters

    @property
    def sources(self) -> tuple[str, ...]:
        """Where retrieved drafts come from."""
        return tuple(name for name in self.drafters if name != MODEL) if self.plan.drafts else ()

    @property
    def scheme(self) -> AcceptanceName:
        """The acceptance scheme in force: where nothing is drawn `greedy` for one that tests distributions,
        which accepts the same and needs none of them.
        """
        own = self.plan.acceptance
        tests_nothing = self.temperature == 0.0 and own not in DETERMINISTIC
        return self.acceptance or ("greedy" if tests_nothing else own)

    def sampling_for(self, prompt: Prompt, number: int = 0) -> Sampling:
        """How the tokens of one text, a session's `number`-th, are drawn: each prompt has noise of its own
        under one seed. A test that decides on drafts must be independent of them: where they may come from
        earlier texts, each text has noise of its own.
        """
        seed = text_seed(self.seed, prompt)
        if self.sources and self.scheme not in DETERMINISTIC:
            seed = mixed_seed(seed, number)
        return Sampling(self.temperature, self.top_p, seed, self.top_k)


def drafter_names(text: str) -> tuple[str, ...]:
    """The drafters of an option or parameter: names with commas between."""
    return tuple(name.strip() for name in text.split(","))


def _require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name}={value!r} is not one of {', '.join(choices)}")


def _require_whole(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(f"{name}={value!r} must be a whole number from {low} to {high}")


def _require_seconds(name: str, value: float) -> None:
    if not _is_number(value) or not 0 < value < math.inf:
        raise ConfigError(f"{name}={value!r} must be a positive number of seconds")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
