"""The Python interface of the director, an adaptive transport library (docs/director.md).

    async with director.Session(key, "utility:5700", ["meter-1:5700"], loss=0.3) as session:
        await session.ready(10)
        collected = await session.collect(b"a price")

    async with director.Listener(key, "meter-1:5700", "utility:5700") as meter:
        async for price in meter:
            price.reply(b"a reading")

It calls the C library (`cargo build --release -p director-c`). It loads the file that
`DIRECTOR_LIBRARY` names, or else searches the system's library path.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

__all__ = ["Collected", "DirectorError", "Listener", "Request", "Session"]

_WHY = 400
_TEXT = 2_000


class DirectorError(Exception):
    """The session cannot start, or a message cannot be sent."""


def _load() -> ctypes.CDLL:
    path = os.environ.get("DIRECTOR_LIBRARY", "libdirector_c.so")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise DirectorError(
            f"cannot load the director library: {error}; run `cargo build "
            "--release -p director-c` and set DIRECTOR_LIBRARY to target/release/libdirector_c.so"
        ) from error
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    members = ctypes.POINTER(ctypes.c_char_p)
    for name, result, arguments in [
        ("director_initiate", pointer, [text, text, size, text, members, size, text, size]),
        ("director_ready", ctypes.c_int, [pointer, ctypes.c_uint64]),
        ("director_collect", pointer, [pointer, text, size, text, size]),
        ("director_answers", size, [pointer]),
        ("director_lacking", size, [pointer]),
        (
            "director_answer",
            ctypes.c_int,
            [
                pointer,
                size,
                ctypes.POINTER(ctypes.c_uint32),
                ctypes.POINTER(pointer),
                ctypes.POINTER(size),
            ],
        ),
        ("director_explain", ctypes.c_int, [pointer, text, size]),
        ("director_collected_free", None, [pointer]),
        ("director_session_free", None, [pointer]),
        ("director_listen", pointer, [text, text, size, text, text, text, size]),
        ("director_next", pointer, [pointer, ctypes.c_uint64]),
        ("director_message", pointer, [pointer, ctypes.POINTER(size)]),
        ("director_reply", None, [pointer, text, size]),
        ("director_request_free", None, [pointer]),
        ("director_listener_free", None, [pointer]),
    ]:
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_library: ctypes.CDLL | None = None


def _c() -> ctypes.CDLL:
    global _library
    if _library is None:
        _library = _load()
    return _library


@dataclass(frozen=True)
class Collected:
    """Responses to a message: answers by member (its index in the list of members), and the
    number of members that have not answered by the deadline."""

    answers: dict[int, bytes]
    lacking: int


class _Handle:
    """An object of the C library, from `async with` to its end."""

    _free: str
    _handle: int | None = None

    def _open(self) -> int:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        self._handle = await asyncio.to_thread(self._open)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        handle, self._handle = self._handle, None
        await asyncio.to_thread(getattr(_c(), self._free), handle)


class Session(_Handle):
    """A session, from its hub. Options are those of `director.h`, with the same names."""

    _free = "director_session_free"

    def __init__(self, key: bytes, local: str, members: Sequence[str], **options: object) -> None:
        self._what = (key, local, list(members), json.dumps(options))

    def _open(self) -> int:
        key, local, members, options = self._what
        why = ctypes.create_string_buffer(_WHY)
        names = (ctypes.c_char_p * len(members))(*(member.encode() for member in members))
        session = _c().director_initiate(
            options.encode(), key, len(key), local.encode(), names, len(members), why, _WHY
        )
        if not session:
            raise DirectorError(why.value.decode())
        return int(session)

    async def ready(self, patience: float) -> bool:
        """Waits until all members have joined, at most `patience` seconds."""
        ms = max(0, int(patience * 1e3))
        return bool(await asyncio.to_thread(_c().director_ready, self._handle, ms))

    async def collect(self, message: bytes) -> Collected:
        """Sends a message to all members; returns their answers by the deadline."""
        return await asyncio.to_thread(self._collect, message)

    def _collect(self, message: bytes) -> Collected:
        c, why = _c(), ctypes.create_string_buffer(_WHY)
        collected = c.director_collect(self._handle, message, len(message), why, _WHY)
        if not collected:
            raise DirectorError(why.value.decode())
        try:
            answers: dict[int, bytes] = {}
            member, data, length = ctypes.c_uint32(), ctypes.c_void_p(), ctypes.c_size_t()
            for place in range(c.director_answers(collected)):
                c.director_answer(
                    collected,
                    place,
                    ctypes.byref(member),
                    ctypes.byref(data),
                    ctypes.byref(length),
                )
                answers[member.value] = (
                    ctypes.string_at(data.value, length.value) if data.value else b""
                )
            return Collected(answers, c.director_lacking(collected))
        finally:
            c.director_collected_free(collected)

    async def explain(self) -> str:
        """Explains which model is in use and why."""
        text = ctypes.create_string_buffer(_TEXT)
        if not await asyncio.to_thread(_c().director_explain, self._handle, text, _TEXT):
            raise DirectorError("the session is over")
        return text.value.decode()


class Request:
    """A received message."""

    def __init__(self, request: int) -> None:
        length = ctypes.c_size_t()
        data = _c().director_message(request, ctypes.byref(length))
        self.message: bytes = ctypes.string_at(data, length.value)
        self._request: int | None = request

    def reply(self, answer: bytes) -> None:
        """Answers the message; call it once."""
        request, self._request = self._request, None
        if request is None:
            raise DirectorError("this message was already answered")
        _c().director_reply(request, answer, len(answer))

    def __del__(self) -> None:
        """Frees a message without an answer."""
        if self._request is not None and _library is not None:
            _library.director_request_free(self._request)


class Listener(_Handle):
    """A member that joins sessions of the hub at `hub`."""

    _free = "director_listener_free"

    def __init__(self, key: bytes, local: str, hub: str, **options: object) -> None:
        self._what = (key, local, hub, json.dumps(options))

    def _open(self) -> int:
        key, local, hub, options = self._what
        why = ctypes.create_string_buffer(_WHY)
        listener = _c().director_listen(
            options.encode(), key, len(key), local.encode(), hub.encode(), why, _WHY
        )
        if not listener:
            raise DirectorError(why.value.decode())
        return int(listener)

    async def next(self, patience: float) -> Request | None:
        """The next message, or None after `patience` seconds; each message is delivered once."""
        ms = max(0, int(patience * 1e3))
        request = await asyncio.to_thread(_c().director_next, self._handle, ms)
        return Request(int(request)) if request else None

    async def __aiter__(self) -> AsyncIterator[Request]:
        """All messages in order."""
        while self._handle is not None:
            request = await self.next(0.25)
            if request is not None:
                yield request
