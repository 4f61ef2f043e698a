"""Checks of what programs give, before C takes it."""

from __future__ import annotations

import ctypes
import json
import math
import operator
import os
from collections.abc import Sequence

from .outcome import DirectorError

MINUTE = 60.0


def bytes_of(value: object, what: str) -> bytes:
    """The bytes of a message or key. Raises TypeError for anything else."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    kind = type(value).__name__
    raise TypeError(f"{what} is of type {kind}: use bytes, for example `text.encode()`")


def text_of(value: object, what: str) -> bytes:
    """A text in UTF-8. Raises TypeError for other types, DirectorError for a zero character."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is of type {type(value).__name__}: use a text")
    # C would take what precedes it.
    if "\0" in value:
        raise DirectorError(f"{what} is {value!r}: remove the zero character")
    return value.encode()


def number_of(value: int, what: str) -> int:
    """A number of 32 bits. Raises DirectorError if it is out of range."""
    # C would take its lowest 32 bits.
    if not 0 <= operator.index(value) < 1 << 32:
        raise DirectorError(f"{what} is {value}: use a number from 0 to {(1 << 32) - 1}")
    return operator.index(value)


def numbers_of(members: Sequence[int]) -> ctypes.Array[ctypes.c_uint32]:
    """Numbers of members, for C."""
    numbers = [number_of(member, "a member") for member in members]
    return (ctypes.c_uint32 * len(numbers))(*numbers)


def ms_of(seconds: float) -> int:
    """A time in ms, at least 1."""
    return max(1, int(min(seconds, 1e9) * 1e3))


def lifetime_of(seconds: float) -> float:
    """A lifetime in seconds. Raises DirectorError unless it is above 0."""
    # Also not a number.
    if not seconds > 0:
        raise DirectorError(f"`lifetime` is {seconds}: use a number of seconds above 0")
    return seconds


def patience_of(seconds: float) -> int:
    """A time to wait, in ms. Raises DirectorError if it is not a number."""
    if math.isnan(seconds):
        raise DirectorError("a time to wait is not a number: use a number of seconds")
    return int(min(max(0.0, seconds), 1e9) * 1e3)


def json_of(options: dict[str, object]) -> bytes:
    """Options as a JSON object. Raises DirectorError for a number that is not finite."""
    try:
        # Folders may be paths.
        return json.dumps(options, allow_nan=False, default=os.fspath).encode()
    except ValueError as error:
        raise DirectorError(f"an option is not a finite number: {options}") from error
