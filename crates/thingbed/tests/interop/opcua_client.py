"""An OPC UA client by asyncua: reads payloads and compares them with the expected bytes.

opcua_client.py ADDRESS PORT VARIABLES SEED SIZE...
"""

import asyncio
import sys

from asyncua import Client, ua
from payload import payload


async def main() -> None:
    """Reads all payloads, and a missing variable."""

    address, port, variables, seed, *sizes = sys.argv[1:]
    count = int(variables)
    async with Client(f"opc.tcp://{address}:{port}") as client:
        for place, size in enumerate(map(int, sizes)):
            nodes = [ua.NodeId(place * count + part + 1, 1) for part in range(count)]
            values = await client.read_values([client.get_node(node) for node in nodes])
            content = b"".join(value or b"" for value in values)
            if content != payload(int(seed), size):
                sys.exit(f"{len(content)} bytes that are not the payload of {size}")
            print("read", size)
        nowhere = client.get_node(ua.NodeId(60_000, 1))
        try:
            await nowhere.read_value()
        except ua.uaerrors.BadNodeIdUnknown:
            print("refused what is not there")
        else:
            sys.exit("found a variable that does not exist")


asyncio.run(main())
