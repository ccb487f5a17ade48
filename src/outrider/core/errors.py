# SPDX-License-Identifier: Apache-2.0
"""The one tree of errors. Errors of libraries are translated into it where they occur.

Every message says what happened and what to do. The CLI prints an `OutriderError` without a stack trace;
any other error is a defect and shows its trace.
"""

from __future__ import annotations

from pathlib import Path


class OutriderError(Exception):
    """Base of every expected failure."""


class ConfigError(OutriderError):
    """A parameter, option or configuration file is wrong; the message names the field and its value."""


class RoomError(ConfigError):
    """A prompt and its text do not fit a model's cache."""


class InstructionError(OutriderError):
    """A sentence is not a plan, or uses words that the model was not made for.

    `meant` is the sentence that was probably meant, for the person to confirm; empty if there is none.
    """

    def __init__(self, message: str, meant: str = "") -> None:
        super().__init__(message)
        self.meant = meant


class FrameError(OutriderError):
    """A camera frame is missing, truncated, stale, or not a JPEG."""


class TransformError(OutriderError):
    """tf does not connect two frames, or not at the requested time."""


class ModelError(OutriderError):
    """A model folder is missing a file, holds a corrupt one, or does not fit its partner."""


class OutOfMemoryError(ModelError):
    """There is no memory left to load a model, or to open another session of one."""


class LinkError(OutriderError):
    """The verifier cannot be reached, has gone, or did not answer within the deadline."""


class KeyRefusedError(LinkError):
    """The verifier answers, but does not accept this robot's key."""


class ProtocolError(LinkError):
    """A frame violates the wire schema or the protocol's rules."""


class BusyError(LinkError):
    """The verifier has no room for another session."""


class Cancelled(OutriderError):
    """The work was cancelled by its owner; what was verified so far stays valid."""


class MotionError(OutriderError):
    """A motion could not be carried out: it was blocked, odometry was stale, or it ran out of time."""


class MemoryStoreError(OutriderError):
    """The store of memories cannot be opened, read or written, or refuses what it was given."""


class StoreInputError(MemoryStoreError, ConfigError):
    """A store got a wrong file, key, text or place; another value solves it."""


class NotErasedError(MemoryStoreError):
    """Records are forgotten, but another process that reads the store keeps their bytes in its file."""

    def __init__(self, path: Path, num_forgotten: int) -> None:
        self.num_forgotten = num_forgotten
        super().__init__(
            f"what is forgotten ({num_forgotten} now) is found no more, but another process reads {path} and "
            "keeps the bytes in the file: end it. They go within seconds after that while the memory node "
            "runs, else when the store is opened next"
        )


class SimulationError(OutriderError):
    """The simulated home or robot cannot be built or driven as asked."""
