"""The Python interface of the director, an adaptive transport library (docs/director.md).

    async with director.Session(key, "utility:5700", ["meter-1:5700"], loss=0.3) as session:
        await session.ready(10)
        collected = await session.collect(b"a price")

    async with director.Listener(key, "meter-1:5700", "utility:5700") as meter:
        async for price in meter:
            price.reply(b"a reading")

Members send messages and requests to the hub's application at any time, and messages of topics,
which the other members get that have subscribed to them:

    outcome = await meter.publish(b"a reading")     # Outcome.ACKNOWLEDGED: the application has it
    answer = await meter.request(b"the time?")
    await meter.subscribe("prices/#")
    await meter.publish(b"21", topic="plant/7/temperature")

    async for reading in session.messages():
        print(reading.member, reading.message)

It calls the C library (`cargo build --release -p thingbed-director-c`). It loads the file that
`DIRECTOR_LIBRARY` names, or else searches the system's library path.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import math
import operator
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Self, TypeVar

__all__ = [
    "Collected",
    "DirectorError",
    "Incoming",
    "Listener",
    "NotAnswered",
    "Outcome",
    "Request",
    "Restored",
    "Sending",
    "Session",
]

_WHY = 400
_TEXT = 2_000
# The longest path of Linux.
_PATH = 4_096
_MINUTE = 60.0
_ANSWER = 1 << 16
# Calls of an object at a time. Fewer than the 1,024 messages for which a hub has room.
_THREADS = 256

_Result = TypeVar("_Result")


class DirectorError(Exception):
    """The session cannot start, or a message cannot be sent."""


class Outcome(Enum):
    """How a message of a member ends, or a stored one of the hub at a member."""

    ACKNOWLEDGED = 1
    """The application at the other end has it."""
    FAILED = 2
    """The application at the other end will never have it."""
    UNKNOWN = 3
    """Neither is known."""


def _bytes(value: object, what: str) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    kind = type(value).__name__
    raise TypeError(f"{what} is of type {kind}: use bytes, for example `text.encode()`")


def _text(value: object, what: str) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{what} is of type {type(value).__name__}: use a text")
    # C would take what precedes it.
    if "\0" in value:
        raise DirectorError(f"{what} is {value!r}: remove the zero character")
    return value.encode()


def _number(value: int, what: str) -> int:
    # C would take its lowest 32 bits.
    if not 0 <= operator.index(value) < 1 << 32:
        raise DirectorError(f"{what} is {value}: use a number from 0 to {(1 << 32) - 1}")
    return operator.index(value)


def _numbers(members: Sequence[int]) -> ctypes.Array[ctypes.c_uint32]:
    numbers = [_number(member, "a member") for member in members]
    return (ctypes.c_uint32 * len(numbers))(*numbers)


def _ms(seconds: float) -> int:
    return max(1, int(min(seconds, 1e9) * 1e3))


def _lifetime(seconds: float) -> float:
    # Also not a number.
    if not seconds > 0:
        raise DirectorError(f"`lifetime` is {seconds}: use a number of seconds above 0")
    return seconds


def _patience(seconds: float) -> int:
    """A time to wait, in ms."""
    if math.isnan(seconds):
        raise DirectorError("a time to wait is not a number: use a number of seconds")
    return int(min(max(0.0, seconds), 1e9) * 1e3)


def _json(options: dict[str, object]) -> bytes:
    try:
        # Folders may be paths.
        return json.dumps(options, allow_nan=False, default=os.fspath).encode()
    except ValueError as error:
        raise DirectorError(f"an option is not a finite number: {options}") from error


class NotAnswered(DirectorError):
    """A request has ended without an answer; `outcome` is FAILED or UNKNOWN."""

    def __init__(self, outcome: Outcome, why: str) -> None:
        super().__init__(why)
        self.outcome = outcome


def _load() -> ctypes.CDLL:
    path = os.environ.get("DIRECTOR_LIBRARY", "libdirector_c.so")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise DirectorError(
            f"cannot load the director library: {error}; run `cargo build --release "
            "-p thingbed-director-c` and set DIRECTOR_LIBRARY to target/release/libdirector_c.so"
        ) from error
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    members = ctypes.POINTER(ctypes.c_char_p)
    number, sizes = ctypes.c_uint32, ctypes.POINTER(size)
    sent = [pointer, text, size, ctypes.c_uint64, number]
    for name, result, arguments in [
        ("director_initiate", pointer, [text, text, size, text, members, size, text, size]),
        (
            "director_initiate_keys",
            pointer,
            [text, members, ctypes.POINTER(size), size, text, members, size, text, size],
        ),
        ("director_admit", ctypes.c_int, [pointer, number, text, size, text, size]),
        ("director_members", size, [pointer, ctypes.POINTER(number), size]),
        ("director_ready", ctypes.c_int, [pointer, ctypes.c_uint64]),
        ("director_collect", pointer, [pointer, text, size, text, size]),
        (
            "director_collect_from",
            pointer,
            [pointer, ctypes.POINTER(number), size, text, size, text, size],
        ),
        ("director_lacking_member", ctypes.c_int, [pointer, size, ctypes.POINTER(number)]),
        ("director_publish", ctypes.c_int, [*sent, text, size]),
        ("director_ask", ctypes.c_int, [*sent, text, sizes, text, size]),
        ("director_publish_to", ctypes.c_int, [pointer, text, *sent[1:], text, size]),
        ("director_publish_stored", ctypes.c_int, [pointer, text, *sent[1:], text, size]),
        ("director_next_restored", pointer, [pointer]),
        ("director_restored_message", pointer, [pointer, sizes]),
        ("director_restored_topic", text, [pointer]),
        ("director_restored_outcome", ctypes.c_int, [pointer, ctypes.c_uint64, text, size]),
        ("director_restored_free", None, [pointer]),
        ("director_session_damaged_log", ctypes.c_int, [pointer, text, size]),
        ("director_listener_damaged_log", ctypes.c_int, [pointer, text, size]),
        (
            "director_store",
            pointer,
            [pointer, ctypes.POINTER(number), size, text, size, ctypes.c_uint64, text, size],
        ),
        ("director_next_sending", pointer, [pointer]),
        ("director_sending_message", pointer, [pointer, sizes]),
        ("director_sending_is_over", ctypes.c_int, [pointer, ctypes.c_uint64]),
        (
            "director_sending_outcome",
            ctypes.c_int,
            [pointer, size, ctypes.POINTER(number), ctypes.POINTER(pointer), sizes],
        ),
        ("director_sending_free", None, [pointer]),
        ("director_subscribe", ctypes.c_int, [pointer, text, text, size]),
        ("director_unsubscribe", ctypes.c_int, [pointer, text, text, size]),
        ("director_publish_topic", pointer, [pointer, text, text, size, text, size]),
        ("director_topic", text, [pointer]),
        ("director_incoming_topic", text, [pointer]),
        ("director_leave", None, [pointer]),
        ("director_come_back", None, [pointer]),
        ("director_revoke", ctypes.c_int, [pointer, number]),
        ("director_receive", pointer, [pointer, ctypes.c_uint64]),
        ("director_incoming_message", pointer, [pointer, sizes]),
        ("director_incoming_member", number, [pointer]),
        ("director_incoming_is_request", ctypes.c_int, [pointer]),
        ("director_incoming_reply", None, [pointer, text, size]),
        ("director_incoming_free", None, [pointer]),
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
        ("director_session_is_over", ctypes.c_int, [pointer]),
        ("director_listener_is_over", ctypes.c_int, [pointer]),
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
    members that have not answered by the deadline."""

    answers: dict[int, bytes]
    lacking: tuple[int, ...]


class _Handle:
    """An object of the C library, from `async with` to its end."""

    _free: str
    _free_message: str
    _is_over: str
    _damaged_log: str
    _handle: int | None = None

    def __init__(self) -> None:
        # Calls for messages whose caller no longer waits.
        self._left: list[asyncio.Future[int | None]] = []
        # Threads of this object alone: asyncio has a few for all. If these wait for messages, a
        # call that sends one waits for a thread.
        self._calls = ThreadPoolExecutor(_THREADS, "director")

    @property
    def _opened(self) -> int:
        """The object of C.

        Raises DirectorError outside of `async with`."""
        if self._handle is None:
            raise DirectorError(
                f"this {type(self).__name__} is not open: use it in its `async with`"
            )
        return self._handle

    async def _call(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._calls, function, *arguments)

    def _open(self) -> int:
        raise NotImplementedError

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or is not in its `async with`: messages that it waits for never
        come."""
        return self._handle is None or bool(getattr(_c(), self._is_over)(self._handle))

    @property
    def damaged_log(self) -> str | None:
        """A copy of the storage's log, if it was damaged: messages after the damage are lost, and
        the outcomes of those before are unknown."""
        path = ctypes.create_string_buffer(_PATH)
        found = getattr(_c(), self._damaged_log)(self._opened, path, _PATH)
        return path.value.decode() if found else None

    async def _take(self, name: str, patience: float) -> int | None:
        """The next message, or None after `patience` seconds. A thread cannot be cancelled: if the
        caller is, the message that its thread gets is for the next caller."""
        handle = self._opened
        loop = asyncio.get_running_loop()
        until = loop.time() + _patience(patience) / 1e3
        while True:
            rest = max(0.0, until - loop.time())
            limit = None
            if self._left:
                taking, limit = self._left.pop(0), rest
            else:
                call = self._call(getattr(_c(), name), handle, _patience(rest))
                taking = asyncio.ensure_future(call)
            try:
                # Does not cancel what it waits for.
                await asyncio.wait([taking], timeout=limit)
            finally:
                if not taking.done():
                    self._left.append(taking)
            if not taking.done():
                return None
            message = taking.result()
            if message:
                return message
            if limit is None:
                if self._handle is not None and self.is_over:
                    raise DirectorError(
                        "it has ended: its storage was lost, or this process was forked from the "
                        "one that has it"
                    )
                return None

    async def __aenter__(self) -> Self:
        if self._handle is not None:
            raise DirectorError(f"this {type(self).__name__} is open already: make another one")
        self._handle = await self._call(self._open)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        handle, self._handle = self._handle, None
        if handle is None:
            return
        await self._call(getattr(_c(), self._free), handle)
        # They end with the object.
        for message in await asyncio.gather(*self._left):
            if message:
                getattr(_c(), self._free_message)(message)


class Session(_Handle):
    """A session, from its hub. `key` is one key for all, or a list with a key for each member, then
    for each of the `places`. Options are those of `director.h`, with the same names."""

    _free = "director_session_free"
    _free_message = "director_incoming_free"
    _is_over = "director_session_is_over"
    _damaged_log = "director_session_damaged_log"

    def __init__(
        self, key: bytes | Sequence[bytes], local: str, members: Sequence[str], **options: object
    ) -> None:
        super().__init__()
        if isinstance(members, str):
            raise TypeError("members is one text: use a list of texts `NAME:PORT`")
        keys: bytes | list[bytes]
        if isinstance(key, list | tuple):
            keys = [_bytes(own, "a key") for own in key]
        else:
            keys = _bytes(key, "key")
        names = [_text(member, "a member") for member in members]
        self._what = (keys, _text(local, "local"), names, _json(options))

    def _open(self) -> int:
        key, local, members, options = self._what
        why = ctypes.create_string_buffer(_WHY)
        names = (ctypes.c_char_p * len(members))(*members)
        rest = (local, names, len(members), why, _WHY)
        if isinstance(key, bytes):
            session = _c().director_initiate(options, key, len(key), *rest)
        else:
            keys = (ctypes.c_char_p * len(key))(*key)
            lengths = (ctypes.c_size_t * len(key))(*(len(own) for own in key))
            session = _c().director_initiate_keys(options, keys, lengths, len(key), *rest)
        if not session:
            raise DirectorError(why.value.decode())
        return int(session)

    async def ready(self, patience: float) -> bool:
        """Waits until all members have joined, at most `patience` seconds."""
        ready = await self._call(_c().director_ready, self._opened, _patience(patience))
        return bool(ready)

    async def collect(self, message: bytes, members: Sequence[int] | None = None) -> Collected:
        """Sends a message to all members, or to these; returns their answers by the deadline."""
        return await self._call(self._collect, _bytes(message, "the message"), members)

    async def request(self, member: int, message: bytes) -> bytes | None:
        """Sends a message to one member; returns its answer, or None if there is none in time."""
        return (await self.collect(message, [member])).answers.get(member)

    async def publish(self, topic: str, message: bytes) -> Collected:
        """Sends a message of a topic to the members that have subscribed to it; returns who has
        acknowledged it by the deadline."""
        return await self._call(
            self._publish, _text(topic, "topic"), _bytes(message, "the message")
        )

    async def store(
        self, message: bytes, members: Sequence[int], lifetime: float = _MINUTE
    ) -> Sending:
        """Stores a message for these members and sends it; returns when it is on the disk. It
        outlasts this program, and needs the option `storage`: the next start sends it again. It
        ends at each member after `lifetime` seconds at the latest."""
        message = _bytes(message, "the message")
        ms = _ms(_lifetime(lifetime))
        return await self._call(self._store, message, list(members), ms)

    def _store(self, message: bytes, members: list[int], ms: int) -> Sending:
        why = ctypes.create_string_buffer(_WHY)
        numbers = _numbers(members)
        sending = _c().director_store(
            self._opened, numbers, len(members), message, len(message), ms, why, _WHY
        )
        if not sending:
            raise DirectorError(why.value.decode())
        return Sending(sending, self)

    def restored(self) -> list[Sending]:
        """The stored messages of former starts, if there is a `storage`: the library sends those
        again that have no outcome at a member, and the outcomes of others may not have reached the
        program. Once; empty after that."""
        found = []
        while sending := _c().director_next_sending(self._opened):
            found.append(Sending(sending, self))
        return found

    async def receive(self, patience: float) -> Incoming | None:
        """The next message that a member has sent, or None after `patience` seconds."""
        incoming = await self._take("director_receive", patience)
        return Incoming(incoming) if incoming else None

    async def messages(self) -> AsyncIterator[Incoming]:
        """All messages that members send."""
        while self._handle is not None:
            incoming = await self.receive(0.25)
            if incoming is not None:
                yield incoming

    async def revoke(self, member: int) -> None:
        """Revokes a member: its handshakes are refused, and the others get new keys."""
        number = _number(member, "a member")
        if not await self._call(_c().director_revoke, self._opened, number):
            raise DirectorError(f"there is no member {member}, or the session is over")

    async def admit(self, member: int, key: bytes) -> None:
        """Accepts a revoked member again, with this key if each member has one."""
        why = ctypes.create_string_buffer(_WHY)
        key, number = _bytes(key, "key"), _number(member, "a member")
        if not await self._call(
            _c().director_admit, self._opened, number, key, len(key), why, _WHY
        ):
            raise DirectorError(why.value.decode())

    async def members(self) -> list[int]:
        """The members that have joined and not left."""
        count = await self._call(_c().director_members, self._opened, None, 0)
        numbers = (ctypes.c_uint32 * count)()
        joined = await self._call(_c().director_members, self._opened, numbers, count)
        return list(numbers[: min(count, joined)])

    def _collect(self, message: bytes, members: Sequence[int] | None) -> Collected:
        c, why = _c(), ctypes.create_string_buffer(_WHY)
        if members is None:
            collected = c.director_collect(self._opened, message, len(message), why, _WHY)
        else:
            numbers = _numbers(members)
            collected = c.director_collect_from(
                self._opened, numbers, len(members), message, len(message), why, _WHY
            )
        return self._collected(collected, why)

    def _publish(self, topic: bytes, message: bytes) -> Collected:
        why = ctypes.create_string_buffer(_WHY)
        collected = _c().director_publish_topic(
            self._opened, topic, message, len(message), why, _WHY
        )
        return self._collected(collected, why)

    def _collected(self, collected: int | None, why: ctypes.Array[ctypes.c_char]) -> Collected:
        c = _c()
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
            lacking = []
            for place in range(c.director_lacking(collected)):
                c.director_lacking_member(collected, place, ctypes.byref(member))
                lacking.append(member.value)
            return Collected(answers, tuple(lacking))
        finally:
            c.director_collected_free(collected)

    async def explain(self) -> str:
        """Explains which model is in use and why."""
        text = ctypes.create_string_buffer(_TEXT)
        if not await self._call(_c().director_explain, self._opened, text, _TEXT):
            raise DirectorError("the session is over")
        return text.value.decode()


class Sending:
    """A stored message of the hub."""

    def __init__(self, sending: int, session: Session) -> None:
        self._sending, self._session = sending, session
        length = ctypes.c_size_t()
        data = _c().director_sending_message(sending, ctypes.byref(length))
        self.message: bytes = ctypes.string_at(data, length.value)
        self.answers: dict[int, bytes] = {}
        """The answers of members, when `outcomes` has returned."""
        self._outcomes: dict[int, Outcome] | None = None

    async def outcomes(self, patience: float = _MINUTE) -> dict[int, Outcome] | None:
        """How it has ended at each member, or None if that is not known after `patience` seconds.
        Until this has returned them, each further start has the message."""
        until = time.monotonic() + patience
        while self._outcomes is None:
            # A thread cannot be cancelled: it waits for short times.
            rest = min(0.25, max(0.0, until - time.monotonic()))
            await self._session._call(self._wait, _patience(rest))
            if self._outcomes is None and time.monotonic() >= until:
                break
        return self._outcomes

    def _wait(self, ms: int) -> None:
        c = _c()
        if not c.director_sending_is_over(self._sending, ms):
            if self._session.is_over:
                raise DirectorError("the session is over")
            return
        outcomes: dict[int, Outcome] = {}
        member, data, length = ctypes.c_uint32(), ctypes.c_void_p(), ctypes.c_size_t()
        found = (ctypes.byref(member), ctypes.byref(data), ctypes.byref(length))
        while code := c.director_sending_outcome(self._sending, len(outcomes), *found):
            outcomes[member.value] = Outcome(code)
            if data.value is not None and length.value:
                self.answers[member.value] = ctypes.string_at(data.value, length.value)
        self._outcomes = outcomes

    def __del__(self) -> None:
        """Frees the message; a further start has it if its outcomes are not known."""
        if _library is not None:
            _library.director_sending_free(self._sending)


class Request:
    """A received message. A stored one counts as taken when it is answered or dropped."""

    def __init__(self, request: int) -> None:
        self._request: int | None = request
        length = ctypes.c_size_t()
        data = _c().director_message(request, ctypes.byref(length))
        self.message: bytes = ctypes.string_at(data, length.value)
        topic = _c().director_topic(request)
        self.topic: str | None = None if topic is None else topic.decode()

    def reply(self, answer: bytes) -> None:
        """Answers the message; call it once."""
        answer = _bytes(answer, "the answer")
        request, self._request = self._request, None
        if request is None:
            raise DirectorError("this message was already answered")
        _c().director_reply(request, answer, len(answer))

    def __del__(self) -> None:
        """Frees a message without an answer."""
        if self._request is not None and _library is not None:
            _library.director_request_free(self._request)


class Incoming:
    """A message of a member."""

    def __init__(self, incoming: int) -> None:
        length = ctypes.c_size_t()
        data = _c().director_incoming_message(incoming, ctypes.byref(length))
        self.message: bytes = ctypes.string_at(data, length.value)
        self.member: int = _c().director_incoming_member(incoming)
        topic = _c().director_incoming_topic(incoming)
        self.topic: str | None = None if topic is None else topic.decode()
        self.is_request: bool = bool(_c().director_incoming_is_request(incoming))
        self._incoming: int | None = incoming

    def reply(self, answer: bytes) -> None:
        """Answers a request; call it once."""
        answer = _bytes(answer, "the answer")
        incoming, self._incoming = self._incoming, None
        if incoming is None:
            raise DirectorError("this message was already answered")
        _c().director_incoming_reply(incoming, answer, len(answer))

    def __del__(self) -> None:
        """Frees a message without an answer."""
        if self._incoming is not None and _library is not None:
            _library.director_incoming_free(self._incoming)


class Restored:
    """A message of a former start of its member."""

    def __init__(self, restored: int, listener: Listener) -> None:
        self._restored, self._listener = restored, listener
        self._outcome: Outcome | None = None
        length = ctypes.c_size_t()
        data = _c().director_restored_message(restored, ctypes.byref(length))
        self.message: bytes = ctypes.string_at(data, length.value)
        topic = _c().director_restored_topic(restored)
        self.topic: str | None = None if topic is None else topic.decode()

    async def outcome(self, patience: float = _MINUTE) -> Outcome | None:
        """How it ended, or None if that is not known after `patience` seconds. Until this has
        returned it, each further start has the message."""
        until = time.monotonic() + patience
        while self._outcome is None:
            # A thread cannot be cancelled: it waits for short times.
            rest = min(0.25, max(0.0, until - time.monotonic()))
            await self._listener._call(self._wait, _patience(rest))
            if self._outcome is None and time.monotonic() >= until:
                break
        return self._outcome

    def _wait(self, ms: int) -> None:
        why = ctypes.create_string_buffer(_WHY)
        code = _c().director_restored_outcome(self._restored, ms, why, _WHY)
        if code:
            self._outcome = Outcome(code)
        elif self._outcome is None and self._listener.is_over:
            raise DirectorError(why.value.decode())

    def __del__(self) -> None:
        """Frees the message; a further start has it if its outcome is not known."""
        if _library is not None:
            _library.director_restored_free(self._restored)


class Listener(_Handle):
    """A member that joins sessions of the hub at `hub`."""

    _free = "director_listener_free"
    _free_message = "director_request_free"
    _is_over = "director_listener_is_over"
    _damaged_log = "director_listener_damaged_log"

    def __init__(self, key: bytes, local: str, hub: str, **options: object) -> None:
        super().__init__()
        ends = (_text(local, "local"), _text(hub, "hub"))
        self._what = (_bytes(key, "key"), *ends, _json(options))
        # Each open message takes a thread; waiting for messages must not wait for one.
        self._senders = ThreadPoolExecutor(_THREADS, "director-send")

    async def publish(
        self,
        message: bytes,
        lifetime: float = _MINUTE,
        priority: int = 100,
        topic: str | None = None,
        stored: bool = False,
    ) -> Outcome:
        """Sends a message to the hub's application; returns how it ends, after `lifetime`
        seconds at most. Messages with a lower `priority` go first. One with a topic goes on to the
        other members that have subscribed to it, when the hub's application has taken it. A stored
        one outlasts this program, and needs the option `storage`: the next start sends it again.
        256 messages are sent at a time; others wait, within their lifetimes."""
        message, priority = _bytes(message, "the message"), _number(priority, "`priority`")
        lifetime = _lifetime(lifetime)
        if topic is None and not stored:
            return (await self._send(message, lifetime, priority, None))[0]
        name = None if topic is None else _text(topic, "topic")
        function = _c().director_publish_stored if stored else _c().director_publish_to

        def send(ms: int) -> Outcome:
            return self._outcome(function, name, message, len(message), ms, priority)

        return await self._within(lifetime, send)

    def restored(self) -> list[Restored]:
        """The messages of former starts, if there is a `storage`: the library has sent those again
        that had no outcome, and the outcomes of others may not have reached the program. Once;
        empty after that."""
        found = []
        while restored := _c().director_next_restored(self._opened):
            found.append(Restored(restored, self))
        return found

    async def subscribe(self, filter: str) -> Outcome:
        """Subscribes to the topics that a filter selects, with the wildcards of MQTT: `next` and
        the iterator give their messages. It is repeated whenever the member joins again."""
        name = _text(filter, "filter")
        return await self._within(0, lambda _: self._outcome(_c().director_subscribe, name))

    async def unsubscribe(self, filter: str) -> Outcome:
        """Ends a subscription."""
        name = _text(filter, "filter")
        return await self._within(0, lambda _: self._outcome(_c().director_unsubscribe, name))

    def _outcome(self, function: Callable[..., int], *arguments: object) -> Outcome:
        why = ctypes.create_string_buffer(_WHY)
        code = function(self._opened, *arguments, why, _WHY)
        if code == 0:
            raise DirectorError(why.value.decode())
        return Outcome(code)

    async def _within(self, lifetime: float, send: Callable[[int], _Result]) -> _Result:
        """Sends with what is left of a lifetime when there is a thread, in ms."""
        until = time.monotonic() + lifetime
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._senders, lambda: send(_ms(until - time.monotonic()))
        )

    async def request(
        self,
        message: bytes,
        lifetime: float = _MINUTE,
        priority: int = 100,
        longest: int = _ANSWER,
    ) -> bytes:
        """Sends a request to the hub's application; returns its answer of at most `longest`
        bytes, or raises NotAnswered."""
        message, priority = _bytes(message, "the message"), _number(priority, "`priority`")
        lifetime, longest = _lifetime(lifetime), _number(longest, "`longest`")
        outcome, answer, why = await self._send(message, lifetime, priority, longest)
        if outcome is not Outcome.ACKNOWLEDGED:
            raise NotAnswered(outcome, why)
        return answer

    async def leave(self) -> None:
        """Leaves the session, after open messages, in 10 s at most."""
        await self._call(_c().director_leave, self._opened)

    async def come_back(self) -> None:
        """Joins again after `leave`."""
        await self._call(_c().director_come_back, self._opened)

    async def _send(
        self, message: bytes, lifetime: float, priority: int, longest: int | None
    ) -> tuple[Outcome, bytes, str]:
        return await self._within(lifetime, lambda ms: self._sent(message, ms, priority, longest))

    def _sent(
        self, message: bytes, ms: int, priority: int, longest: int | None
    ) -> tuple[Outcome, bytes, str]:
        c, why = _c(), ctypes.create_string_buffer(_WHY)
        answer = b""
        if longest is None:
            code = c.director_publish(self._opened, message, len(message), ms, priority, why, _WHY)
        else:
            room, length = ctypes.create_string_buffer(longest), ctypes.c_size_t(longest)
            code = c.director_ask(
                self._opened,
                message,
                len(message),
                ms,
                priority,
                room,
                ctypes.byref(length),
                why,
                _WHY,
            )
            if code == Outcome.ACKNOWLEDGED.value:
                if length.value > longest:
                    raise DirectorError(f"the answer has {length.value} bytes; set `longest`")
                answer = room.raw[: length.value]
        if code == 0:
            raise DirectorError(why.value.decode())
        return Outcome(code), answer, why.value.decode()

    def _open(self) -> int:
        key, local, hub, options = self._what
        why = ctypes.create_string_buffer(_WHY)
        listener = _c().director_listen(options, key, len(key), local, hub, why, _WHY)
        if not listener:
            raise DirectorError(why.value.decode())
        return int(listener)

    async def next(self, patience: float) -> Request | None:
        """The next message, or None after `patience` seconds; each message is delivered once."""
        request = await self._take("director_next", patience)
        return Request(request) if request else None

    async def __aiter__(self) -> AsyncIterator[Request]:
        """All messages in order."""
        while self._handle is not None:
            request = await self.next(0.25)
            if request is not None:
                yield request
