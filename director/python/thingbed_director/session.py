"""The hub's end of a session."""

from __future__ import annotations

import ctypes
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from ._arguments import (
    MINUTE,
    bytes_of,
    json_of,
    lifetime_of,
    ms_of,
    number_of,
    numbers_of,
    patience_of,
    text_of,
)
from ._handle import Handle
from ._library import WHY, library
from .messages import Incoming
from .outcome import DirectorError
from .stored import Sending

_TEXT = 2_000


@dataclass(frozen=True)
class Collected:
    """Responses to a message: answers by member (its index in the list of members), and the
    members that have not answered by the deadline."""

    answers: dict[int, bytes]
    lacking: tuple[int, ...]


class Session(Handle):
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
            keys = [bytes_of(own, "a key") for own in key]
        else:
            keys = bytes_of(key, "key")
        names = [text_of(member, "a member") for member in members]
        self._what = (keys, text_of(local, "local"), names, json_of(options))

    def _open(self) -> int:
        key, local, members, options = self._what
        why = ctypes.create_string_buffer(WHY)
        names = (ctypes.c_char_p * len(members))(*members)
        rest = (local, names, len(members), why, WHY)
        if isinstance(key, bytes):
            session = library().director_initiate(options, key, len(key), *rest)
        else:
            keys = (ctypes.c_char_p * len(key))(*key)
            lengths = (ctypes.c_size_t * len(key))(*(len(own) for own in key))
            session = library().director_initiate_keys(options, keys, lengths, len(key), *rest)
        if not session:
            raise DirectorError(why.value.decode())
        return int(session)

    async def ready(self, patience: float) -> bool:
        """Waits until all `members` have joined, at most `patience` seconds. It does not wait for
        `places`, so with these only it is true at once: wait with `members()` instead."""
        ready = await self._call(library().director_ready, self._opened, patience_of(patience))
        return bool(ready)

    async def collect(self, message: bytes, members: Sequence[int] | None = None) -> Collected:
        """Sends a message to all members, or to these; returns their answers by the deadline."""
        return await self._call(self._collect, bytes_of(message, "the message"), members)

    async def request(self, member: int, message: bytes) -> bytes | None:
        """Sends a message to one member; returns its answer, or None if there is none in time."""
        return (await self.collect(message, [member])).answers.get(member)

    async def publish(self, topic: str, message: bytes) -> Collected:
        """Sends a message of a topic to the members that have subscribed to it; returns who has
        acknowledged it by the deadline."""
        return await self._call(
            self._publish, text_of(topic, "topic"), bytes_of(message, "the message")
        )

    async def store(
        self, message: bytes, members: Sequence[int], lifetime: float = MINUTE
    ) -> Sending:
        """Stores a message for these members and sends it; returns when it is on the disk. It
        outlasts this program, and needs the option `storage`: the next start sends it again. It
        ends at each member after `lifetime` seconds at the latest."""
        message = bytes_of(message, "the message")
        ms = ms_of(lifetime_of(lifetime))
        return await self._call(self._store, message, list(members), ms)

    def _store(self, message: bytes, members: list[int], ms: int) -> Sending:
        why = ctypes.create_string_buffer(WHY)
        numbers = numbers_of(members)
        sending = library().director_store(
            self._opened, numbers, len(members), message, len(message), ms, why, WHY
        )
        if not sending:
            raise DirectorError(why.value.decode())
        return Sending(sending, self)

    def restored(self) -> list[Sending]:
        """The stored messages of former starts, if there is a `storage`: the library sends those
        again that have no outcome at a member, and the outcomes of others may not have reached the
        program. Once; empty after that."""
        found = []
        while sending := library().director_next_sending(self._opened):
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
        number = number_of(member, "a member")
        if not await self._call(library().director_revoke, self._opened, number):
            raise DirectorError(f"there is no member {member}, or the session is over")

    async def admit(self, member: int, key: bytes) -> None:
        """Accepts a revoked member again, with this key if each member has one."""
        why = ctypes.create_string_buffer(WHY)
        key, number = bytes_of(key, "key"), number_of(member, "a member")
        if not await self._call(
            library().director_admit, self._opened, number, key, len(key), why, WHY
        ):
            raise DirectorError(why.value.decode())

    async def members(self) -> list[int]:
        """The members that have joined and not left."""
        count = await self._call(library().director_members, self._opened, None, 0)
        numbers = (ctypes.c_uint32 * count)()
        joined = await self._call(library().director_members, self._opened, numbers, count)
        return list(numbers[: min(count, joined)])

    def _collect(self, message: bytes, members: Sequence[int] | None) -> Collected:
        c, why = library(), ctypes.create_string_buffer(WHY)
        if members is None:
            collected = c.director_collect(self._opened, message, len(message), why, WHY)
        else:
            numbers = numbers_of(members)
            collected = c.director_collect_from(
                self._opened, numbers, len(members), message, len(message), why, WHY
            )
        return self._collected(collected, why)

    def _publish(self, topic: bytes, message: bytes) -> Collected:
        why = ctypes.create_string_buffer(WHY)
        collected = library().director_publish_topic(
            self._opened, topic, message, len(message), why, WHY
        )
        return self._collected(collected, why)

    def _collected(self, collected: int | None, why: ctypes.Array[ctypes.c_char]) -> Collected:
        c = library()
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
        if not await self._call(library().director_explain, self._opened, text, _TEXT):
            raise DirectorError("the session is over")
        return text.value.decode()
