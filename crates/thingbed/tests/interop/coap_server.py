"""A CoAP server by aiocoap: takes what is put anywhere, and writes path and length down."""

import asyncio
import sys

import aiocoap
from aiocoap import resource


class Anywhere(resource.Resource, resource.PathCapable):
    """All paths."""

    def __init__(self, log: str) -> None:
        super().__init__()
        self.log = log

    async def render_put(self, request: aiocoap.Message) -> aiocoap.Message:
        """Writes down where something was put, and how long it is."""
        with open(self.log, "a", encoding="ascii") as log:
            print("/".join(request.opt.uri_path), len(request.payload), file=log)
        return aiocoap.Message(code=aiocoap.CHANGED)


async def main() -> None:
    """Serves for ever."""
    anywhere = Anywhere(sys.argv[1])
    await aiocoap.Context.create_server_context(anywhere, bind=("10.0.0.1", None))
    await asyncio.get_running_loop().create_future()


asyncio.run(main())
