"""A meter whose readings outlast its restarts: `stored.py KEY LOCAL HUB FOLDER READING`.

The hub is `director-hub` of the Rust examples, or a `director.Session` of another program.
"""

import asyncio
import sys

import director


async def main() -> None:
    """Says what became of earlier readings, then sends one."""
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    _, key, local, hub, folder, reading = sys.argv
    async with director.Listener(key.encode(), local, hub, storage=folder) as meter:
        for earlier in meter.restored():
            print("of a former start:", earlier.message, await earlier.outcome(), flush=True)
        print("now:", await meter.publish(reading.encode(), stored=True), flush=True)


asyncio.run(main())
