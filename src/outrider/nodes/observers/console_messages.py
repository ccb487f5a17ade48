# SPDX-License-Identifier: Apache-2.0
"""Converts the robot's messages to those of the console; pure."""

from __future__ import annotations

from enum import Enum
from typing import Any

import cv2
import numpy as np
from outrider_interfaces.msg import DecodedTokens, MotionReport, PlanProgress, SpeculationStats, VerifiedText
from outrider_interfaces.srv import Recall

from outrider.console import messages as m
from outrider.core.values import Pose2D
from outrider.memory.language.scene import place_of, things_seen
from outrider.navigation.motion.step_motions import Ending
from outrider.runtime.mission.robot_side import StepState

ORIGINS = "awrd"


def text_of(message: VerifiedText) -> m.Text | None:
    """Returns a text for the page; None for a state of another version."""
    state = _name_of(StepState, message.state)
    if not state:
        return None
    withdrawn = message.state == VerifiedText.WITHDRAWN
    return m.Text(
        session=message.session_id,
        step=message.step,
        state=state,
        text="" if withdrawn else message.text,
        action=message.action if message.action_complete else "",
        latency_s=message.latency_s,
        tokens_per_s=message.tokens_per_s,
        tokens_per_round=message.tokens_per_round,
        note=message.text if withdrawn else "",
    )


def tokens_of(message: DecodedTokens) -> m.Tokens:
    """Returns decoded tokens for the page, the origin of each as one letter."""
    origins = "".join(ORIGINS[fate] for fate in message.fates if fate < len(ORIGINS))
    return m.Tokens(message.session_id, message.step, message.first, tuple(message.pieces), origins)


def round_of(message: SpeculationStats) -> m.Round:
    """Returns the figures of a decoding round for the page."""
    return m.Round(message.drafted, message.accepted, message.emitted, message.round_trip_s, message.verify_s)


def plan_of(message: PlanProgress) -> m.Plan:
    """Returns how far a plan is for the page."""
    return m.Plan(tuple(message.steps), message.current, message.running, tuple(message.targets))


def motion_of(message: MotionReport) -> m.Motion | None:
    """Returns the end of a motion for the page; None for an outcome of another version."""
    outcome = _name_of(Ending, message.outcome)
    if not outcome:
        return None
    return m.Motion(message.session_id, message.step, message.action, outcome, message.message)


def memories_of(answer: Recall.Response) -> m.Memories:
    """Returns the recalled records that have a place, for the map."""
    return m.Memories(
        tuple(m.Thing(record.text, record.x, record.y) for record in answer.records if record.has_place)
    )


def picture_of(rgb: np.ndarray[Any, Any], max_width: int, quality: int) -> bytes:
    """Returns a picture for a page: uint8 (H, W, 3) as JPEG, at most `max_width` wide."""
    height, width, _ = rgb.shape
    if width > max_width:
        size = max_width, max(1, round(height * max_width / width))
        rgb = cv2.resize(rgb, size, interpolation=cv2.INTER_AREA)
    return bytes(cv2.imencode(".jpg", rgb[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])[1])


def sights_of(text: str, pose: Pose2D) -> m.Sights:
    """Returns the things that a text reports, seen from a pose.

    The goal is the first of them if the text is in the approach phase.
    """
    things = [(thing.what, place_of(thing, pose, "")) for thing in things_seen(text)]
    shown = tuple(m.Thing(what, round(place.x, 2), round(place.y, 2)) for what, place in things)
    approaches = text.partition("\n")[2].startswith("approach:")
    return m.Sights(shown, shown[0] if shown and approaches else None)


def _name_of(values: type[Enum], value: int) -> str:
    """Returns the name of a value; empty for a value of another version."""
    return next((known.name.lower().replace("_", " ") for known in values if known.value == value), "")
