"""A meter whose readings outlast its restarts: `stored.py KEY LOCAL HUB FOLDER READING`.

The hub is `director-hub` of the Rust examples, or a `director.Session` of another program.
"""

import asyncio
import sys

import thingbed_director as director


async def main() -> None:
    """Says what became of earlier readings, then sends one."""
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    _, key, local, hub, folder, reading = sys.argv
    async with director.Listener(key.encode(), local, hub, storage=folder) as meter:
        earlier = meter.restored()
        outcomes = await asyncio.gather(*(one.outcome() for one in earlier))
        for one, outcome in zip(earlier, outcomes, strict=True):
            print("of a former start:", one.message, outcome, flush=True)
        print("now:", await meter.publish(reading.encode(), stored=True), flush=True)


asyncio.run(main())
