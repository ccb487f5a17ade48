# SPDX-License-Identifier: Apache-2.0
"""Every tuned number of the adaptive policy, with its unit and source, and a switch for each mechanism.

The values are those of the strategy `outrider`. The papers' strategies use the parts that they share with
it: the priors of the estimates, and the rules by which robots share a verifier.

"Tuned" means chosen for speed under the conditions that `outrider bench decoding` prints; "chosen" means
set without a measurement. `--random-regimes` measures the engine under other conditions, `--ablate` the
worth of each mechanism.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, TypeVar

from outrider.core.errors import ConfigError
from outrider.decoding.protocol.validation import is_number

_Value = TypeVar("_Value")
SWITCH = "switch"


class ExitPriors(NamedTuple):
    """Initial log-odds per stance (`exit_calibration.Stance`): a constant, and a factor on the log-odds
    that the exit states. Rounded from the exits of the shipped target.
    """

    agrees: tuple[float, float] = (1.3, 1.0)
    free: tuple[float, float] = (0.0, 1.0)
    differs: tuple[float, float] = (-1.5, 0.6)
    overruled: tuple[float, float] = (0.3, 0.0)


EXIT_PRIORS = ExitPriors()


def _tuned(value: _Value, unit: str, why: str) -> _Value:
    default: _Value = field(default=value, metadata={"unit": unit, "why": why})
    return default


def _switch(what: str) -> bool:
    return _tuned(True, SWITCH, what)


def _check(name: str, value: Any, unit: str) -> None:
    if unit == SWITCH:
        if not isinstance(value, bool):
            raise ConfigError(f"{name}={value!r} must be true or false")
        return
    numbers = _numbers(value)
    if not numbers or not all(is_number(number) and math.isfinite(number) for number in numbers):
        raise ConfigError(f"{name}={value!r} must be a finite number of {unit}")
    if unit in ("probability", "share") and not all(0.0 <= number <= 1.0 for number in numbers):
        raise ConfigError(f"{name}={value!r} must lie within 0 and 1")
    if unit == "count" and not all(isinstance(number, int) and number >= 1 for number in numbers):
        raise ConfigError(f"{name}={value!r} must be a whole number of at least 1")
    if unit == "factor" and not min(numbers) > 1.0:
        raise ConfigError(f"{name}={value!r} must be more than 1")
    if unit in ("seconds", "trials") and not min(numbers) > 0.0:
        raise ConfigError(f"{name}={value!r} must be more than 0 {unit}")


def _numbers(value: Any) -> list[Any]:
    """Return all numbers of a number or of nested tuples."""
    if not isinstance(value, tuple):
        return [value]
    return [number for item in value for number in _numbers(item)]


@dataclass(frozen=True)
class AdaptiveTuning:
    """The values of one side. Raises ConfigError for a value outside the range of its unit."""

    # Mechanisms of the cloud.
    restart: bool = _switch("abort a verification to begin with the outcome that its exits predict")
    choose_length: bool = _switch("verify only as much of a draft as pays; otherwise all of it")
    gate_exits: bool = _switch("read exits only where that is faster; otherwise always")
    calibrate_exits: bool = _switch("learn how often exits are right; otherwise their priors hold")
    exit_features: bool = _switch("calibrate exits by depth and agreement too, not by confidence alone")
    send_hints: bool = _switch("tell the edge which outcomes the exits predict")
    select_batch: bool = _switch("leave verifications that yield little out of a dear batch")
    steady_rates: bool = _switch("keep the rates of drafts at both ends for long, until they prove to change")
    probe_drafts: bool = _switch("try the cloud's draft again where it did not pay, ever more seldom")
    # Mechanisms of the edge.
    second_choices: bool = _switch("draft on from the draft's second choices too")
    draft_levels: bool = _switch("estimate acceptance by the draft's confidence; otherwise one rate for all")

    # Estimates.
    acceptance_priors: tuple[float, ...] = _tuned(
        (0.7, 0.4, 0.3), "probability", "first, second, third choice right; the shipped pair's, rounded"
    )
    prior_trials: float = _tuned(
        4.0, "trials", "weight of a prior; few, so that a text's own rates soon count"
    )
    rate_memory: float = _tuned(0.97, "share", "weight a rate keeps a trial: a memory of 33 trials; tuned")
    mean_memory: float = _tuned(0.8, "share", "weight a mean time keeps a sample: a memory of 5; tuned")
    confidence_levels: tuple[float, ...] = _tuned(
        (0.4, 0.6, 0.8, 0.95), "probability", "limits between five levels of a draft's confidence; chosen"
    )
    round_trip_window: int = _tuned(
        64, "count", "answers of which the shortest round trip counts (BBR); chosen"
    )
    batch_window: int = _tuned(
        200, "count", "batches after which the time of a size not seen again is forgotten"
    )
    forward_window: int = _tuned(100, "count", "forwards after which a time not seen again is forgotten")
    speed_change: float = _tuned(
        1.5, "factor", "change of a step's time after which verifications' are forgotten; chosen"
    )
    abort_window: int = _tuned(8, "count", "aborts whose shortest time to the next forward counts")

    # Calibration of exits.
    exit_priors: ExitPriors = _tuned(  # noqa: RUF009
        EXIT_PRIORS, "log-odds", "the shipped target's exits, rounded"
    )
    sure_confidence: float = _tuned(
        0.85, "probability", "an exit that was ever so sure has a feature of its own"
    )
    least_confidence: float = _tuned(
        0.001, "probability", "confidences outside this and its complement say no more"
    )
    learning_rate: float = _tuned(0.2, "log-odds", "AdaGrad's step; tuned")
    step_memory: float = _tuned(
        0.999, "share", "weight AdaGrad keeps of its steps, so that it goes on learning"
    )

    # Restarts.
    min_restart_gain: float = _tuned(
        0.3, "tokens", "least expected gain of an abort; the next exit knows more; tuned"
    )
    min_outcome_prob: float = _tuned(
        0.3, "probability", "least of an outcome that is sent as a hint or restarted for; tuned"
    )

    # Reading exits.
    free_exit_share: float = _tuned(
        0.03, "share", "of a forward: exits that take less are read whatever they say; chosen"
    )
    exit_trial: int = _tuned(16, "count", "most verdicts of a trial with or without exits; chosen")
    exit_trial_cost: float = _tuned(0.01, "share", "of the speed that such trials may cost; chosen")

    cheap_exit_share: float = _tuned(
        0.12, "share", "of a forward: exits that take less are read until their speed is known; chosen"
    )
    exit_trial_loss: float = _tuned(0.6, "tokens", "that a trial may cost before it ends; chosen")
    exit_trials_rarer: int = _tuned(16, "count", "trials in vain after which they become no rarer; chosen")
    speed_noise: float = _tuned(
        1.0, "tokens", "by which verdicts differ as long as that is not known; chosen"
    )

    trials_apart: int = _tuned(40, "count", "forwards between trials of different things, in vain; chosen")

    # The cloud's own draft.
    steady_memory: float = _tuned(
        0.99, "share", "weight that a rate keeps a trial as long as nothing changes: a memory of 100; chosen"
    )
    change_memories: tuple[float, ...] = _tuned(
        (0.97, 0.75), "share", "of estimates that show a change: memories of 33 and of 4 trials; chosen"
    )
    speed_memory: float = _tuned(
        0.9, "share", "weight that the usual speed keeps at a verdict: a memory of 10; chosen"
    )
    change_deviations: float = _tuned(
        2.5, "standard deviations", "between a long and a short memory, that prove a change; chosen"
    )

    draft_window: int = _tuned(
        3, "count", "draft tokens whose median time counts, so that one hiccup does not; chosen"
    )
    probe_cost: float = _tuned(
        0.01, "share", "of the time, that trials of a draft that does not pay may cost; chosen"
    )
    probes_rarer: int = _tuned(4, "count", "failed tries after which they become no rarer; chosen")
    help_prior_tokens: float = _tuned(
        60.0, "tokens", "weight of the guess that the cloud's drafts are all the help there is; chosen"
    )

    ahead_positions: int = _tuned(
        12, "count", "most positions that a cloud draft on its own device extends in one batch; chosen"
    )

    # The edge's tree.
    min_branch_prob: float = _tuned(
        0.01, "probability", "branches less likely are neither drafted on nor sent; tuned"
    )
    unhinted_mass: float = _tuned(0.1, "probability", "least for the outcomes that no hint names; tuned")
    stale_hint_prob: float = _tuned(
        0.01, "probability", "of a token that only a hint named, once its forward is over"
    )

    # When to send.
    idle_speed: float = _tuned(0.5, "share", "least speed assumed, of that of a cloud that never waits")

    # Hints.
    hint_repeat_gain: float = _tuned(
        0.2, "probability", "how much likelier an outcome must be to be sent again; tuned"
    )

    # Robots that share a verifier.
    slot_tokens: float = _tuned(
        0.5, "tokens", "fixed cost of a slot in a batch, in addition to its time; tuned at 8 to 64 robots"
    )
    wait_tokens: float = _tuned(
        0.6, "tokens", "worth that each batch left out adds to a session; tuned likewise"
    )
    size_trials_apart: int = _tuned(
        4, "count", "batches between trials of a size next to the best whose time is unknown; chosen"
    )
    turn_wait: float = _tuned(
        1.6, "factor", "time between verdicts, over that of forwards, beyond which a draft waited; chosen"
    )
    prompt_parts: int = _tuned(3, "count", "parts of prompts run at most while a draft waits")
    prompt_lead_s: float = _tuned(
        0.15, "seconds", "most further time of the model with which a prompt still goes first; tuned"
    )
    prompt_lead_after: int = _tuned(4, "count", "verifications of the last text that earn such a lead")
    max_lead_s: float = _tuned(
        0.25, "seconds", "more than this beyond the others' share of the model is forgiven"
    )

    def __post_init__(self) -> None:
        for setting in fields(self):
            _check(setting.name, getattr(self, setting.name), setting.metadata["unit"])
        if not 0.0 < self.least_confidence < 0.5:
            raise ConfigError(f"least_confidence={self.least_confidence!r} must lie between 0 and 0.5")

    def without(self, *names: str) -> AdaptiveTuning:
        """Return a copy with these mechanisms switched off. Raises ConfigError for an unknown switch."""
        unknown = [name for name in names if name not in SWITCHES]
        if unknown:
            raise ConfigError(
                f"no mechanism is called {', '.join(unknown)}: choose from {', '.join(SWITCHES)}"
            )
        switched_off: dict[str, Any] = dict.fromkeys(names, False)
        return replace(self, **switched_off)


SWITCHES = tuple(setting.name for setting in fields(AdaptiveTuning) if setting.metadata["unit"] == SWITCH)
"""The names of all mechanisms that can be switched off."""
DEFAULT_TUNING = AdaptiveTuning()
