"""A hub that members know by its name only, on one network.

`discovery.py KEY hub NAME LOCAL COUNT` waits until COUNT members have sent a reading;
`discovery.py KEY member NAME LOCAL READING` sends this reading again and again.
"""

import asyncio
import sys

import thingbed_director as director


async def hub(key: bytes, name: str, local: str, count: str) -> None:
    """Announces the name and takes readings."""
    members: set[int] = set()
    async with director.Session(key, local, [], places=int(count), announce=name) as session:
        while len(members) < int(count):
            reading = await session.receive(60)
            if reading is not None:
                print(f"{name} at {local}: {reading.message.decode()}", flush=True)
                members.add(reading.member)


async def member(key: bytes, name: str, local: str, reading: str) -> None:
    """Finds the hub, and finds it again when it has moved."""
    while True:
        try:
            async with director.Listener(key, local, f"{name}._tb-director._udp.local") as meter:
                while True:
                    print(await meter.publish(reading.encode(), lifetime=10), flush=True)
                    await asyncio.sleep(1)
        except director.DirectorError as error:
            print(error, flush=True)
            await asyncio.sleep(1)


if len(sys.argv) != 6 or sys.argv[2] not in ("hub", "member"):
    sys.exit(__doc__)
role = hub if sys.argv[2] == "hub" else member
asyncio.run(role(sys.argv[1].encode(), *sys.argv[3:]))
