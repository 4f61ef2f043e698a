"""The base of the classes of the experiment file: conversion to and from plain data."""

from __future__ import annotations

import dataclasses
import os
import types
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import (
    Any,
    ClassVar,
    Literal,
    NewType,
    Self,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from .errors import InputError

Axis = NewType("Axis", str)
"""A value from the matrix, such as `${loss}`; see `axis`."""
Time = str | timedelta
"""A time with its unit, such as `20 ms`, or a `timedelta`."""
Size = str
"""A size with its unit, such as `127 B`."""
Rate = str
"""A rate with its unit, such as `250 kbit/s`."""
Share = str
"""A share, such as `30 %`."""
Text = str | int | float | os.PathLike[str]
"""A text; numbers and paths are converted."""


def axis(name: str) -> Axis:
    """Refer to an axis of the matrix: `axis("loss")` is `${loss}`."""
    return Axis("${" + name + "}")


@dataclasses.dataclass(kw_only=True)
class Part:
    """A part of an experiment file. The tool checks its values, not this class."""

    #: Keys whose name is not a Python identifier, by attribute.
    _keys: ClassVar[Mapping[str, str]] = {}
    #: Key of the workload that this class describes.
    _workload: ClassVar[str] = ""

    def to_data(self) -> dict[str, Any]:
        """Return the part as the file has it, without keys that are None."""
        values = {key: getattr(self, attribute) for key, attribute in keys(type(self)).items()}
        return {key: plain(value) for key, value in values.items() if value is not None}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Build the part from the data of a file.

        Raises:
            InputError: a key is unknown, or a value has the wrong shape.
        """
        part = decode(cls, data, cls.__name__)
        assert isinstance(part, cls)
        return part


def plain(value: object) -> Any:
    """Convert a value to what JSON knows."""
    if isinstance(value, Part):
        data = value.to_data()
        return {value._workload: data} if value._workload else data
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)} us"
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [plain(inner) for inner in value]
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"an experiment cannot contain {value!r}")


def decode(kind: Any, data: Any, place: str) -> Any:
    """Convert plain data to a type of the schema's classes; `place` is for messages."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _alternative(get_args(kind), data, place)
    if isinstance(kind, type) and issubclass(kind, Part):
        return _part(kind, data, place)
    if origin is Literal or kind is object:
        return data
    if origin is not None and issubclass(origin, Mapping) and isinstance(data, Mapping):
        inner = get_args(kind)[1]
        return {key: decode(inner, value, f"{place}.{key}") for key, value in data.items()}
    if origin is not None and issubclass(origin, Sequence) and isinstance(data, list):
        inner = get_args(kind)[0]
        return [decode(inner, value, f"{place}[{n}]") for n, value in enumerate(data)]
    return data


def _alternative(kinds: tuple[Any, ...], data: Any, place: str) -> Any:
    """Convert data to the one type of a union that it fits."""
    if data is None:
        return None
    if isinstance(data, Mapping):
        parts = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Part)]
        workloads = {kind._workload: kind for kind in parts if kind._workload}
        if workloads:
            key = next(iter(data), "")
            if len(data) != 1 or key not in workloads:
                raise InputError(f"{place}: a workload has one key of {', '.join(workloads)}")
            return _part(workloads[key], data[key] or {}, f"{place}.{key}")
        fitting = [kind for kind in parts if set(data) <= set(keys(kind))]
        if parts:
            return _part((fitting or parts)[0], data, place)
        kinds = tuple(kind for kind in kinds if _is(kind, Mapping))
    elif isinstance(data, list):
        kinds = tuple(kind for kind in kinds if _is(kind, Sequence))
    else:
        return data
    return decode(kinds[0], data, place) if kinds else data


def _is(kind: Any, shape: type) -> bool:
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, shape)


def keys(kind: type[Part]) -> dict[str, str]:
    """Return the keys of the file with their attributes."""
    fields = [
        field.name for field in dataclasses.fields(kind) if field.metadata.get("in_file", True)
    ]
    return {kind._keys.get(name, name): name for name in fields}


def _part(kind: type[Part], data: Any, place: str) -> Part:
    if data is None:
        data = {}
    if not isinstance(data, Mapping):
        raise InputError(f"{place}: expected keys and values, found {data!r}")
    known, hints = keys(kind), get_type_hints(kind)
    values = {}
    for key, value in data.items():
        if key not in known:
            raise InputError(f"{place}: unknown key `{key}`; known: {', '.join(known)}")
        values[known[key]] = decode(hints[known[key]], value, f"{place}.{key}")
    try:
        return kind(**values)
    except TypeError as error:
        raise InputError(f"{place}: {error}") from None
