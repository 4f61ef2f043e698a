"""What sessions and members have in common."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeVar

from ._arguments import patience_of
from ._library import library
from ._threads import Threads
from .outcome import DirectorError

# Calls of an object at a time. Fewer than the 1,024 messages for which a hub has room.
THREADS = 256
# A thread waits for a message this long at a time, in seconds: if its caller is cancelled, it takes
# none that comes later.
_SLICE = 0.25
# The longest path of Linux.
_PATH = 4_096

Result = TypeVar("Result")


class Handle:
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
        self._calls = Threads(THREADS, "director")

    @property
    def _opened(self) -> int:
        """The object of C.

        Raises DirectorError outside of `async with`."""
        if self._handle is None:
            raise DirectorError(
                f"this {type(self).__name__} is not open: use it in its `async with`"
            )
        return self._handle

    async def _call(self, function: Callable[..., Result], *arguments: object) -> Result:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._calls, function, *arguments)

    def _open(self) -> int:
        raise NotImplementedError

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or is not in its `async with`: messages that it waits for never
        come."""
        return self._handle is None or bool(getattr(library(), self._is_over)(self._handle))

    @property
    def damaged_log(self) -> str | None:
        """A copy of the storage's log, if it was damaged: messages after the damage are lost, and
        the outcomes of those before are unknown."""
        path = ctypes.create_string_buffer(_PATH)
        found = getattr(library(), self._damaged_log)(self._opened, path, _PATH)
        return path.value.decode() if found else None

    async def _take(self, name: str, patience: float) -> int | None:
        """The next message, or None after `patience` seconds. A thread cannot be cancelled: if the
        caller is, the message that its thread still gets is for the next caller."""
        handle = self._opened
        loop = asyncio.get_running_loop()
        until = loop.time() + patience_of(patience) / 1e3
        while True:
            rest = max(0.0, until - loop.time())
            limit = None
            if self._left:
                taking, limit = self._left.pop(0), rest
            else:
                ms = patience_of(min(rest, _SLICE))
                taking = asyncio.ensure_future(self._call(getattr(library(), name), handle, ms))
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
            if self._handle != handle:
                return None
            if self.is_over:
                raise DirectorError(
                    "it has ended: its storage was lost, or this process was forked from the "
                    "one that has it"
                )
            if limit is None and loop.time() >= until:
                return None

    async def __aenter__(self) -> Self:
        if self._handle is not None:
            raise DirectorError(f"this {type(self).__name__} is open already: make another one")
        opening = self._calls.submit(self._open)
        try:
            self._handle = await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            # A thread cannot be cancelled, and no `__aexit__` follows: what it opens would stay,
            # with its port, its thread and the lock of its storage.
            self._calls.submit(self._close, opening)
            raise
        return self

    def _close(self, opening: Future[int]) -> None:
        """Frees what a thread opens, when it has."""
        getattr(library(), self._free)(opening.result())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        handle, self._handle = self._handle, None
        if handle is None:
            return
        await self._call(getattr(library(), self._free), handle)
        # They end with the object.
        for message in await asyncio.gather(*self._left):
            if message:
                getattr(library(), self._free_message)(message)
