"""A QUIC server by aioquic: answers the first four bytes of each stream.

quic_server.py ADDRESS PORT CERT KEY
"""

import asyncio
import sys

from aioquic.asyncio import serve
from aioquic.quic.configuration import QuicConfiguration


def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Receives a stream, and answers it."""

    async def take() -> None:
        message = await reader.read()
        writer.write(message[:4])
        writer.write_eof()

    TASKS.add(asyncio.ensure_future(take()))


TASKS: set[asyncio.Future[None]] = set()


async def main() -> None:
    """Runs the server until it is killed."""

    address, port, cert, key = sys.argv[1:]
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["thingbed-exchange"])
    configuration.load_cert_chain(cert, key)
    await serve(address, int(port), configuration=configuration, stream_handler=answer)
    await asyncio.Event().wait()


asyncio.run(main())
