"""Keys and envelopes of the director (docs/director-wire.md)."""

import struct

import ed25519
from primitives import hkdf_expand, hkdf_extract, open_sealed, seal, take_members

DATA, ANSWER, ACKNOWLEDGE, ASK, READY, HELLO, PROBE, CANNOT = range(0x21, 0x29)
WELCOME, ANNOUNCEMENT, ALIVE, CHOSEN, TOPIC, STORED = 0x29, 0x2A, 0x2D, 0x2E, 0x2F, 0x30
HUB = 0
PURPOSES = {
    "message": b"director 4 message",
    "acknowledgement": b"director 4 acknowledgement",
    "control": b"director 4 control",
    "frame": b"director 4 frame",
}


class Root:
    """The keys of a handshake, or of the group in an epoch."""

    def __init__(self, secret: bytes, session: bytes, signer: bytes | None = None):
        self.session, self.secret = session, hkdf_extract(session, secret)
        self.signer = signer

    def key(self, purpose: str, epoch: int, party: int) -> bytes:
        """The key of a scope."""
        return hkdf_expand(self.secret, PURPOSES[purpose] + struct.pack(">III", epoch, party, 0))

    def crypt(self, operation, purpose: str, epoch: int, party: int, number: int, data: bytes):
        """Seals or opens under a key of a scope."""
        nonce = struct.pack(">IQ", party, number)
        aad = self.session + struct.pack(">IIQ", epoch, party, number)
        return operation(self.key(purpose, epoch, party), nonce, aad, data)

    def seal(self, *scope) -> bytes:
        """Seals under a key of a scope."""
        return self.crypt(seal, *scope)

    def open(self, purpose: str, epoch: int, party: int, number: int, sealed: bytes) -> bytes:
        """Opens under a key of a scope, and takes the signature off if the hub signs.

        Raises ValueError if the tag or the signature is wrong."""
        opened = self.crypt(open_sealed, purpose, epoch, party, number, sealed)
        if self.signer is None or (purpose, party) != ("message", HUB):
            return opened
        content, signature = opened[:-64], opened[-64:]
        bound = self.session + struct.pack(">IIQ", epoch, party, number)
        signed = b"director 4 signature" + bound + content
        if not ed25519.is_signature(self.signer, signed, signature):
            raise ValueError("the signature is wrong")
        return content


def open_invitation(pair: Root, datagram: bytes) -> dict:
    """The fields of an invitation."""
    count = int.from_bytes(datagram[1:5], "big")
    body = pair.open("control", 0, HUB, count, datagram[5:])
    rate, loss, trip, following = struct.unpack(">fBIQ", body[39:56])
    # Optional: earlier versions end before.
    bits = body[56] if len(body) > 56 else 0
    return {
        "count": count,
        "epoch": int.from_bytes(body[:4], "big"),
        "secret": body[4:36],
        "model": body[36],
        "datagram": int.from_bytes(body[37:39], "big"),
        "rate_bit_s": rate,
        "loss": loss,
        "round_trip_us": trip,
        "next": following,
        "estimated": bool(bits & 1),
        "apart": bool(bits & 2),
        "probes": bool(bits & 4),
        "bundles": bool(bits & 8),
        "signer": body[57:89] if bits & 16 else None,
    }


def open_data(group: Root, epoch: int, datagram: bytes) -> tuple:
    """The number, the chosen receivers (None for all) and the message of the hub."""
    low, number = struct.unpack(">HI", datagram[1:7])
    if low != epoch & 0xFFFF:
        raise ValueError("another epoch")
    if datagram[0] == DATA:
        return number, None, group.open("message", epoch, HUB, number, datagram[7:])
    body = group.open("message", epoch, HUB, number | 1 << 63, datagram[7:])
    return number, *take_members(body)


def read_lifetime(two: bytes):
    """The lifetime of a message in ms; None if it has none."""
    both = int.from_bytes(two, "big")
    return (both & 0x7FF) << (both >> 11) or None


def open_topic(group: Root, epoch: int, datagram: bytes) -> tuple:
    """The number, the receivers, the topic and the message of the hub."""
    low, number = struct.unpack(">HI", datagram[1:7])
    if datagram[0] != TOPIC or low != epoch & 0xFFFF:
        raise ValueError("another kind or epoch")
    body = group.open("message", epoch, HUB, number | 3 << 62, datagram[7:])
    members, rest = take_members(body)
    length = int.from_bytes(rest[:2], "big")
    return number, members, rest[2 : 2 + length].decode(), rest[2 + length :]


def open_stored(group: Root, epoch: int, datagram: bytes) -> tuple:
    """The number, the receivers, the number in the storage and its distance to the oldest open one,
    and the message of the hub."""
    low, number = struct.unpack(">HI", datagram[1:7])
    if datagram[0] != STORED or low != epoch & 0xFFFF:
        raise ValueError("another kind or epoch")
    body = group.open("message", epoch, HUB, number | 1 << 62, datagram[7:])
    members, rest = take_members(body)
    return number, members, *struct.unpack(">QH", rest[:10]), rest[10:]


def open_probe(group: Root, epoch: int, datagram: bytes) -> tuple:
    """The count and the member of a probe."""
    count = int.from_bytes(datagram[3:7], "big")
    return count, int.from_bytes(group.open("control", epoch, HUB, count, datagram[7:]), "big")


PURPOSE_OF = {
    ANSWER: "message",
    ACKNOWLEDGE: "acknowledgement",
    READY: "control",
    CANNOT: "control",
    ALIVE: "control",
}


def seal_number(kind: int, number: int) -> int:
    """The number that seals a message: kinds with the same key differ."""
    return number | {CANNOT: 1, ALIVE: 2}.get(kind, 0) << 32


def seal_member(pair: Root, kind: int, member: int, epoch: int, number: int, body: bytes) -> bytes:
    """A message of a member."""
    sealed_number = seal_number(kind, number)
    head = struct.pack(">BHHI", kind, member, epoch & 0xFFFF, number & 0xFFFFFFFF)
    return head + pair.seal(PURPOSE_OF[kind], epoch, member + 1, sealed_number, body)


def open_member(pair: Root, epoch: int, datagram: bytes) -> tuple:
    """The kind, member, number and body of a message of a member."""
    kind, member, _, number = struct.unpack(">BHHI", datagram[:9])
    sealed_number = seal_number(kind, number)
    body = pair.open(PURPOSE_OF[kind], epoch, member + 1, sealed_number, datagram[9:])
    return kind, member, number, body
