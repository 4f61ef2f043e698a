"""Existing protocols over the director's timetables: a hub sends a message to all members every
two seconds and collects their answers, by Zenoh, MQTT, CoAP, DDS, QUIC or NORM.

    peers.py hub PROTOCOL MEMBERS PAYLOAD [MESSAGES]   prints the results as JSON
    peers.py member PROTOCOL                           answers; its number ends $THINGBED_NODE

The hub is 10.0.0.1. experiments/adaptive-peers.yaml and norm-beside.yaml run it in nodes.
PEERS_EVERY and PEERS_DEADLINE in the environment set the seconds between two messages and
until an answer is too late, PEERS_BEFORE the number of members in groups before the member's;
peers_norm.py lists the settings of NORM.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HUB = "10.0.0.1"
EVERY, SETTLE = float(os.environ.get("PEERS_EVERY", "2")), 15.0
# Deadline of answers in s; later ones count as this, as in main.rs.
DEADLINE = float(os.environ.get("PEERS_DEADLINE", 5 * EVERY))

Answer = Callable[[int, int], None]

# Objects that must not be garbage-collected while the program runs.
KEEP_ALIVE: list[Any] = []


class Tally:
    """Messages sent and answers received."""

    def __init__(self, members: int) -> None:
        self.members = members
        self.sent: dict[int, float] = {}
        self.durations: dict[tuple[int, int], float] = {}
        self.duplicates = 0
        self.lock = threading.Lock()

    def answer(self, number: int, member: int) -> None:
        """A member has answered a message."""
        now = time.monotonic()
        with self.lock:
            if (number, member) in self.durations:
                self.duplicates += 1
            elif number in self.sent:
                self.durations[number, member] = now - self.sent[number]

    def results(self) -> dict[str, float]:
        """The results."""
        count = max(1, len(self.sent) * self.members)
        in_time = [took for took in self.durations.values() if took <= DEADLINE]
        cost = sum(in_time) + DEADLINE * (count - len(in_time))
        return {
            "cost_ms": 1e3 * cost / count,
            "delivered": len(in_time) / count,
            "doubled": self.duplicates,
            "messages": len(self.sent),
            "mean_ms": 1e3 * sum(in_time) / max(1, len(in_time)),
            "last_ms": 1e3 * max(in_time, default=0.0),
        }


def pack(number: int, member: int, payload: bytes) -> bytes:
    """A message on the wire: its number, its sender, and the payload."""
    return struct.pack(">IH", number, member) + payload[6:]


def unpack(message: bytes) -> tuple[int, int]:
    """A message's number and sender."""
    number, member = struct.unpack(">IH", message[:6])
    return number, member


def zenoh_session(hub: bool) -> Any:
    """Opens a Zenoh session; retries until the hub is reachable."""
    import zenoh

    config = zenoh.Config()
    config.insert_json5("scouting/multicast/enabled", "false")
    place = "listen/endpoints" if hub else "connect/endpoints"
    config.insert_json5(place, json.dumps([f"tcp/{HUB}:7447"]))
    while True:
        try:
            return zenoh.open(config)
        except zenoh.ZError:
            time.sleep(1)


def zenoh_hub(answer: Answer) -> Callable[[bytes], None]:
    """Zenoh: the hub's function to send to all members."""
    session = zenoh_session(True)
    subscriber = session.declare_subscriber(
        "answer", lambda s: answer(*unpack(s.payload.to_bytes()))
    )
    KEEP_ALIVE.extend([session, subscriber])
    publisher = session.declare_publisher("price")
    return lambda message: publisher.put(message)


def zenoh_member(own: int) -> None:
    """Zenoh: runs a member forever."""
    session = zenoh_session(False)
    publisher = session.declare_publisher("answer")

    def reply(sample: Any) -> None:
        message = sample.payload.to_bytes()
        publisher.put(pack(unpack(message)[0], own, message))

    KEEP_ALIVE.extend([session, session.declare_subscriber("price", reply)])
    threading.Event().wait()


def mqtt_client(name: str, subscribe: str, qos: int, on_message: Callable[[bytes], None]) -> Any:
    """An MQTT client with a persistent session."""
    from paho.mqtt import client as paho

    client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)
    client.on_connect = lambda *_: client.subscribe(subscribe, qos)
    client.on_message = lambda _client, _data, message: on_message(message.payload)
    client.reconnect_delay_set(1, 2)
    client.max_inflight_messages_set(100)
    while True:
        try:
            client.connect(HUB, keepalive=10)
            break
        except OSError:
            time.sleep(1)
    client.loop_start()
    return client


def mqtt_hub(answer: Answer, qos: int) -> Callable[[bytes], None]:
    """MQTT with the broker at the hub: the hub's function to send to all members."""
    conf = Path(tempfile.mkdtemp()) / "mosquitto.conf"
    conf.write_text("listener 1883\nallow_anonymous true\nmax_inflight_messages 100\n")
    subprocess.Popen(["mosquitto", "-c", str(conf)], stderr=subprocess.DEVNULL)
    client = mqtt_client("hub", "answer", qos, lambda payload: answer(*unpack(payload)))
    return lambda message: client.publish("price", message, qos) and None


def mqtt_member(own: int, qos: int) -> None:
    """MQTT: runs a member forever."""

    def reply(message: bytes) -> None:
        client.publish("answer", pack(unpack(message)[0], own, message), qos)

    client = mqtt_client(f"member-{own}", "price", qos, reply)
    threading.Event().wait()


def coap_hub(answer: Answer, members: int) -> Callable[[bytes], None]:
    """CoAP, one confirmable request per member: the hub's function to send to all."""
    import aiocoap

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    context: Any = asyncio.run_coroutine_threadsafe(
        aiocoap.Context.create_client_context(), loop
    ).result()

    async def ask(member: int, message: bytes) -> None:
        uri = f"coap://10.0.0.{member + 1}/m"
        request = aiocoap.Message(code=aiocoap.POST, uri=uri, payload=message)
        try:
            response = await context.request(request).response
        except aiocoap.error.Error:
            return
        answer(*unpack(response.payload))

    def send(message: bytes) -> None:
        for member in range(1, members + 1):
            asyncio.run_coroutine_threadsafe(ask(member, message), loop)

    return send


def coap_member(own: int) -> None:
    """CoAP: runs a member forever."""
    import aiocoap
    from aiocoap import resource

    class Price(resource.Resource):  # type: ignore[misc]
        async def render_post(self, request: Any) -> Any:
            payload = pack(unpack(request.payload)[0], own, request.payload)
            return aiocoap.Message(code=aiocoap.CHANGED, payload=payload)

    async def serve() -> None:
        site = resource.Site()
        site.add_resource(["m"], Price())
        address = f"10.0.0.{own + 1}"
        await aiocoap.Context.create_server_context(site, bind=(address, 5683))
        await asyncio.get_running_loop().create_future()

    asyncio.run(serve())


def dds_ends(write: str, read: str) -> tuple[Any, Any, Any]:
    """The message type, a writer and a reader, both reliable."""
    from cyclonedds.core import Policy, Qos
    from cyclonedds.domain import DomainParticipant
    from cyclonedds.pub import DataWriter
    from cyclonedds.sub import DataReader
    from cyclonedds.topic import Topic
    from cyclonedds.util import duration

    sys.path.insert(0, str(Path(__file__).parent))
    from peers_dds import Note

    qos = Qos(
        Policy.Reliability.Reliable(duration(seconds=30)),
        Policy.History.KeepLast(64),
    )
    participant = DomainParticipant(0)
    out = DataWriter(participant, Topic(participant, write, Note, qos=qos), qos=qos)
    reader = DataReader(participant, Topic(participant, read, Note, qos=qos), qos=qos)
    return Note, out, reader


def dds_poll(reader: Any, on_message: Callable[[bytes], None]) -> None:
    """Polls for received messages forever."""
    while True:
        for note in reader.take(N=64):
            if getattr(note, "data", None):
                on_message(bytes(note.data))
        time.sleep(0.002)


def dds_hub(answer: Answer) -> Callable[[bytes], None]:
    """DDS: the hub's function to send to all members."""
    note, out, reader = dds_ends("price", "answer")
    target = lambda: dds_poll(reader, lambda message: answer(*unpack(message)))  # noqa: E731
    threading.Thread(target=target, daemon=True).start()
    return lambda message: out.write(note(data=list(message)))


def dds_member(own: int) -> None:
    """DDS: runs a member forever."""
    note, out, reader = dds_ends("answer", "price")

    def reply(message: bytes) -> None:
        out.write(note(data=list(pack(unpack(message)[0], own, message))))

    dds_poll(reader, reply)


def norm_hub(answer: Answer) -> Callable[[bytes], None]:
    """NORM: the hub's function to send to all members."""
    import peers_norm

    return peers_norm.norm_hub(HUB, lambda message: answer(*unpack(message)))


def norm_member(own: int) -> None:
    """NORM: runs a member forever."""
    import peers_norm

    peers_norm.norm_member(HUB, own, lambda message: pack(unpack(message)[0], own, message))


def quic_hub(answer: Answer) -> Callable[[bytes], None]:
    """QUIC: the hub's function to send to all members."""
    import peers_quic

    return peers_quic.quic_hub(HUB, lambda message: answer(*unpack(message)))


def quic_member(own: int) -> None:
    """QUIC: runs a member forever."""
    import peers_quic

    peers_quic.quic_member(HUB, lambda message: pack(unpack(message)[0], own, message))


def hub(protocol: str, members: int, payload: bytes, messages: int) -> None:
    """Sends all messages and prints the results."""
    began = time.monotonic()
    tally = Tally(members)
    sends = {
        "zenoh": lambda: zenoh_hub(tally.answer),
        "mqtt-qos0": lambda: mqtt_hub(tally.answer, 0),
        "mqtt-qos1": lambda: mqtt_hub(tally.answer, 1),
        "coap": lambda: coap_hub(tally.answer, members),
        "dds": lambda: dds_hub(tally.answer),
        "quic": lambda: quic_hub(tally.answer),
        "norm": lambda: norm_hub(tally.answer),
    }
    send = sends[protocol]()
    for number in range(messages):
        due = began + SETTLE + number * EVERY
        time.sleep(max(0.0, due - time.monotonic()))
        with tally.lock:
            tally.sent[number] = due
        send(pack(number, 0, payload))
    time.sleep(DEADLINE)
    print(json.dumps({"protocol": protocol, **tally.results()}), flush=True)
    os._exit(0)


def member(protocol: str) -> None:
    """Runs a member of the protocol forever."""
    number = os.environ["THINGBED_NODE"].rsplit("-", 1)[-1]
    # The node of a group of one has no number.
    own = (int(number) if number.isdigit() else 1) + int(os.environ.get("PEERS_BEFORE", 0))
    serve = {
        "zenoh": lambda: zenoh_member(own),
        "mqtt-qos0": lambda: mqtt_member(own, 0),
        "mqtt-qos1": lambda: mqtt_member(own, 1),
        "coap": lambda: coap_member(own),
        "dds": lambda: dds_member(own),
        "quic": lambda: quic_member(own),
        "norm": lambda: norm_member(own),
    }
    serve[protocol]()


if __name__ == "__main__":
    if sys.argv[1] == "hub":
        count = int(sys.argv[5]) if len(sys.argv) > 5 else 150
        hub(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]).read_bytes(), count)
    else:
        member(sys.argv[2])
