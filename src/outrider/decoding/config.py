# SPDX-License-Identifier: Apache-2.0
"""All settings of the decoding engine, validated once. A strategy is a set of settings, not a loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from outrider.core.errors import ConfigError
from outrider.core.frames import (
    MAX_CHUNK_TOKENS,
    AcceptanceName,
    HintOrder,
    HintPolicy,
    IdlePolicy,
)
from outrider.core.model_options import DRAFT_BRANCHES
from outrider.core.values import Prompt
from outrider.decoding.drafting.retrieval.drafts import CALIBRATION, MODEL, source_names
from outrider.decoding.protocol.refusals import check_wanted
from outrider.decoding.protocol.sampling_rules import Sampling, mixed_seed, text_seed
from outrider.decoding.protocol.validation import require_choice, require_seconds, require_whole
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

if TYPE_CHECKING:
    from outrider.decoding.acceptance.schemes import AcceptanceScheme

HINT_ORDERS = ("confidence", "fifo", "random")
LINK_LOSS_POLICIES = ("stop", "draft_only")


@dataclass(frozen=True)
class Strategy:
    """The settings of edge and cloud.

    `window`: how many chunks a branch may reach beyond the text or its hint. `streams`: a branch is sent as
    soon as the cloud may need it, whole or not. `num_guesses`: how many of its own second choices the edge
    drafts on at each position. `ahead`: branches that may still prove wrong are sent before the verdict.
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
class DecodingConfig:
    """A strategy with its sizes. `acceptance`: the strategy's own if None (`scheme`). `workers`: how many
    branches are drafted on in one batch; more than one pays if the draft model batches them. `drafters`:
    the sources of drafts in every strategy that drafts: the draft model, and sources of retrieved text,
    used where they are surer than the model has proved to be.

    `wanted_model`: the target by the name that its verifier prints, empty for any. After `link_grace_s`
    without a link, the edge goes on alone (`draft_only`) or keeps trying until the request's deadline
    (`stop`). After `silence_s` without an answer, it asks again. `tuning`: of the edge's policy; a verifier
    has its own.
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
        require_choice("strategy", self.strategy, tuple(STRATEGIES))
        if self.acceptance is not None:
            require_choice("acceptance", self.acceptance, get_args(AcceptanceName))
        require_choice("link_loss", self.link_loss, LINK_LOSS_POLICIES)
        require_choice("edge_hint_order", self.edge_hint_order, HINT_ORDERS)
        require_choice("cloud_hint_order", self.cloud_hint_order, HINT_ORDERS)
        require_whole("num_draft_tokens", self.num_draft_tokens, 1, MAX_CHUNK_TOKENS)
        require_whole("workers", self.workers, 1, 64)
        require_seconds("link_grace_s", self.link_grace_s)
        require_seconds("silence_s", self.silence_s)
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
            require_choice("drafters", name, (MODEL, *source_names()))
        if CALIBRATION in names and "suffix" not in names:
            raise ConfigError(f"drafters={names!r}: calibration corrects what suffix copies, so name both")
        if CALIBRATION in names and MODEL not in names:
            raise ConfigError(f"drafters={names!r}: calibration needs the draft model's prefill: name model")
        object.__setattr__(self, "drafters", tuple(names))

    def _check_fit(self) -> None:
        if not self.needs_model and self.link_loss == "draft_only":
            raise ConfigError(
                f"link_loss=draft_only needs a draft model, which strategy={self.strategy} with "
                f"drafters={','.join(self.drafters)} has not: use others or link_loss=stop"
            )
        # A strategy's own scheme always fits it.
        if self.acceptance is not None:
            self._check_acceptance()

    def _check_acceptance(self) -> None:
        plan, scheme = self.plan, self.scheme
        if not scheme.deterministic and plan.when_idle != "wait":
            raise ConfigError(
                f"acceptance={scheme.name} does not go with strategy={self.strategy}, whose cloud takes "
                "steps of its own: use coupled or greedy"
            )
        if scheme.resamples_at_edge and plan.hints != "none":
            raise ConfigError(
                f"acceptance={scheme.name} leaves the last token to the edge, so strategy={self.strategy} "
                "would have no hints: use coupled, greedy or rejection"
            )
        if not scheme.samples and self.temperature > 0:
            raise ConfigError(f"acceptance={scheme.name} is for temperature=0: use coupled")

    @property
    def plan(self) -> Strategy:
        """The settings of the configured strategy."""
        return STRATEGIES[self.strategy]

    @property
    def needs_model(self) -> bool:
        """Whether the edge runs a draft model."""
        return self.plan.drafts and MODEL in self.drafters

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of retrieved drafts."""
        return tuple(name for name in self.drafters if name != MODEL) if self.plan.drafts else ()

    @property
    def scheme(self) -> AcceptanceScheme:
        """The acceptance scheme in force. At temperature 0, a strategy's own scheme that tests
        distributions is replaced by `greedy`, which accepts the same tokens and needs no distributions.
        """
        from outrider.decoding.acceptance.schemes import GREEDY, SCHEMES  # torch: seconds to import

        if self.acceptance is not None:
            return SCHEMES[self.acceptance]
        own = SCHEMES[self.plan.acceptance]
        return own if own.deterministic or self.temperature > 0.0 else GREEDY

    def sampling_for(self, prompt: Prompt, number: int = 0) -> Sampling:
        """Return how the tokens of a session's `number`-th text are drawn. Under one seed, each prompt has
        noise of its own. A test of draft tokens must be independent of them: if drafts may come from
        earlier texts, each text has noise of its own too.
        """
        seed = text_seed(self.seed, prompt)
        if self.sources and not self.scheme.deterministic:
            seed = mixed_seed(seed, number)
        return Sampling(self.temperature, self.top_p, seed, self.top_k)


def drafter_names(text: str) -> tuple[str, ...]:
    """Return the drafters named in an option or parameter, separated by commas."""
    return tuple(name.strip() for name in text.split(","))
