"""Five members send readings when they have some, and get an update: `telemetry.py KEY PORT`.

All are in one program here; on devices, each is a separate program.
"""

import asyncio
import sys

import director


async def meter(key: bytes, local: str, hub: str) -> None:
    """Sends a reading, then answers an update."""
    async with director.Listener(key, local, hub) as own:
        print(local, await own.publish(b"17 kWh"))
        print(local, "the time is", await own.request(b"time?"))
        async for update in own:
            update.reply(b"updated")


async def main() -> None:
    """Takes ten messages, then sends the update."""
    key, port = sys.argv[1].encode(), int(sys.argv[2])
    hub, *members = [f"127.0.0.1:{port + n}" for n in range(6)]
    async with director.Session(key, hub, members) as session:
        meters = [asyncio.create_task(meter(key, local, hub)) for local in members]
        for _ in range(10):
            reading = await session.receive(30)
            if reading is not None and reading.is_request:
                reading.reply(b"noon")
        print(await session.collect(b"an update"))
        for task in meters:
            task.cancel()


asyncio.run(main())
