"""A member of a session."""

from __future__ import annotations

import asyncio
import ctypes
import time
from collections.abc import AsyncIterator, Callable

from ._arguments import MINUTE, bytes_of, json_of, lifetime_of, ms_of, number_of, text_of
from ._handle import THREADS, Handle, Result
from ._library import WHY, library
from ._threads import Threads
from .messages import Request
from .outcome import DeliveryReport, DirectorError, NotAnswered, Outcome
from .stored import Restored

_ANSWER = 1 << 16


class Listener(Handle):
    """A member that joins sessions of the hub at `hub`. Only the options `insecure_on_purpose`,
    `keep_alive_s`, `storage`, `storage_bytes` and `connCapacityProfile` of the `properties` have an
    effect; others, such as `places`, `signed` and `deadline_ms`, are for the hub's `Session`."""

    _free = "director_listener_free"
    _free_message = "director_request_free"
    _is_over = "director_listener_is_over"
    _damaged_log = "director_listener_damaged_log"

    def __init__(self, key: bytes, local: str, hub: str, **options: object) -> None:
        super().__init__()
        ends = (text_of(local, "local"), text_of(hub, "hub"))
        self._what = (bytes_of(key, "key"), *ends, json_of(options))
        # Each open message takes a thread; waiting for messages must not wait for one.
        self._senders = Threads(THREADS, "director-send")

    async def publish(
        self,
        message: bytes,
        lifetime: float = MINUTE,
        priority: int = 100,
        topic: str | None = None,
        stored: bool = False,
    ) -> DeliveryReport:
        """Sends a message to the hub's application; returns how it ends and why, after `lifetime`
        seconds at most: `report == Outcome.FAILED`, `report.reason`. Messages with a lower
        `priority` go first. One with a topic goes on to the other members that have subscribed to
        it, when the hub's application has taken it. A stored one outlasts this program, and needs
        the option `storage`: the next start sends it again. 256 messages are sent at a time; others
        wait, within their lifetimes."""
        message, priority = bytes_of(message, "the message"), number_of(priority, "`priority`")
        lifetime = lifetime_of(lifetime)
        if topic is None and not stored:
            return (await self._send(message, lifetime, priority, None))[0]
        name = None if topic is None else text_of(topic, "topic")
        function = library().director_publish_stored if stored else library().director_publish_to

        def send(ms: int) -> DeliveryReport:
            return self._report(function, name, message, len(message), ms, priority)

        return await self._within(lifetime, send)

    def restored(self) -> list[Restored]:
        """The messages of former starts, if there is a `storage`: the library has sent those again
        that had no outcome, and the outcomes of others may not have reached the program. Once;
        empty after that."""
        found = []
        while restored := library().director_next_restored(self._opened):
            found.append(Restored(restored, self))
        return found

    async def subscribe(self, filter: str) -> DeliveryReport:
        """Subscribes to the topics that a filter selects, with the wildcards of MQTT: `next` and
        the iterator give their messages. It is repeated whenever the member joins again."""
        name = text_of(filter, "filter")
        return await self._within(0, lambda _: self._report(library().director_subscribe, name))

    async def unsubscribe(self, filter: str) -> DeliveryReport:
        """Ends a subscription."""
        name = text_of(filter, "filter")
        return await self._within(0, lambda _: self._report(library().director_unsubscribe, name))

    def _report(self, function: Callable[..., int], *arguments: object) -> DeliveryReport:
        why = ctypes.create_string_buffer(WHY)
        code = function(self._opened, *arguments, why, WHY)
        if code == 0:
            raise DirectorError(why.value.decode())
        return DeliveryReport(Outcome(code), why.value.decode())

    async def _within(self, lifetime: float, send: Callable[[int], Result]) -> Result:
        """Sends with what is left of a lifetime when there is a thread, in ms."""
        until = time.monotonic() + lifetime
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._senders, lambda: send(ms_of(until - time.monotonic()))
        )

    async def request(
        self,
        message: bytes,
        lifetime: float = MINUTE,
        priority: int = 100,
        longest: int = _ANSWER,
    ) -> bytes:
        """Sends a request to the hub's application; returns its answer of at most `longest`
        bytes, or raises NotAnswered."""
        message, priority = bytes_of(message, "the message"), number_of(priority, "`priority`")
        lifetime, longest = lifetime_of(lifetime), number_of(longest, "`longest`")
        report, answer = await self._send(message, lifetime, priority, longest)
        if report != Outcome.ACKNOWLEDGED:
            raise NotAnswered(report.outcome, report.reason)
        return answer

    async def leave(self) -> None:
        """Leaves the session, after open messages, in 10 s at most. Without it, the hub goes on
        waiting for this member after its end. It returns at once: close the member a second or so
        later, so that the hub has the notice."""
        await self._call(library().director_leave, self._opened)

    async def come_back(self) -> None:
        """Joins again after `leave`."""
        await self._call(library().director_come_back, self._opened)

    async def _send(
        self, message: bytes, lifetime: float, priority: int, longest: int | None
    ) -> tuple[DeliveryReport, bytes]:
        return await self._within(lifetime, lambda ms: self._sent(message, ms, priority, longest))

    def _sent(
        self, message: bytes, ms: int, priority: int, longest: int | None
    ) -> tuple[DeliveryReport, bytes]:
        c, why = library(), ctypes.create_string_buffer(WHY)
        answer = b""
        if longest is None:
            code = c.director_publish(self._opened, message, len(message), ms, priority, why, WHY)
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
                WHY,
            )
            if code == Outcome.ACKNOWLEDGED.value:
                if length.value > longest:
                    raise DirectorError(f"the answer has {length.value} bytes; set `longest`")
                answer = room.raw[: length.value]
        if code == 0:
            raise DirectorError(why.value.decode())
        return DeliveryReport(Outcome(code), why.value.decode()), answer

    def _open(self) -> int:
        key, local, hub, options = self._what
        why = ctypes.create_string_buffer(WHY)
        listener = library().director_listen(options, key, len(key), local, hub, why, WHY)
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
