"""A CoAP server by aiocoap: a large resource, a slow one, one that changes, one to put to."""

import asyncio
import sys

import aiocoap
from aiocoap import resource


class Large(resource.Resource):
    """As many bytes as it is told, and any number of them put."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    async def render_get(self, request: aiocoap.Message) -> aiocoap.Message:
        """All of them."""
        return aiocoap.Message(payload=b"x" * self.size)

    async def render_put(self, request: aiocoap.Message) -> aiocoap.Message:
        """Prints how many were put."""
        print("put", len(request.payload), flush=True)
        return aiocoap.Message(code=aiocoap.CHANGED)


class Slow(Large):
    """Answers so late that the request is acknowledged first."""

    async def render_get(self, request: aiocoap.Message) -> aiocoap.Message:
        """After a second."""
        await asyncio.sleep(1)
        return await super().render_get(request)


class Changing(resource.ObservableResource):
    """Has a new value ten times a second."""

    def __init__(self) -> None:
        super().__init__()
        self.value = 0

    async def change(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(0.1)
            self.value += 1
            self.updated_state()

    async def render_get(self, request: aiocoap.Message) -> aiocoap.Message:
        """The present one."""
        return aiocoap.Message(payload=str(self.value).encode() * 300)


async def main() -> None:
    """Serves for ever."""
    changing = Changing()
    site = resource.Site()
    site.add_resource(["large"], Large(5000))
    site.add_resource(["slow"], Slow(5000))
    site.add_resource(["changing"], changing)
    await aiocoap.Context.create_server_context(site, bind=(sys.argv[1], int(sys.argv[2])))
    print("serves", flush=True)
    await changing.change()


asyncio.run(main())
