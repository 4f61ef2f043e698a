"""The director's Python package over its C library, on loopback."""

import asyncio
import importlib
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "director" / "python"))

director: Any = importlib.import_module("thingbed_director")
loading: Any = importlib.import_module("thingbed_director._library")

KEY = b"a key of sixteen bytes"
# No test fails because the machine is busy.
PATIENT = 120.0


def built() -> Path | None:
    """The library that `DIRECTOR_LIBRARY` names, or the last one that was built."""
    named = os.environ.get("DIRECTOR_LIBRARY")
    if named:
        return Path(named)
    # In `deps` if cargo has built it for tests.
    names = ("debug", "debug/deps", "release")
    folders = [ROOT / "target" / name for name in names]
    found = [path for folder in folders for path in folder.glob("libdirector_c.so")]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    path = built()
    if path is None:
        pytest.skip("no C library: cargo build -p thingbed-director-c")
    monkeypatch.setenv("DIRECTOR_LIBRARY", str(path))
    monkeypatch.setattr(loading, "_loaded", None)


def addresses() -> list[str]:
    """Two free addresses."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return found


def in_session(act: Any) -> Any:
    """What `act` returns for a session and its only member."""

    async def run() -> Any:
        hub, own = addresses()
        async with (
            director.Listener(KEY, own, hub) as meter,
            director.Session(KEY, hub, [own]) as session,
        ):
            assert await session.ready(PATIENT)
            return await act(session, meter)

    return asyncio.run(asyncio.wait_for(run(), PATIENT))


def test_a_message_is_answered() -> None:
    async def act(session: Any, meter: Any) -> Any:
        collecting = asyncio.create_task(session.collect(b"a price"))
        request = await meter.next(PATIENT)
        message = request.message
        request.reply(b"a reading")
        return message, (await collecting).answers

    assert in_session(act) == (b"a price", {0: b"a reading"})


def test_a_message_for_a_cancelled_caller_is_for_the_next_one() -> None:
    async def act(session: Any, meter: Any) -> Any:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(meter.next(60), 0.05)
        collecting = asyncio.create_task(session.collect(b"a price"))
        request = await meter.next(PATIENT)
        message = request.message
        request.reply(b"1")
        await collecting
        return message

    assert in_session(act) == b"a price"


def test_a_member_publishes_and_knows_that_it_arrived() -> None:
    async def act(session: Any, meter: Any) -> Any:
        publishing = asyncio.create_task(meter.publish(b"a reading"))
        incoming = await session.receive(PATIENT)
        return incoming.member, incoming.message, await publishing

    assert in_session(act) == (0, b"a reading", director.Outcome.ACKNOWLEDGED)


def test_reports_of_messages_have_a_reason() -> None:
    # What failed before: a message that is too long had the same outcome as one that was refused.
    async def act(session: Any, meter: Any) -> Any:
        failed = director.Outcome.FAILED
        publishing = [meter.publish(bytes(400_000)), meter.publish(bytes(400_000), topic="a")]
        for report in await asyncio.gather(*publishing):
            assert report == failed and report.outcome is failed
            assert "bytes, and 372" in report.reason and "send it in parts" in report.reason
            assert str(report) == f"Outcome.FAILED: {report.reason}"
        subscribed = await meter.subscribe("a/#")
        assert (subscribed, subscribed.reason) == (director.Outcome.ACKNOWLEDGED, "")

    in_session(act)


def test_a_message_that_was_not_sent_has_a_reason() -> None:
    async def run() -> Any:
        hub, own = addresses()
        async with director.Listener(KEY, own, hub) as meter:
            return await meter.publish(b"a reading", lifetime=0.1)

    report = asyncio.run(run())
    assert report == director.Outcome.FAILED
    assert "the member had not joined" in report.reason


def test_a_key_that_is_too_short_is_an_error_with_its_reason() -> None:
    async def run() -> None:
        hub, own = addresses()
        async with director.Session(b"short", hub, [own]):
            pass

    with pytest.raises(director.DirectorError, match="key"):
        asyncio.run(run())


def test_a_hub_signs_with_a_key_for_each_member() -> None:
    async def run(keys: Any) -> Any:
        hub, own = addresses()
        async with (
            director.Listener(KEY, own, hub) as meter,
            director.Session(keys, hub, [own], signed=True) as session,
        ):
            assert await session.ready(PATIENT)
            collecting = asyncio.create_task(session.collect(b"a price"))
            request = await meter.next(PATIENT)
            request.reply(request.message)
            return (await collecting).answers

    assert asyncio.run(asyncio.wait_for(run([KEY]), PATIENT)) == {0: b"a price"}
    with pytest.raises(director.DirectorError, match="its own key"):
        asyncio.run(run(KEY))


def test_a_text_is_no_key() -> None:
    # What failed before: an error of ctypes.
    ends: list[Callable[[], object]] = [
        lambda: director.Session("text", "", []),
        lambda: director.Listener("text", "", ""),
    ]
    for end in ends:
        with pytest.raises(TypeError, match="key is of type str: use bytes"):
            end()
    with pytest.raises(TypeError, match="members is one text"):
        director.Session(KEY, "", "127.0.0.1:9")


def test_callers_that_wait_hold_up_no_other_call() -> None:
    # What failed before: the threads of asyncio waited for messages, so that `explain` waited too.
    async def run() -> float:
        hub, own = addresses()
        async with director.Session(KEY, hub, [own]) as session:
            waiting = [asyncio.create_task(session.receive(PATIENT)) for _ in range(40)]
            await asyncio.sleep(0.2)
            began = asyncio.get_running_loop().time()
            await session.explain()
            took = asyncio.get_running_loop().time() - began
            for one in waiting:
                one.cancel()
            return took

    assert asyncio.run(run()) < PATIENT / 2


@pytest.mark.parametrize("call", ["meter.publish(b'x', lifetime=900)", "session.ready(900)"])
def test_a_program_that_ends_waits_for_no_message(call: str) -> None:
    # What failed before: Python waited for the thread of the message, for its whole lifetime.
    hub, own = addresses()
    program = textwrap.dedent(f"""
        import asyncio
        import thingbed_director as director

        async def main():
            meter = director.Listener({KEY!r}, {own!r}, "127.0.0.1:9")
            session = director.Session({KEY!r}, {hub!r}, ["127.0.0.1:9"])
            await meter.__aenter__()
            await session.__aenter__()
            waiting = asyncio.create_task({call})
            await asyncio.sleep(0.3)
            assert not waiting.done()

        asyncio.run(main())
    """)
    path = str(ROOT / "director" / "python")
    environment = os.environ | {"PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", program], env=environment, timeout=PATIENT, check=True)


def test_a_lifetime_includes_the_wait_for_a_thread() -> None:
    async def run() -> float:
        hub, own = addresses()
        async with director.Listener(KEY, own, hub) as meter:
            began = asyncio.get_running_loop().time()
            await asyncio.gather(*(meter.publish(b"x", lifetime=3) for _ in range(1100)))
            return asyncio.get_running_loop().time() - began

    # One after the other, five turns take 15 s.
    assert asyncio.run(run()) < 12


def test_a_zero_in_a_topic_is_an_error() -> None:
    async def act(_: Any, meter: Any) -> None:
        with pytest.raises(director.DirectorError, match="remove the zero character"):
            await meter.publish(b"x", topic="a\0b")

    in_session(act)


def test_an_iterator_ends_with_an_error_if_its_object_is_over() -> None:
    # What failed before: it called the library without an end.
    async def act(session: Any, meter: Any) -> None:
        assert await session.receive(0.001) is None
        assert not session.is_over
        assert not meter.is_over
        loading.library().director_session_free(session._handle)
        assert session.is_over
        with pytest.raises(director.DirectorError, match="it has ended"):
            async for _ in session.messages():
                pass

    in_session(act)


def test_outcomes_of_messages_of_a_former_start(tmp_path: Path) -> None:
    # What failed before: a program learned nothing of what its former start had stored.
    async def run() -> None:
        hub, own = addresses()
        storage = str(tmp_path / "storage")
        async with director.Listener(KEY, own, hub, storage=storage) as meter:
            assert meter.restored() == []
            publishing = asyncio.create_task(meter.publish(b"17", topic="energy", stored=True))
            log = tmp_path / "storage" / "outgoing.log"
            while not log.exists() or b"17" not in log.read_bytes():
                await asyncio.sleep(0.01)
        with pytest.raises(director.DirectorError):
            await publishing
        async with director.Listener(KEY, own, hub, storage=storage) as meter:
            (earlier,) = meter.restored()
            assert (earlier.message, earlier.topic) == (b"17", "energy")
            assert await earlier.outcome(0.01) is None
            async with director.Session(KEY, hub, [own]) as session:
                incoming = await session.receive(PATIENT)
                assert incoming.message == b"17"
                assert await earlier.outcome(PATIENT) == director.Outcome.ACKNOWLEDGED
                assert await earlier.outcome() == director.Outcome.ACKNOWLEDGED
        async with director.Listener(KEY, own, hub, storage=storage) as meter:
            assert meter.restored() == []

    asyncio.run(asyncio.wait_for(run(), PATIENT))


def test_messages_of_a_hub_outlast_its_session(tmp_path: Path) -> None:
    async def run() -> None:
        hub, own = addresses()
        storage = str(tmp_path / "storage")
        async with director.Session(KEY, hub, [own], storage=storage) as session:
            assert session.restored() == []
            sending = await session.store(b"a price", [0], 600)
            assert await sending.outcomes(0.01) is None
            with pytest.raises(director.DirectorError):
                await session.store(b"a price", [7])
        async with (
            director.Session(KEY, hub, [own], storage=storage) as session,
            director.Listener(KEY, own, hub) as meter,
        ):
            (earlier,) = session.restored()
            assert earlier.message == b"a price"
            request = await meter.next(PATIENT)
            assert request.message == b"a price"
            request.reply(b"yes")
            acknowledged = {0: director.Outcome.ACKNOWLEDGED}
            assert await earlier.outcomes(PATIENT) == acknowledged
            assert earlier.answers == {0: b"yes"}
        async with director.Session(KEY, hub, [own], storage=storage) as session:
            assert session.restored() == []
        async with director.Session(KEY, hub, [own]) as session:
            with pytest.raises(director.DirectorError, match="there is no storage"):
                await session.store(b"a price", [0])

    asyncio.run(asyncio.wait_for(run(), PATIENT))
