# SPDX-License-Identifier: Apache-2.0
"""Reads the Go2's front camera by its videohub service: one JPEG for each request."""

from __future__ import annotations

from collections.abc import Callable

from outrider.core.errors import FrameError
from outrider.nodes.common.convert import Time
from outrider.nodes.common.picture_encodings import Picture, decode_picture
from outrider.nodes.go2 import go2_api
from outrider.nodes.go2.go2_client import Answer, ServiceClient

DEADLINE_S = 1.0
# A request is repeated after twice the last answer's time, but no earlier than this.
MIN_PATIENCE_S = 0.08


class Videohub:
    """Requests one picture at a time, and again if none comes soon: a request or its answer may be lost.

    A picture is stamped with its request, so that it never seems too young.
    """

    def __init__(
        self,
        calls: ServiceClient,
        relay: Callable[[Callable[[], Picture], Time], None],
        warn: Callable[[str], None],
        stamp: Callable[[], Time],
    ) -> None:
        self._calls, self._relay, self._warn, self._stamp = calls, relay, warn, stamp
        self._patience_s = MIN_PATIENCE_S
        self._requested_s: float | None = None
        self._is_due = False

    def ask(self) -> None:
        """Request a picture. While a request is pending, the next one follows its answer."""
        self._calls.expire()
        if self._requested_s is not None and self._calls.clock() - self._requested_s < self._patience_s:
            self._is_due = True
            return
        self._is_due = False
        if not self._calls.is_connected():
            self._warn(
                f"nobody answers on {self._calls.topic}: is DDS on the interface of the robot's network?"
            )
            return
        self._requested_s, stamp = self._calls.clock(), self._stamp()
        self._calls.call(go2_api.GET_IMAGE_SAMPLE, "", DEADLINE_S, lambda answer: self._take(answer, stamp))

    def _take(self, answer: Answer, requested: Time) -> None:
        """Relay the picture of an answer. A late answer counts too, and shows how long the robot takes."""
        self._relay(lambda: _picture_of(answer), requested)
        if answer.code is None:
            return
        self._requested_s = None
        self._patience_s = min(DEADLINE_S, max(MIN_PATIENCE_S, 2.0 * answer.took_s))
        if self._is_due and answer.is_ok:
            self.ask()


def _picture_of(answer: Answer) -> Picture:
    if answer.code is None:
        raise FrameError(f"the robot's camera did not answer within {DEADLINE_S:g} s")
    if not answer.is_ok:
        raise FrameError(f"the robot's camera gave no picture: {go2_api.explain(answer.code)}")
    return decode_picture(answer.binary, is_jpeg=True)
