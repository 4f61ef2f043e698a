"""The director's Python package over a stand-in for its C library.

For orders of events that the real one cannot repeat; the rest is in `test_director_library.py`.
"""

import asyncio
import ctypes
import importlib
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "director" / "python"))

director: Any = importlib.import_module("thingbed_director")
loading: Any = importlib.import_module("thingbed_director._library")


class Library:
    """Hands out numbers as messages, to one thread at a time."""

    def __init__(self) -> None:
        self.ready = threading.Condition()
        self.messages: deque[int] = deque()
        self.ended = False
        self.freed: list[int] = []

    def give(self, message: int) -> None:
        with self.ready:
            self.messages.append(message)
            self.ready.notify_all()

    def director_listen(self, *_: object) -> int:
        return 1

    def director_listener_free(self, _: int) -> None:
        with self.ready:
            self.ended = True
            self.ready.notify_all()

    def director_next(self, _: int, patience_ms: int) -> int | None:
        with self.ready:
            arrived = lambda: self.ended or self.messages  # noqa: E731
            self.ready.wait_for(arrived, patience_ms / 1e3)
            return self.messages.popleft() if self.messages else None

    def director_topic(self, _: int) -> bytes | None:
        return None

    def director_message(self, request: int, length: object) -> int:
        length._obj.value = 1  # type: ignore[attr-defined]
        self.content = ctypes.create_string_buffer(bytes([request]))
        return ctypes.addressof(self.content)

    def director_request_free(self, request: int) -> None:
        self.freed.append(request)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library()
    monkeypatch.setattr(loading, "_loaded", library)
    return library


def listener() -> Any:
    return director.Listener(b"a key of sixteen bytes", "127.0.0.1:1", "127.0.0.1:2")


def test_a_message_for_a_cancelled_caller_is_for_the_next_one(library: Library) -> None:
    async def run() -> list[bytes]:
        async with listener() as meter:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(meter.next(60), 0.05)
            assert await meter.next(0.05) is None
            taken = []
            for message in [7, 8]:
                library.give(message)
                request = await meter.next(5)
                taken.append(request.message if request else b"")
            return taken

    assert asyncio.run(run()) == [b"\7", b"\x08"]


def test_what_waits_when_the_listener_ends_is_freed(library: Library) -> None:
    async def run() -> None:
        async with listener() as meter:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(meter.next(60), 0.05)
            library.give(9)

    asyncio.run(run())
    assert library.freed == [9]
