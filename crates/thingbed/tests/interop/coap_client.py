"""A CoAP client by aiocoap: GET, PUT and observe, block-wise in both directions."""

import asyncio
import sys

import aiocoap
from aiocoap.numbers.optionnumbers import OptionNumber
from aiocoap.optiontypes import OpaqueOption


async def main(uri: str, size: int) -> None:
    """Requests `fast` and `slow` of a device whose answers have `size` bytes."""
    context = await aiocoap.Context.create_client_context()

    async def ask(**what: object) -> aiocoap.Message:
        return await context.request(aiocoap.Message(**what)).response

    for path in ["fast", "slow"]:
        answer = await ask(code=aiocoap.GET, uri=uri + path)
        assert answer.code == aiocoap.CONTENT and len(answer.payload) == size, answer
    answer = await ask(code=aiocoap.PUT, uri=uri + "fast", payload=b"x" * 10_000)
    assert answer.code == aiocoap.CHANGED and len(answer.payload) == size, answer
    answer = await ask(code=aiocoap.GET, uri=uri + "none")
    assert answer.code == aiocoap.NOT_FOUND, answer
    answer = await ask(code=aiocoap.GET, uri=uri + ".well-known/core")
    assert b"</fast>;obs" in answer.payload and answer.opt.content_format == 40, answer
    odd = aiocoap.Message(code=aiocoap.GET, uri=uri + "fast")
    odd.opt.add_option(OpaqueOption(OptionNumber(65_001), b"x"))
    answer = await context.request(odd).response
    assert answer.code == aiocoap.BAD_OPTION, answer

    request = context.request(aiocoap.Message(code=aiocoap.GET, uri=uri + "fast", observe=0))
    await request.response
    seen = 0
    async for notification in request.observation:
        assert len(notification.payload) == size, notification
        seen += 1
        if seen == 3:
            break
    request.observation.cancel()
    print("all went well")


asyncio.run(asyncio.wait_for(main(sys.argv[1], int(sys.argv[2])), 60))
