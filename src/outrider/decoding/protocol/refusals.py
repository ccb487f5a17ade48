# SPDX-License-Identifier: Apache-2.0
"""Why a verifier refuses, as a word on the wire and as an error: the one list, read both ways."""

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
    """What a refusal is to the side that was refused."""
    return _ERRORS[frame.reason](f"the verifier refused: {frame.message}")


def check_wanted(wanted: str) -> None:
    """Raises ConfigError for a name that would not pass the wire, where it would get no answer, or would be
    taken for the checksum of one.
    """
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
    """Raises ModelError where another model is wanted than is served; an empty name wants any."""
    if not wanted or is_named(wanted, served):
        return
    if wanted.startswith(_CHECKSUM_SIGN):
        raise ModelError(f"another model than {served!r}, which is served now, began this text: ask again")
    raise ModelError(f"{wanted!r} is not served here, but {served!r}: ask for that or another verifier")


def check_tokenizer(theirs: str, served: str, tokenizer: Tokenizer) -> None:
    """Raises ModelError where a robot's fingerprint, `theirs`, is not that of the model that is served."""
    if theirs != tokenizer.fingerprint:
        raise ModelError(f"{served} has another tokenizer than the model that asks: {PAIR_REMEDY}")


def with_own_model(error: OutriderError, name: str) -> OutriderError:
    """A refusal of a model, beside whose name belongs that of the one here."""
    return ModelError(f"{error} (the model here is {name})") if isinstance(error, ModelError) else error


def reason_of(error: Exception) -> RefusalReason:
    """What an error is to the other side; one of no known kind is the verifier's own."""
    return _REASONS.get(type(error), "internal")
