"""The director's Python package over a stand-in for its C library.

For orders of events that the real one cannot repeat; the rest is in `test_director_library.py`.
"""

import asyncio
import ctypes
import gc
import importlib
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "director" / "python"))

director: Any = importlib.import_module("thingbed_director")
handles: Any = importlib.import_module("thingbed_director._handle")
pools: Any = importlib.import_module("thingbed_director._threads")
loading: Any = importlib.import_module("thingbed_director._library")

# No test fails because the machine is busy.
PATIENT = 60.0


class Library:
    """Hands out numbers as messages, to one thread at a time."""

    def __init__(self) -> None:
        self.ready = threading.Condition()
        self.messages: deque[int] = deque()
        self.ended = False
        self.freed: list[int] = []
        # Threads that wait for a message.
        self.waiting = 0
        # Cleared, opening takes until it is set.
        self.can_open = threading.Event()
        self.can_open.set()
        self.open: set[int] = set()

    def give(self, message: int) -> None:
        with self.ready:
            self.messages.append(message)
            self.ready.notify_all()

    def director_listen(self, *_: object) -> int:
        self.can_open.wait(PATIENT)
        with self.ready:
            self.open.add(1)
            self.ready.notify_all()
        return 1

    def director_listener_free(self, listener: int) -> None:
        with self.ready:
            self.ended = True
            self.open.discard(listener)
            self.ready.notify_all()

    def director_listener_is_over(self, _: int) -> bool:
        return self.ended

    def director_next(self, _: int, patience_ms: int) -> int | None:
        with self.ready:
            arrived = lambda: self.ended or self.messages  # noqa: E731
            self.waiting += 1
            self.ready.wait_for(arrived, patience_ms / 1e3)
            self.waiting -= 1
            self.ready.notify_all()
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


def threads(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def test_threads_are_used_again_and_end_with_their_object() -> None:
    pool = pools.Threads(3, "some")
    gate = threading.Event()
    waiting = [pool.submit(gate.wait, PATIENT) for _ in range(5)]
    assert len(threads("some")) == 3
    assert waiting[4].cancel()
    gate.set()
    assert all(one.result(PATIENT) for one in waiting[:4])
    for _ in range(20):
        assert pool.submit(lambda a, b: a + b, 1, b=2).result(PATIENT) == 3
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 / 0).result(PATIENT)
    assert len(threads("some")) == 3
    del pool
    gc.collect()
    until = time.monotonic() + PATIENT
    while threads("some") and time.monotonic() < until:
        time.sleep(0.01)
    assert threads("some") == []


def test_a_thread_without_a_call_is_used_before_a_new_one() -> None:
    pool = pools.Threads(100, "few")
    for _ in range(20):
        pool.submit(int).result(PATIENT)
        time.sleep(0.005)
    assert len(threads("few")) < 20


def test_a_report_equals_its_outcome() -> None:
    failed, unknown = director.Outcome.FAILED, director.Outcome.UNKNOWN
    report = director.DeliveryReport(failed, "it is too long")
    assert report == failed and failed == report and report != unknown
    assert {failed: 1}[report] == 1
    assert report == director.DeliveryReport(failed)
    assert report != "FAILED"
    assert str(report) == "Outcome.FAILED: it is too long"
    assert str(director.DeliveryReport(director.Outcome.ACKNOWLEDGED)) == "Outcome.ACKNOWLEDGED"


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


def test_a_cancelled_caller_takes_no_message_that_comes_later(library: Library) -> None:
    # What failed before: its thread took one within the whole patience, and if the listener then
    # ended, the message was lost, though its sender had learned that it was taken.
    async def run() -> None:
        async with listener() as meter:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(meter.next(600), 0.05)
            with library.ready:
                assert library.ready.wait_for(lambda: library.waiting == 0, PATIENT)
            library.give(9)

    asyncio.run(run())
    assert (list(library.messages), library.freed) == ([9], [])


def test_a_message_that_takes_longer_than_a_slice_is_received(library: Library) -> None:
    async def run() -> bytes:
        async with listener() as meter:
            asyncio.get_running_loop().call_later(3 * handles._SLICE, library.give, 7)
            request = await meter.next(PATIENT)
            return bytes(request.message)

    assert asyncio.run(run()) == b"\7"


def test_what_waits_when_the_listener_ends_is_freed(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handles, "_SLICE", PATIENT)

    async def run() -> None:
        async with listener() as meter:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(meter.next(60), 0.05)
            library.give(9)

    asyncio.run(run())
    assert library.freed == [9]


@pytest.mark.parametrize("is_open", [False, True])
def test_what_a_cancelled_caller_opens_is_freed(library: Library, is_open: bool) -> None:
    # What failed before: the member stayed, with its port, until the program ended.
    async def run() -> None:
        library.can_open.clear()
        opening = asyncio.create_task(listener().__aenter__())
        await asyncio.sleep(0.05)
        if is_open:
            # Also if its thread has done so, and the caller does not know yet.
            library.can_open.set()
            with library.ready:
                assert library.ready.wait_for(lambda: library.open, PATIENT)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(run())
    library.can_open.set()
    with library.ready:
        assert library.ready.wait_for(lambda: library.ended, PATIENT)
    assert library.open == set()
