"""NORM (RFC 5740) for peers.py, by NRL's libnorm (Debian: libnorm1). Its header compiles as C++
only, so it is called by ctypes.

The hub sends to all by multicast; each member answers by a session of its own to the hub's
address, since NORM's repairs are between one sender and its receivers. Both ways messages are
objects, in blocks of 16 segments at most, with 4 of parity for 16 sent unasked; what is lacking
then is asked for by NACKs.

What the network is like it cannot find out, and is told by the environment:

    NORM_MEMBERS      how many members there are
    NORM_PAYLOAD      how long each message and each answer is, in bytes
    NORM_MTU          the longest IP packet, in bytes
    NORM_RATE         what the channel carries, in bit/s, Ethernet header included
    NORM_ROUND_TRIP   its round trip, in seconds
    NORM_PARITY       parity sent unasked, as a share of a block; 0.25 unless given
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

# NORM_DATA's own header, and the segment's place. All know how long objects are: else each packet
# would say so in 12 B more, of which the narrowest network has 65 B for a segment.
HEADERS = 16 + 4
UDP_IP, ETHERNET = 28, 14

# Segments of a block, and how many of parity there are before anything comes twice.
BLOCK, SPARE = 16, 32
BUFFER = 1 << 19

RX_OBJECT_COMPLETED = 20

# Reports of membership beside the kernel's two: here no router asks for them again.
REPORTS, BETWEEN_REPORTS = 10, 0.5

Heard = Callable[[bytes], None]


class Event(ctypes.Structure):
    """What libnorm says has happened."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("session", ctypes.c_void_p),
        ("sender", ctypes.c_void_p),
        ("object", ctypes.c_void_p),
    ]


def load() -> ctypes.CDLL:
    """The library, with the types of what is called."""
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
    """What the network is like."""

    members: int
    payload: int
    mtu: int
    rate: float
    round_trip: float
    parity: float

    @classmethod
    def told(cls) -> Network:
        """As the environment says."""
        told = os.environ
        return cls(
            members=int(told["NORM_MEMBERS"]),
            payload=int(told["NORM_PAYLOAD"]),
            mtu=int(told["NORM_MTU"]),
            rate=float(told["NORM_RATE"]),
            round_trip=float(told["NORM_ROUND_TRIP"]),
            parity=float(told.get("NORM_PARITY", "0.25")),
        )

    @property
    def segment(self) -> int:
        """How much of an object fits into a packet."""
        return self.mtu - UDP_IP - HEADERS

    @property
    def norm_rate(self) -> float:
        """The channel's rate as libnorm counts it, without what goes around its messages."""
        message = self.mtu - UDP_IP
        return self.rate * message / (message + UDP_IP + ETHERNET)

    @property
    def segments(self) -> int:
        """How many segments an object is cut into."""
        return math.ceil(self.payload / self.segment)

    @property
    def blocks(self) -> int:
        """How many blocks these are in, as even as can be."""
        return math.ceil(self.segments / BLOCK)

    @property
    def unasked(self) -> int:
        """Segments of parity that are sent unasked with each block."""
        return math.ceil(self.parity * math.ceil(self.segments / self.blocks))

    @property
    def airtime(self) -> float:
        """How long the channel takes for the answers of all members."""
        frames = self.members * (self.segments + self.blocks * self.unasked)
        return frames * (self.mtu + ETHERNET) * 8 / self.rate


def interface() -> tuple[str, str]:
    """The interface with an address of the experiment's, and the address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            asked = struct.pack("256s", name.encode())
            try:
                got = fcntl.ioctl(any_socket, 0x8915, asked)  # SIOCGIFADDR
            except OSError:
                continue
            address = socket.inet_ntoa(got[20:24])
            if address.startswith("10.0.0."):
                return name, address
    raise OSError("no interface has an address of 10.0.0.0/24")


def report_membership() -> None:
    """Tells the switch again and again of being in the group: a member of whom all reports are
    lost has no multicast, and libnorm would not know."""
    group = socket.inet_aton(GROUP.decode())
    words = struct.unpack(">2H", group)
    total = 0x1600 + sum(words)
    message = struct.pack(">BBH", 0x16, 0, ~(total + (total >> 16)) & 0xFFFF) + group
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IGMP) as raw:
        raw.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface()[1]))
        for _ in range(REPORTS):
            raw.sendto(message, (GROUP.decode(), 0))
            time.sleep(BETWEEN_REPORTS)


class Norm:
    """An instance of libnorm's, and its sessions."""

    def __init__(self, network: Network, own: int) -> None:
        self.network, self.own = network, own
        self.library = load()
        self.instance = self.library.NormCreateInstance(False)
        # libnorm reads an object from where it was given, for as long as repairs may be asked for.
        self.kept: list[bytes] = []

    def session(self, address: bytes, port: int) -> int:
        """A session, neither sending nor receiving as yet."""
        session = self.library.NormCreateSession(self.instance, address, port, self.own)
        if not session:
            raise OSError(f"libnorm has no session for {address.decode()}:{port}")
        self.library.NormSetMulticastInterface(session, interface()[0].encode())
        return int(session)

    def send(self, session: int, receivers: int, rate: float) -> None:
        """Makes a session send to so many, so fast."""
        network, library = self.network, self.library
        library.NormSetTxRate(session, rate)
        library.NormSetGrttEstimate(session, network.round_trip)
        # Frames wait for a channel that all share, for longer than an idle one's round trip.
        library.NormSetGrttMax(session, 20 * network.round_trip)
        library.NormSetGroupSize(session, receivers)
        if not library.NormStartSender(
            session, random.getrandbits(16), BUFFER, network.segment, BLOCK, SPARE, 0
        ):
            raise OSError("libnorm does not send")
        self.preset(session)
        library.NormSetAutoParity(session, network.unasked)

    def preset(self, session: int) -> None:
        """Says beforehand how long objects are, and how they are cut."""
        network = self.network
        if not self.library.NormPresetObjectInfo(
            session, network.payload, network.segment, BLOCK, SPARE
        ):
            raise OSError("libnorm does not take the lengths of objects")

    def enqueue(self, session: int, message: bytes) -> int:
        """Sends a message."""
        self.kept.append(message)
        sent = self.library.NormDataEnqueue(session, message, len(message), None, 0)
        if not sent:
            raise OSError("libnorm takes no more")
        return int(sent)

    def receive(self, session: int) -> None:
        """Makes a session receive."""
        self.preset(session)
        if not self.library.NormStartReceiver(session, BUFFER):
            raise OSError("libnorm does not receive")

    def hear(self, heard: Heard) -> None:
        """Hands over all that comes, for ever."""
        event = Event()
        while True:
            # It may come back without one, and waits again the next time.
            if not self.library.NormGetNextEvent(self.instance, ctypes.byref(event), True):
                continue
            if event.type == RX_OBJECT_COMPLETED:
                size = self.library.NormObjectGetSize(event.object)
                heard(ctypes.string_at(self.library.NormDataAccessData(event.object), size))


def norm_hub(hub: str, heard: Heard) -> Callable[[bytes], None]:
    """How the hub tells all, and hears all."""
    network = Network.told()
    norm = Norm(network, HUB_ID)
    down = norm.session(GROUP, DOWN)
    norm.send(down, network.members, network.norm_rate)
    up = norm.session(hub.encode(), UP)
    # What lacks is asked of its member: the session's address is the hub's own.
    norm.library.NormSetDefaultUnicastNack(up, True)
    norm.receive(up)
    threading.Thread(target=norm.hear, args=[heard], daemon=True).start()

    def tell(message: bytes) -> None:
        norm.enqueue(down, message)

    return tell


def norm_member(hub: str, own: int, answer: Callable[[bytes], bytes]) -> None:
    """A member, for ever."""
    network = Network.told()
    norm = Norm(network, HUB_ID + own)
    down = norm.session(GROUP, DOWN)
    norm.receive(down)
    threading.Thread(target=report_membership, daemon=True).start()
    up = norm.session(hub.encode(), UP)
    # Nobody else asks for what the hub lacks, so there is nothing to wait for before asking.
    norm.library.NormSetBackoffFactor(up, 0.0)
    norm.send(up, 1, network.norm_rate / network.members)
    norm.library.NormAddAckingNode(up, HUB_ID)

    def reply(message: bytes) -> None:
        sent = norm.enqueue(up, message)
        # The hub says when it has all. Else the end would be told twenty times.
        norm.library.NormSetWatermark(up, sent, True)

    def heard(message: bytes) -> None:
        wait = random.uniform(0.0, network.airtime)
        threading.Timer(wait, reply, [answer(message)]).start()

    norm.hear(heard)
