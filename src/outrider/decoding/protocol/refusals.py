# SPDX-License-Identifier: Apache-2.0
"""The reasons for which a verifier refuses: one table from each reason on the wire to its error and back."""

from __future__ import annotations

from outrider.core.errors import (
    BusyError,
    ConfigError,
    FrameError,
    LinkError,
    ModelError,
    OutOfMemoryError,
    OutriderError,
    ProtocolError,
    RoomError,
)
from outrider.core.frames import MAX_SHORT_TEXT, RefusalReason, Refused
from outrider.core.pairs import PAIR_REMEDY, checksum_text, is_named
from outrider.core.ports import Tokenizer

_CHECKSUM_SIGN = checksum_text(0)[0]
_ERRORS: dict[RefusalReason, type[OutriderError]] = {
    "busy": BusyError,
    "frame": FrameError,
    "config": ConfigError,
    "model": ModelError,
    "protocol": ProtocolError,
    "internal": LinkError,
}
_REASONS: dict[type[Exception], RefusalReason] = {
    **{kind: reason for reason, kind in _ERRORS.items()},
    OutOfMemoryError: "busy",
    RoomError: "config",
}


def error_of(frame: Refused) -> OutriderError:
    """Return the error that a refusal means for the refused side."""
    return _ERRORS[frame.reason](f"the verifier refused: {frame.message}")


def check_wanted(wanted: str) -> None:
    """Raise ConfigError for a name too long for the wire, or one that looks like a checksum of a name."""
    if len(wanted) > MAX_SHORT_TEXT:
        raise ConfigError(
            f"wanted_model has {len(wanted)} characters, at most {MAX_SHORT_TEXT} are sent: give the name "
            "that the verifier prints"
        )
    if wanted.startswith(_CHECKSUM_SIGN):
        raise ConfigError(
            f"wanted_model is {wanted!r}, which is no model's name: give the name that the verifier prints"
        )


def check_served(wanted: str, served: str) -> None:
    """Raise ModelError if another model is asked for than the one served. An empty name fits any."""
    if not wanted or is_named(wanted, served):
        return
    if wanted.startswith(_CHECKSUM_SIGN):
        raise ModelError(f"another model than {served!r}, which is served now, began this text: ask again")
    raise ModelError(f"{wanted!r} is not served here, but {served!r}: ask for that or another verifier")


def check_tokenizer(theirs: str, served: str, tokenizer: Tokenizer) -> None:
    """Raise ModelError if a robot's fingerprint, `theirs`, is not that of the served model's tokenizer."""
    if theirs != tokenizer.fingerprint:
        raise ModelError(f"{served} has another tokenizer than the model that asks: {PAIR_REMEDY}")


def with_own_model(error: OutriderError, name: str) -> OutriderError:
    """Return a model error with the name of the local model added; any other error as it is."""
    return ModelError(f"{error} (the model here is {name})") if isinstance(error, ModelError) else error


def reason_of(error: Exception) -> RefusalReason:
    """Return the reason sent for an error; an unknown kind counts as the verifier's own fault."""
    return _REASONS.get(type(error), "internal")
