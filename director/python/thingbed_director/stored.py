"""Messages that outlast the program that sends them."""

from __future__ import annotations

import ctypes
import time

from ._arguments import MINUTE, patience_of
from ._handle import Handle
from ._library import WHY, free, library
from .outcome import DeliveryReport, DirectorError, Outcome


class Sending:
    """A stored message of the hub."""

    def __init__(self, sending: int, session: Handle) -> None:
        self._sending, self._session = sending, session
        length = ctypes.c_size_t()
        data = library().director_sending_message(sending, ctypes.byref(length))
        self.message: bytes = ctypes.string_at(data, length.value)
        self.answers: dict[int, bytes] = {}
        """The answers of members, when `outcomes` has returned."""
        self._outcomes: dict[int, Outcome] | None = None

    async def outcomes(self, patience: float = MINUTE) -> dict[int, Outcome] | None:
        """How it has ended at each member, or None if that is not known after `patience` seconds.
        Until this has returned them, each further start has the message."""
        until = time.monotonic() + patience
        while self._outcomes is None:
            # A thread cannot be cancelled: it waits for short times.
            rest = min(0.25, max(0.0, until - time.monotonic()))
            await self._session._call(self._wait, patience_of(rest))
            if self._outcomes is None and time.monotonic() >= until:
                break
        return self._outcomes

    def _wait(self, ms: int) -> None:
        c = library()
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
        free("director_sending_free", self._sending)


class Restored:
    """A message of a former start of its member."""

    def __init__(self, restored: int, listener: Handle) -> None:
        self._restored, self._listener = restored, listener
        self._report: DeliveryReport | None = None
        length = ctypes.c_size_t()
        data = library().director_restored_message(restored, ctypes.byref(length))
        self.message: bytes = ctypes.string_at(data, length.value)
        topic = library().director_restored_topic(restored)
        self.topic: str | None = None if topic is None else topic.decode()

    async def outcome(self, patience: float = MINUTE) -> DeliveryReport | None:
        """How it ended and why, or None if that is not known after `patience` seconds. Until this
        has returned it, each further start has the message."""
        until = time.monotonic() + patience
        while self._report is None:
            # A thread cannot be cancelled: it waits for short times.
            rest = min(0.25, max(0.0, until - time.monotonic()))
            await self._listener._call(self._wait, patience_of(rest))
            if self._report is None and time.monotonic() >= until:
                break
        return self._report

    def _wait(self, ms: int) -> None:
        why = ctypes.create_string_buffer(WHY)
        code = library().director_restored_outcome(self._restored, ms, why, WHY)
        if code:
            self._report = DeliveryReport(Outcome(code), why.value.decode())
        elif self._report is None and self._listener.is_over:
            raise DirectorError(why.value.decode())

    def __del__(self) -> None:
        """Frees the message; a further start has it if its outcome is not known."""
        free("director_restored_free", self._restored)
