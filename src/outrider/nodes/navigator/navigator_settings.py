# SPDX-License-Identifier: Apache-2.0
"""Converts the navigator's parameters to settings, and opens what they name."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from outrider.core.errors import MemoryStoreError
from outrider.core.values import LinkState
from outrider.decoding.config import DecodingConfig, drafter_names
from outrider.navigation.goal.navigator import NavigatorSettings
from outrider.runtime.mission.goal_run import GoalSettings
from outrider.runtime.mission.memory_queries import Recollection
from outrider.runtime.mission.peer_answers import PeerAnswers, open_peer_answers
from outrider.runtime.wiring.memory_stores import default_store, open_memory, this_home
from outrider.runtime.wiring.robot_pair import EdgeSettings
from outrider.wire.emulator import Emulation

_LINK_WARNINGS = {
    LinkState.CONNECTING: "no verifier has answered at {} yet: is it running there?",
    LinkState.LOST: "the link to the verifier at {} is lost",
    LinkState.REFUSED: "the verifier at {} refuses this robot's key: check both key files",
    LinkState.MISMATCHED: "what listens at {} has other keys than this robot, or is no verifier",
}
# The other fields have parameters of the same names.
_OF_THE_EDGE = [field.name for field in fields(EdgeSettings) if field.name != "config"]


def link_warning(state: LinkState, endpoint: str) -> str:
    """Returns a warning about a link's state; empty if there is none."""
    return _LINK_WARNINGS.get(state, "").format(endpoint)


def decoding_config(value: Callable[[str], Any]) -> DecodingConfig:
    """Returns the decoding engine's configuration from the parameters. Raises ConfigError."""
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
    """Returns the settings of draft model and link from the parameters. Raises ConfigError."""
    return EdgeSettings(config=decoding_config(value), **{name: value(name) for name in _OF_THE_EDGE})


def goal_settings(value: Callable[[str], Any], instructed: bool) -> GoalSettings:
    """Returns the bounds of a goal from the parameters. For `instructed` see `render_prompt`."""
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


def open_recollection(value: Callable[[str], Any], namespace: str) -> Recollection | None:
    """Opens the memory that the parameters name; None if it is not used. Raises MemoryStoreError."""
    if not value("use_memory"):
        return None
    try:
        memory = open_memory(value("memory_store") or default_store(namespace), value("memory_key_file"))
    except MemoryStoreError as error:
        raise MemoryStoreError(f"{error} (or navigate without it: use_memory=false)") from error
    return Recollection(memory, this_home(value("home")), time.time)


def open_peers(value: Callable[[str], Any], emulation: Emulation | None) -> PeerAnswers | None:
    """Opens the cloud that answers questions; None if the robot answers alone."""
    if value("answers") != "aggregate":
        return None
    return open_peer_answers(
        value("endpoint"),
        value("answer_model"),
        threads=value("threads"),
        key_file=value("key_file"),
        emulation=emulation,
        wanted_model=value("wanted_answer_model"),
    )
