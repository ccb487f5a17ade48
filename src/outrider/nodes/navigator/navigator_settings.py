# SPDX-License-Identifier: Apache-2.0
"""The navigator's parameters as the settings that they stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from outrider.decoding.config import DecodingConfig, drafter_names
from outrider.navigation.goal.navigator import NavigatorSettings
from outrider.runtime.mission.goal_run import GoalSettings
from outrider.runtime.wiring.robot_pair import EdgeSettings


def decoding_config(value: Callable[[str], Any]) -> DecodingConfig:
    """The choices of the decoding engine, from the value of each parameter. Raises ConfigError."""
    return DecodingConfig(
        strategy=value("strategy"),
        drafters=drafter_names(value("drafters")),
        num_draft_tokens=value("num_draft_tokens"),
        temperature=value("temperature"),
        top_p=value("top_p"),
        top_k=value("top_k"),
        seed=value("seed"),
        workers=value("draft_branches"),
        link_loss=value("link_loss"),
        wanted_model=value("wanted_model"),
    )


def edge_settings(value: Callable[[str], Any]) -> EdgeSettings:
    """Draft model and link, from the value of each parameter. Raises ConfigError."""
    return EdgeSettings(
        value("endpoint"),
        value("draft_model"),
        decoding_config(value),
        value("threads"),
        value("precision"),
        value("runtime"),
        value("provider"),
        value("constrained"),
        value("max_length"),
        value("device"),
        value("key_file"),
        value("link_profile"),
        value("link_rtt_ms"),
        value("second_endpoint"),
    )


def goal_settings(value: Callable[[str], Any], instructed: bool) -> GoalSettings:
    """The bounds of a goal, from the value of each parameter; `instructed` as in `render_prompt`."""
    return GoalSettings(
        max_new_tokens=value("max_new_tokens"),
        answer_deadline_s=value("answer_deadline_s"),
        link_patience_s=value("link_patience_s"),
        instructed=instructed,
        continuous=value("motion") == "continuous",
        navigator=NavigatorSettings(
            max_steps=value("max_steps"),
            max_travel_m=value("max_travel_m"),
            max_time_s=value("max_time_s"),
            max_turning_deg=value("max_turning_deg"),
        ),
    )
