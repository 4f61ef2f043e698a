"""NORM (RFC 5740) for peers.py, by NRL's libnorm (Debian: libnorm1). Its header compiles as C++
only, so it is called by ctypes.

The hub sends to all by multicast; each member answers through a separate session to the hub's
address, since NORM's repairs are between one sender and its receivers. In both directions
messages are objects, in blocks of 16 segments at most, with 4 proactive parity segments per 16;
receivers request further repairs by NACKs.

NORM cannot discover the network's properties; the environment sets them:

    NORM_MEMBERS      number of members
    NORM_PAYLOAD      length of each message and each answer, in bytes
    NORM_MTU          longest IP packet, in bytes
    NORM_RATE         rate of the channel in bit/s, Ethernet header included
    NORM_ROUND_TRIP   round trip in seconds
    NORM_PARITY       proactive parity, as a share of a block; default 0.25
"""

from __future__ import annotations

import ctypes
import fcntl
import math
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

GROUP, DOWN, UP = b"239.255.77.78", 6003, 6004
HUB_ID = 1

# NORM_DATA's header, and the segment's position, in bytes. Object lengths are preset: otherwise
# each packet would need 12 B more, and the narrowest network has only 65 B for a segment.
HEADERS = 16 + 4
UDP_IP, ETHERNET = 28, 14

# Segments of a block, and parity segments available before any repeats.
BLOCK, SPARE = 16, 32
BUFFER = 1 << 19

RX_OBJECT_COMPLETED = 20

# Membership reports in addition to the kernel's two, and the seconds between them: here no router
# queries them.
REPORTS, REPORT_INTERVAL = 10, 0.5

OnMessage = Callable[[bytes], None]


class Event(ctypes.Structure):
    """An event of libnorm."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("session", ctypes.c_void_p),
        ("sender", ctypes.c_void_p),
        ("object", ctypes.c_void_p),
    ]


def load() -> ctypes.CDLL:
    """Loads the library and declares the functions in use."""
    library = ctypes.CDLL("libnorm.so.1")
    handle, text, yes = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_bool
    u8, u16, u32, real = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_double
    for name, result, arguments in [
        ("NormCreateInstance", handle, [yes]),
        ("NormGetNextEvent", yes, [handle, ctypes.POINTER(Event), yes]),
        ("NormCreateSession", handle, [handle, text, u16, u32]),
        ("NormSetMulticastInterface", yes, [handle, text]),
        ("NormSetTxRate", None, [handle, real]),
        ("NormSetGroupSize", None, [handle, ctypes.c_uint]),
        ("NormSetBackoffFactor", None, [handle, real]),
        ("NormSetGrttEstimate", None, [handle, real]),
        ("NormSetGrttMax", None, [handle, real]),
        ("NormStartSender", yes, [handle, u16, u32, u16, u16, u16, u8]),
        ("NormSetAutoParity", None, [handle, u8]),
        ("NormDataEnqueue", handle, [handle, text, u32, text, ctypes.c_uint]),
        ("NormAddAckingNode", yes, [handle, u32]),
        ("NormSetWatermark", yes, [handle, handle, yes]),
        ("NormPresetObjectInfo", yes, [handle, ctypes.c_ulong, u16, u16, u16]),
        ("NormStartReceiver", yes, [handle, u32]),
        ("NormSetDefaultUnicastNack", None, [handle, yes]),
        ("NormObjectGetSize", ctypes.c_long, [handle]),
        ("NormDataAccessData", handle, [handle]),
    ]:
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


@dataclass(frozen=True)
class Network:
    """The properties of the network."""

    members: int
    payload: int
    mtu: int
    rate: float
    round_trip: float
    parity: float

    @classmethod
    def from_environment(cls) -> Network:
        """Reads the environment."""
        environment = os.environ
        return cls(
            members=int(environment["NORM_MEMBERS"]),
            payload=int(environment["NORM_PAYLOAD"]),
            mtu=int(environment["NORM_MTU"]),
            rate=float(environment["NORM_RATE"]),
            round_trip=float(environment["NORM_ROUND_TRIP"]),
            parity=float(environment.get("NORM_PARITY", "0.25")),
        )

    @property
    def segment(self) -> int:
        """Bytes of an object that fit into a packet."""
        return self.mtu - UDP_IP - HEADERS

    @property
    def norm_rate(self) -> float:
        """The channel's rate in bit/s as libnorm counts it, without lower headers."""
        message = self.mtu - UDP_IP
        return self.rate * message / (message + UDP_IP + ETHERNET)

    @property
    def segments(self) -> int:
        """Number of segments of an object."""
        return math.ceil(self.payload / self.segment)

    @property
    def blocks(self) -> int:
        """Number of blocks, of nearly equal size."""
        return math.ceil(self.segments / BLOCK)

    @property
    def parity_segments(self) -> int:
        """Proactive parity segments of each block."""
        return math.ceil(self.parity * math.ceil(self.segments / self.blocks))

    @property
    def airtime(self) -> float:
        """Time in s that the answers of all members take on the channel."""
        frames = self.members * (self.segments + self.blocks * self.parity_segments)
        return frames * (self.mtu + ETHERNET) * 8 / self.rate


def interface() -> tuple[str, str]:
    """The interface on the experiment's subnet, and its address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            try:
                reply = fcntl.ioctl(any_socket, 0x8915, request)  # SIOCGIFADDR
            except OSError:
                continue
            address = socket.inet_ntoa(reply[20:24])
            if address.startswith("10.0.0."):
                return name, address
    raise OSError("no interface has an address of 10.0.0.0/24")


def report_membership() -> None:
    """Repeats the membership report: a member whose reports are all lost receives no multicast,
    and libnorm does not notice."""
    group = socket.inet_aton(GROUP.decode())
    words = struct.unpack(">2H", group)
    total = 0x1600 + sum(words)
    message = struct.pack(">BBH", 0x16, 0, ~(total + (total >> 16)) & 0xFFFF) + group
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IGMP) as raw:
        raw.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface()[1]))
        for _ in range(REPORTS):
            raw.sendto(message, (GROUP.decode(), 0))
            time.sleep(REPORT_INTERVAL)


class Norm:
    """An instance of libnorm, and its sessions."""

    def __init__(self, network: Network, own: int) -> None:
        self.network, self.own = network, own
        self.library = load()
        self.instance = self.library.NormCreateInstance(False)
        # libnorm reads an object in place for as long as repairs are possible.
        self.kept: list[bytes] = []

    def session(self, address: bytes, port: int) -> int:
        """Creates a session, which neither sends nor receives yet."""
        session = self.library.NormCreateSession(self.instance, address, port, self.own)
        if not session:
            raise OSError(f"libnorm cannot create a session for {address.decode()}:{port}")
        self.library.NormSetMulticastInterface(session, interface()[0].encode())
        return int(session)

    def send(self, session: int, receivers: int, rate: float) -> None:
        """Starts sending to `receivers` members at `rate` bit/s."""
        network, library = self.network, self.library
        library.NormSetTxRate(session, rate)
        library.NormSetGrttEstimate(session, network.round_trip)
        # Frames wait for the shared channel, longer than an idle channel's round trip.
        library.NormSetGrttMax(session, 20 * network.round_trip)
        library.NormSetGroupSize(session, receivers)
        if not library.NormStartSender(
            session, random.getrandbits(16), BUFFER, network.segment, BLOCK, SPARE, 0
        ):
            raise OSError("libnorm cannot start to send")
        self.preset(session)
        library.NormSetAutoParity(session, network.parity_segments)

    def preset(self, session: int) -> None:
        """Presets the length and segmentation of objects."""
        network = self.network
        if not self.library.NormPresetObjectInfo(
            session, network.payload, network.segment, BLOCK, SPARE
        ):
            raise OSError("libnorm rejects the lengths of objects")

    def enqueue(self, session: int, message: bytes) -> int:
        """Sends a message."""
        self.kept.append(message)
        sent = self.library.NormDataEnqueue(session, message, len(message), None, 0)
        if not sent:
            raise OSError("libnorm rejects the message, probably because its queue is full")
        return int(sent)

    def receive(self, session: int) -> None:
        """Starts receiving."""
        self.preset(session)
        if not self.library.NormStartReceiver(session, BUFFER):
            raise OSError("libnorm cannot start to receive")

    def receive_forever(self, on_message: OnMessage) -> None:
        """Passes every received object to `on_message`, forever."""
        event = Event()
        while True:
            # The call may return without an event; it waits again the next time.
            if not self.library.NormGetNextEvent(self.instance, ctypes.byref(event), True):
                continue
            if event.type == RX_OBJECT_COMPLETED:
                size = self.library.NormObjectGetSize(event.object)
                on_message(ctypes.string_at(self.library.NormDataAccessData(event.object), size))


def norm_hub(hub: str, on_message: OnMessage) -> Callable[[bytes], None]:
    """The hub's function to send to all members; receives their answers."""
    network = Network.from_environment()
    norm = Norm(network, HUB_ID)
    down = norm.session(GROUP, DOWN)
    norm.send(down, network.members, network.norm_rate)
    up = norm.session(hub.encode(), UP)
    # NACKs go to the member by unicast: the session's address is the hub's own.
    norm.library.NormSetDefaultUnicastNack(up, True)
    norm.receive(up)
    threading.Thread(target=norm.receive_forever, args=[on_message], daemon=True).start()

    def send(message: bytes) -> None:
        norm.enqueue(down, message)

    return send


def norm_member(hub: str, own: int, answer: Callable[[bytes], bytes]) -> None:
    """Runs a member forever."""
    network = Network.from_environment()
    norm = Norm(network, HUB_ID + own)
    down = norm.session(GROUP, DOWN)
    norm.receive(down)
    threading.Thread(target=report_membership, daemon=True).start()
    up = norm.session(hub.encode(), UP)
    # Only the hub requests repairs, so it need not wait for other requests.
    norm.library.NormSetBackoffFactor(up, 0.0)
    norm.send(up, 1, network.norm_rate / network.members)
    norm.library.NormAddAckingNode(up, HUB_ID)

    def reply(message: bytes) -> None:
        sent = norm.enqueue(up, message)
        # The hub acknowledges the object. Otherwise the end would be announced twenty times.
        norm.library.NormSetWatermark(up, sent, True)

    def on_message(message: bytes) -> None:
        wait = random.uniform(0.0, network.airtime)
        threading.Timer(wait, reply, [answer(message)]).start()

    norm.receive_forever(on_message)
