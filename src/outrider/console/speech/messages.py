# SPDX-License-Identifier: Apache-2.0
"""Messages about speech between page and server: microphone sound, sentences, spoken answers."""

from __future__ import annotations

from typing import Annotated

import msgspec

MAX_SAMPLE_BYTES = 1280
"""Bytes of sound in one message: 40 ms."""
MAX_SPOKEN_CHARACTERS = 300


class _FromPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do"):
    """A message of the page, as in `console.messages`."""


class Listen(_FromPage, frozen=True, tag="listen"):
    """A person begins to speak. `press` numbers the press of the button; the answer returns it."""

    press: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0


class Samples(_FromPage, frozen=True, tag="samples"):
    """The next sound of the microphone, in the format of `core.hearing`, in base64."""

    samples: Annotated[bytes, msgspec.Meta(min_length=1, max_length=MAX_SAMPLE_BYTES)]


class Listened(_FromPage, frozen=True, tag="listened"):
    """The person has finished speaking."""


class Speak(_FromPage, frozen=True, tag="speak"):
    """Have a text, such as an answer, spoken to this page, in a language such as `en` or `pt-br`."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_SPOKEN_CHARACTERS)]
    language: Annotated[str, msgspec.Meta(pattern=r"\A[a-z]{2,3}(-[A-Za-z0-9]{2,8})?\Z")]


class Heard(msgspec.Struct, frozen=True, tag_field="is", tag="heard"):
    """What the person at this page said, to be corrected and sent.

    `is_whole` is False for a stop that is recognised before the end. `note` says what else there is to say.
    """

    text: str = ""
    note: str = ""
    is_whole: bool = True
    press: int = 0


class Spoken(msgspec.Struct, frozen=True, tag_field="is", tag="spoken"):
    """A text as a WAV file, in base64; or `note`: why there is none."""

    sound: bytes = b""
    note: str = ""


Speech = Listen | Samples | Listened
