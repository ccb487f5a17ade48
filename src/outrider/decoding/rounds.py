"""Turns what the edge's driver observes into one RoundStats per verdict."""

from __future__ import annotations

from outrider.core.frames import Chunk, EdgeFrame
from outrider.core.values import RoundStats
from outrider.decoding.edge import Commit


class RoundRecorder:
    """Times in seconds since the request, given by the driver. A verdict that brings tokens ends a round."""

    def __init__(self) -> None:
        self.rounds: list[RoundStats] = []
        self.unverified_tokens = 0
        self._started_s = 0.0
        self._sent_s = 0.0
        self._draft_s = 0.0
        self._bytes_up = 0
        self._bytes_down = 0

    def on_drafted(self, compute_s: float) -> None:
        self._draft_s += compute_s

    def on_sent(self, frame: EdgeFrame, num_bytes: int, now_s: float) -> None:
        self._bytes_up += num_bytes
        if isinstance(frame, Chunk):
            self._sent_s = now_s

    def on_received(self, num_bytes: int) -> None:
        self._bytes_down += num_bytes

    def on_commit(self, commit: Commit, now_s: float) -> None:
        if commit.verdict is None:
            self.unverified_tokens += len(commit.tokens)
            return
        self.rounds.append(
            RoundStats(
                index=len(self.rounds),
                drafted=commit.drafted,
                accepted=commit.accepted,
                emitted=len(commit.tokens),
                draft_s=self._draft_s,
                verify_s=commit.verdict.verify_us / 1e6,
                round_trip_s=now_s - max(self._sent_s, self._started_s),
                started_s=self._started_s,
                finished_s=now_s,
                bytes_up=self._bytes_up,
                bytes_down=self._bytes_down,
            )
        )
        self._started_s = now_s
        self._draft_s = 0.0
        self._bytes_up = self._bytes_down = 0
