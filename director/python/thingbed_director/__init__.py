"""The Python interface of the director, an adaptive transport library (docs/director.md).

    async with director.Session(key, "utility:5700", ["meter-1:5700"], loss=0.3) as session:
        await session.ready(10)
        collected = await session.collect(b"a price")

    async with director.Listener(key, "meter-1:5700", "utility:5700") as meter:
        async for price in meter:
            price.reply(b"a reading")

Members send messages and requests to the hub's application at any time, and messages of topics,
which the other members get that have subscribed to them:

    report = await meter.publish(b"a reading")
    if report != director.Outcome.ACKNOWLEDGED:     # the application does not have it, or may not
        print(report.outcome, report.reason)
    answer = await meter.request(b"the time?")
    await meter.subscribe("prices/#")
    await meter.publish(b"21", topic="plant/7/temperature")

    async for reading in session.messages():
        print(reading.member, reading.message)

It calls the C library (`cargo build --release -p thingbed-director-c`). It loads the file that
`DIRECTOR_LIBRARY` names, or else searches the system's library path.
"""

from .listener import Listener
from .messages import Incoming, Request
from .outcome import DeliveryReport, DirectorError, NotAnswered, Outcome
from .session import Collected, Session
from .stored import Restored, Sending

__all__ = [
    "Collected",
    "DeliveryReport",
    "DirectorError",
    "Incoming",
    "Listener",
    "NotAnswered",
    "Outcome",
    "Request",
    "Restored",
    "Sending",
    "Session",
]
