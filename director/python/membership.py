"""A hub whose meters join with their own keys: `membership.py LOCAL PLACES KEY...`.

It asks all, revokes the last one, asks again, and admits it with its former key.
"""

import asyncio
import sys

import thingbed_director as director


async def joined(session: director.Session, count: int) -> None:
    """Waits until this number of meters has joined."""
    while len(await session.members()) != count:
        await asyncio.sleep(0.05)


async def main() -> None:
    """Prints who answers."""
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    local, places, *keys = sys.argv[1:]
    own, last = [key.encode() for key in keys], int(places) - 1
    options = {"places": int(places), "models": ["multicast-fec"], "deadline_ms": 20000}
    async with director.Session(own, local, [], **options) as session:
        await joined(session, last + 1)
        print("all:", sorted((await session.collect(b"a price")).answers.items()))
        print(await session.explain())
        await session.revoke(last)
        print("without the last:", sorted((await session.collect(b"a price")).answers))
        await session.admit(last, own[last])
        await joined(session, last + 1)
        print("again:", sorted((await session.collect(b"a price")).answers))


asyncio.run(main())
