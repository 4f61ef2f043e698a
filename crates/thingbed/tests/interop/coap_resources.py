"""A CoAP server by aiocoap: a large, a slow, a changing and a writable resource."""

import asyncio
import sys

import aiocoap
from aiocoap import resource


class Large(resource.Resource):
    """Answers with `size` bytes, and accepts a PUT of any size."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    async def render_get(self, request: aiocoap.Message) -> aiocoap.Message:
        """Answers with `size` bytes."""
        return aiocoap.Message(payload=b"x" * self.size)

    async def render_put(self, request: aiocoap.Message) -> aiocoap.Message:
        """Prints the size of the payload."""
        print("put", len(request.payload), flush=True)
        return aiocoap.Message(code=aiocoap.CHANGED)


class Slow(Large):
    """Answers late, so that the request is acknowledged separately."""

    async def render_get(self, request: aiocoap.Message) -> aiocoap.Message:
        """Answers after a second."""
        await asyncio.sleep(1)
        return await super().render_get(request)


class Changing(resource.ObservableResource):
    """Changes its value ten times per second."""

    def __init__(self) -> None:
        super().__init__()
        self.value = 0

    async def change(self) -> None:
        """Changes the value for ever."""
        while True:
            await asyncio.sleep(0.1)
            self.value += 1
            self.updated_state()

    async def render_get(self, request: aiocoap.Message) -> aiocoap.Message:
        """Answers with the current value."""
        return aiocoap.Message(payload=str(self.value).encode() * 300)


async def main() -> None:
    """Runs the server for ever."""
    changing = Changing()
    site = resource.Site()
    site.add_resource(["large"], Large(5000))
    site.add_resource(["slow"], Slow(5000))
    site.add_resource(["changing"], changing)
    address = (sys.argv[1], int(sys.argv[2]))
    # The port is free for UDP, and perhaps not for TCP.
    await aiocoap.Context.create_server_context(site, bind=address, transports=["udp6"])
    print("serves", flush=True)
    await changing.change()


asyncio.run(main())
