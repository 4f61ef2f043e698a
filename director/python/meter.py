"""A meter that answers each price: `meter.py KEY LOCAL HUB`."""

import asyncio
import sys

import thingbed_director as director


async def main() -> None:
    """Answers until it is ended."""
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    key, local, hub = sys.argv[1:]
    async with director.Listener(key.encode(), local, hub) as meter:
        async for price in meter:
            price.reply(f"{len(price.message)} B read".encode())


asyncio.run(main())
