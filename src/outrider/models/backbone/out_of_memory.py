# SPDX-License-Identifier: Apache-2.0
"""Turns every library's way of running out of memory into one error that says what to do."""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import torch

from outrider.core.errors import OutOfMemoryError

P = ParamSpec("P")
T = TypeVar("T")
_SIGNS = ("allocate memory", "out of memory", "not enough memory", "bad_alloc")
"""Messages of torch's allocators, of mapped files and of onnxruntime."""
_WHOLE_SIGNS = ("could not create a primitive", "could not execute a primitive")
"""Messages of oneDNN, with which torch multiplies bfloat16 on a CPU.

With more words they mean something else.
"""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error of torch, Python or the system says that memory is exhausted."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and says_out_of_memory(error)


def says_out_of_memory(error: Exception) -> bool:
    """Return whether a library's own exception says that memory is exhausted."""
    text = str(error).strip().lower()
    return text in _WHOLE_SIGNS or any(sign in text for sign in _SIGNS)


@contextmanager
def reporting_out_of_memory(what: str, remedy: str) -> Iterator[None]:
    """Raise OutOfMemoryError if the block runs out of memory; pass on all other errors."""
    try:
        yield
    except (MemoryError, OSError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemoryError(f"there is not enough memory to {what}: {remedy}") from None


def reports_out_of_memory(load: Callable[Concatenate[Path, P], T]) -> Callable[Concatenate[Path, P], T]:
    """Decorate a function that loads a folder, so that it raises OutOfMemoryError."""

    @wraps(load)
    def reporting(folder: Path, *args: P.args, **kwargs: P.kwargs) -> T:
        remedy = (
            "close other programs, choose a smaller precision or a smaller checkpoint, or raise ulimit -v"
        )
        with reporting_out_of_memory(f"load {folder}", remedy):
            return load(folder, *args, **kwargs)

    return reporting


def give_back_freed() -> None:
    """Return freed memory to the system: glibc keeps pieces of up to 32 MB, layer after layer."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library
        return None
