"""A QUIC client by aioquic: one connection, a stream for each payload.

quic_client.py ADDRESS PORT NAME CA SEED SIZE...
"""

import asyncio
import sys

from aioquic.asyncio import connect
from aioquic.quic.configuration import QuicConfiguration
from payload import payload


async def main() -> None:
    """Sends all payloads."""

    address, port, name, ca, seed, *sizes = sys.argv[1:]
    configuration = QuicConfiguration(
        is_client=True, alpn_protocols=["thingbed-exchange"], server_name=name
    )
    configuration.load_verify_locations(ca)
    async with connect(address, int(port), configuration=configuration) as link:
        for number, size in enumerate(map(int, sizes)):
            header = number.to_bytes(4, "big")
            reader, writer = await link.create_stream()
            writer.write(header + payload(int(seed), size, number))
            writer.write_eof()
            answer = await asyncio.wait_for(reader.read(), 10)
            if answer != header:
                sys.exit(f"the answer to {size} bytes is {answer!r}")
            print("sent", size)


asyncio.run(main())
