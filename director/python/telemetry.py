"""Five members send readings of a topic, and get updates of others: `telemetry.py KEY PORT`.

All are in one program here; on devices, each is a separate program.
"""

import asyncio
import sys

import thingbed_director as director


async def meter(key: bytes, local: str, hub: str) -> None:
    """Subscribes to updates, then sends a reading."""
    async with director.Listener(key, local, hub) as own:
        await own.subscribe("updates/#")
        print(local, await own.publish(b"17 kWh", topic="readings/energy"))
        print(local, "the time is", await own.request(b"time?"))
        async for update in own:
            print(local, update.topic, update.message)


async def main() -> None:
    """Takes ten messages, then sends the update."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    key, port = sys.argv[1].encode(), int(sys.argv[2])
    hub, *members = [f"127.0.0.1:{port + n}" for n in range(6)]
    async with director.Session(key, hub, members) as session:
        meters = [asyncio.create_task(meter(key, local, hub)) for local in members]
        for _ in range(10):
            reading = await session.receive(30)
            if reading is not None and reading.is_request:
                reading.reply(b"noon")
        print(await session.publish("updates/price", b"0.21"))
        for task in meters:
            task.cancel()


asyncio.run(main())
