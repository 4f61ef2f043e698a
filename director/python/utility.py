"""Sends a price to all meters: `utility.py KEY LOCAL METER...`."""

import asyncio
import sys

import thingbed_director as director


async def main() -> None:
    """Once; prints what came of it."""
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    key, local, *meters = sys.argv[1:]
    async with director.Session(
        key.encode(), local, meters, loss=0.3, round_trip_ms=60, rate_bit_s=250e3, mtu=113
    ) as session:
        print("all there:", await session.ready(60))
        collected = await session.collect(b"a price of 0.21 a kWh")
        print(f"{len(collected.answers)} of {len(meters)} answers:", collected.answers)
        print(await session.explain())


asyncio.run(main())
