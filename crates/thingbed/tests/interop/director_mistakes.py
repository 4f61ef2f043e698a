"""Mistakes of users of the director's Python package, over loopback: each is an error that says
what is wrong."""

import asyncio
import sys
from collections.abc import Awaitable
from pathlib import Path

import thingbed_director as director

KEY = b"a key of all the ends"
OTHER_KEY = b"a key of other ends"
PORTS = iter(range(int(sys.argv[1]), 65_536))
MORE = {"places": 1}


def free() -> str:
    """An address that no other test uses."""
    return f"127.0.0.1:{next(PORTS)}"


async def fails(call: Awaitable[object], expected: str) -> None:
    """Checks that a call fails with this text."""
    try:
        result = await asyncio.wait_for(call, 60)
    except (director.DirectorError, TypeError) as error:
        assert expected in str(error), f"{error} (expected: {expected})"
    else:
        raise AssertionError(f"{expected}: no error, but {result}")


async def hub(key: object = KEY, local: str | None = None, **options: object) -> None:
    """Starts a hub, and ends it."""
    members = options.pop("members", [])
    async with director.Session(key, local or free(), members, **options):
        pass


async def member(key: object = KEY, local: str | None = None, **options: object) -> None:
    """Starts a member, and ends it."""
    to = options.pop("hub", None) or free()
    async with director.Listener(key, local or free(), to, **options):
        pass


async def starts(folder: Path) -> None:
    """Sessions that cannot start."""
    await fails(hub(b"short", **MORE), "use at least 16 random bytes")
    await fails(hub("a key of all the ends", **MORE), "use bytes")
    await fails(hub(None, **MORE), "use bytes")
    await fails(hub([KEY, OTHER_KEY, KEY], places=3), "members 0 and 2 have the same key")
    await fails(hub([KEY], places=2), "1 keys for 2 members")
    await fails(hub(), "or set `places`")
    await fails(hub(places=1 << 40), "members")
    await fails(hub(places=-1), "-1")
    await fails(hub(local="127.0.0.1:99999", **MORE), "NAME:PORT is expected")
    await fails(hub(local="127.0.0.1:5\x00700", **MORE), "zero character")
    await fails(hub(local="192.0.2.7:5700", **MORE), "no interface of this machine")
    await fails(hub(members=[5]), "a text")
    for wrong in ["127.0.0.1:0", "0.0.0.0:5", "224.0.0.1:5", "255.255.255.255:5"]:
        await fails(hub(members=[wrong]), f"a member cannot be at {wrong}")
        await fails(member(hub=wrong), f"the hub cannot be at {wrong}")
    local = free()
    await fails(hub(local=local, members=[local]), f"the hub's address, {local}")
    await fails(hub(members=["[::1]:5700"]), "IPv6 addresses only")
    await fails(member(hub="[::1]:5700"), "no IPv4 address")
    await fails(hub(group="239.1.1.1:0", **MORE), "use a multicast address and a port")
    await fails(hub(loss=2, **MORE), "`loss` is 2; use a value from 0 to 1")
    await fails(hub(rate_bit_s=1e300, **MORE), "`rate_bit_s` is 1e300")
    profile = {"connCapacityProfile": "fast"}
    await fails(hub(properties=profile, **MORE), "expected one of `default`, `scavenger`")
    await fails(hub(models=["pigeon"], **MORE), "expected one of `udp-request-response`")
    file = folder / "file"
    file.touch()
    for end in (hub, member):
        options = MORE if end is hub else {}
        await fails(end(storage=file, **options), "use a folder")
        await fails(end(storage="", **options), "use the path of a folder")
    async with director.Session(KEY, local, [], **MORE, storage=folder / "own") as first:
        await fails(hub(local=local, **MORE), "another program has it")
        await fails(hub(storage=folder / "own", **MORE), "another program uses it")
        await fails(first.__aenter__(), "is open already")
    await fails(first.collect(b"x"), "is not open")
    try:
        director.Session(KEY, free(), [], loss=float("nan"))
    except director.DirectorError as error:
        assert "not a finite number" in str(error)


async def messages() -> None:
    """Messages that cannot be sent."""
    local, to = free(), free()
    async with director.Session(KEY, to, [local], deadline_ms=20000) as session:
        for wrong in (-1, 1 << 32):
            await fails(session.collect(b"x", [wrong]), f"a member is {wrong}")
            await fails(session.revoke(wrong), f"a member is {wrong}")
        await fails(session.collect(b"x", [7]), "there is no member 7")
        await fails(session.revoke(7), "there is no member 7")
        await fails(session.admit(7, KEY), "there is no member 7")
        await fails(session.collect("x"), "use bytes")
        await fails(session.publish("a/#", b"x"), "is not a topic")
        await fails(session.store(b"x", [0]), "there is no storage")
        await fails(session.ready(float("nan")), "not a number")
        await fails(session.collect(bytes(20 << 20)), "send it in parts")
        async with director.Listener(KEY, local, to) as meter:
            assert await session.ready(float("inf"))
            for lifetime in (0, -1, float("nan")):
                await fails(meter.publish(b"x", lifetime=lifetime), "`lifetime` is")
                await fails(meter.request(b"x", lifetime=lifetime), "`lifetime` is")
            for priority in (-1, 1 << 32):
                await fails(meter.publish(b"x", priority=priority), "`priority` is")
            await fails(meter.publish(b"x", topic="a/+/b"), "is not a topic")
            await fails(meter.publish(b"x", stored=True), "no storage")
            await fails(meter.publish(bytes(5 << 20)), "4194304 are the maximum")
            await fails(meter.subscribe("a/#/b"), "is not a filter")
        await fails(meter.publish(b"x"), "is not open")
        await fails(meter.leave(), "is not open")
        assert [request async for request in meter] == []
    await fails(session.members(), "is not open")


async def storages(folder: Path) -> None:
    """Storages that are full, or damaged by others."""
    local, to = free(), free()
    member, hub = folder / "member", folder / "hub"
    long = {"lifetime": 3600, "stored": True}
    for _ in range(2):
        async with (
            director.Session(KEY, to, [local], storage=hub, storage_bytes=20000) as session,
            director.Listener(KEY, local, to, storage=member, storage_bytes=20000) as meter,
        ):
            assert session.damaged_log is None and meter.damaged_log is None
            await fails(session.store(bytes(21000), [0]), "exceed the limit of 20000")
            await fails(meter.publish(bytes(21000), **long), "exceed the limit of 20000")
            await session.store(b"a price", [0], lifetime=3600)
    for log in (hub / "hub.log", member / "outgoing.log"):
        log.write_bytes(b"\x80" + bytes(range(1, 200)))
    async with (
        director.Session(KEY, to, [local], storage=hub) as session,
        director.Listener(KEY, local, to, storage=member) as meter,
    ):
        assert session.restored() == [] and meter.restored() == []
        for damaged in (session.damaged_log, meter.damaged_log):
            assert damaged is not None and Path(damaged).exists(), damaged


folder = Path(sys.argv[2])
asyncio.run(starts(folder))
asyncio.run(messages())
asyncio.run(storages(folder))
print("every mistake is an error")
