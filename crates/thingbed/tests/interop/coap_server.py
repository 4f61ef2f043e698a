"""A CoAP server by aiocoap: accepts a PUT to any path, and logs path and length."""

import asyncio
import sys

import aiocoap
from aiocoap import resource


class Anywhere(resource.Resource, resource.PathCapable):
    """A resource for all paths."""

    def __init__(self, log: str) -> None:
        super().__init__()
        self.log = log

    async def render_put(self, request: aiocoap.Message) -> aiocoap.Message:
        """Logs path and length of the payload."""
        with open(self.log, "a", encoding="ascii") as log:
            print("/".join(request.opt.uri_path), len(request.payload), file=log)
        return aiocoap.Message(code=aiocoap.CHANGED)


async def main() -> None:
    """Runs the server for ever."""
    anywhere = Anywhere(sys.argv[1])
    await aiocoap.Context.create_server_context(anywhere, bind=("10.0.0.1", None))
    await asyncio.get_running_loop().create_future()


asyncio.run(main())
