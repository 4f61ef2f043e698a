"""A second reader of the director's wire format (docs/director-wire.md), for tests.

wire.py vectors FILE                 opens the test vectors
wire.py member KEY LOCAL HUB COUNT   joins the hub at 127.0.0.1:HUB as a member at port LOCAL with
                                     the pre-shared key KEY (hex), answers COUNT messages with their
                                     bytes in reverse order
"""

import ipaddress
import json
import os
import socket
import struct
import sys
import time

import frames
from primitives import (
    hkdf_expand,
    hkdf_extract,
    hmac_sha256,
    open_sealed,
    public_key,
    seal,
    sha256,
    take_members,
    x25519,
)

DATA, ANSWER, ACKNOWLEDGE, ASK, READY, HELLO, PROBE, CANNOT = range(0x21, 0x29)
WELCOME, ANNOUNCEMENT, ALIVE, CHOSEN, TOPIC, STORED = 0x29, 0x2A, 0x2D, 0x2E, 0x2F, 0x30
HUB = 0
PURPOSES = {
    "message": b"director 4 message",
    "acknowledgement": b"director 4 acknowledgement",
    "control": b"director 4 control",
    "frame": b"director 4 frame",
}
UDP_REQUEST_RESPONSE = 0


def psk_of(key: bytes) -> bytes:
    """The key of the handshake, of a pre-shared key."""
    return hkdf_expand(hkdf_extract(b"director 4 psk", key), b"")


class Noise:
    """Noise_NNpsk0_25519_ChaChaPoly_SHA256 with the prologue `director 4`."""

    def __init__(self, psk: bytes, ephemeral: bytes):
        # The name has 36 bytes, more than a hash, so it is hashed.
        self.hash = sha256(b"Noise_NNpsk0_25519_ChaChaPoly_SHA256")
        self.chain = self.hash
        self.key, self.nonce = b"", 0
        self.private, self.public = ephemeral, public_key(ephemeral)
        self.mix_hash(b"director 4")
        self.psk = psk

    def mix_hash(self, data: bytes) -> None:
        """MixHash of the framework."""
        self.hash = sha256(self.hash + data)

    def outputs(self, secret: bytes, count: int) -> list:
        """HKDF of the framework, with the chaining key."""
        key, last, all_outputs = hmac_sha256(self.chain, secret), b"", []
        for number in range(1, count + 1):
            last = hmac_sha256(key, last + bytes([number]))
            all_outputs.append(last)
        return all_outputs

    def mix_key(self, secret: bytes) -> None:
        """MixKey of the framework."""
        self.chain, self.key = self.outputs(secret, 2)
        self.nonce = 0

    def mix_psk(self) -> None:
        """MixKeyAndHash of the framework, with the pre-shared key."""
        self.chain, mixed, self.key = self.outputs(self.psk, 3)
        self.mix_hash(mixed)
        self.nonce = 0

    def crypt(self, operation, data: bytes) -> bytes:
        """Encrypts or decrypts with the next nonce."""
        done = operation(self.key, bytes(4) + struct.pack("<Q", self.nonce), self.hash, data)
        self.nonce += 1
        return done

    def encrypt(self, data: bytes) -> bytes:
        """EncryptAndHash of the framework."""
        sealed = self.crypt(seal, data)
        self.mix_hash(sealed)
        return sealed

    def decrypt(self, sealed: bytes) -> bytes:
        """DecryptAndHash of the framework."""
        data = self.crypt(open_sealed, sealed)
        self.mix_hash(sealed)
        return data

    def mix_ephemeral(self, public: bytes) -> None:
        """The token `e`, with a pre-shared key."""
        self.mix_hash(public)
        self.mix_key(public)

    def hello(self, session: bytes = b"") -> bytes:
        """At a member: the first message."""
        self.mix_psk()
        self.mix_ephemeral(self.public)
        return bytes([HELLO]) + self.public + self.encrypt(session)

    def read_hello(self, hello: bytes) -> bytes:
        """At a hub; returns the member's public key."""
        self.mix_psk()
        self.mix_ephemeral(hello[1:33])
        self.decrypt(hello[33:])
        return hello[1:33]

    def welcome(self, other: bytes, body: bytes) -> bytes:
        """At a hub."""
        self.mix_ephemeral(self.public)
        self.mix_key(x25519(self.private, other))
        return bytes([WELCOME]) + self.public + self.encrypt(body)

    def read_welcome(self, welcome: bytes) -> dict:
        """At a member: reads the second message."""
        self.mix_ephemeral(welcome[1:33])
        self.mix_key(x25519(self.private, welcome[1:33]))
        return parse_welcome(self.decrypt(welcome[33:]))

    def pair(self, session: bytes) -> "Root":
        """The keys of the handshake."""
        first, second = self.outputs(b"", 2)
        return Root(first + second + self.hash, session)


def short(frame: bytes, count: int) -> bytes:
    """A symbol of an answer in the short form as it is alone in a datagram, without its code."""
    message = int.from_bytes(frame[1:3], "big")
    both = (message & 0xFFF) << 12 | (count & 0xFFF)
    return frame[:1] + both.to_bytes(3, "big") + frame[3:]


def parse_welcome(body: bytes) -> dict:
    """The fields of a welcome."""
    member, members = struct.unpack(">HH", body[16:20])
    group = "{}.{}.{}.{}:{}".format(*body[20:24], int.from_bytes(body[24:26], "big"))
    fields = {"session": body[:16], "member": member, "members": members}
    bits = body[27] if len(body) > 27 else 0
    rest = body[28:]
    if body[20:24] == bytes(4) and len(rest) >= 16:
        address = ipaddress.IPv6Address(rest[:16])
        group = "[{}]:{}".format(address, int.from_bytes(body[24:26], "big"))
        rest = rest[16:]
    store = rest[:8] if bits & 2 and len(rest) >= 8 else None
    fields |= {"group": group, "answered": body[26] != 0, "reports": bits & 1 != 0}
    return fields | {"store": store}


class Root:
    """The keys of a handshake, or of the group in an epoch."""

    def __init__(self, secret: bytes, session: bytes):
        self.session, self.secret = session, hkdf_extract(session, secret)

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

    def open(self, *scope) -> bytes:
        """Opens under a key of a scope."""
        return self.crypt(open_sealed, *scope)


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


def check_vectors(path: str) -> int:
    """Opens and makes the vectors."""
    with open(path) as file:
        vectors = json.load(file)

    def of(name: str) -> bytes:
        return bytes.fromhex(vectors[name])

    checks = 0

    def same(name: str, found) -> None:
        nonlocal checks
        expected = vectors[name]
        found = found.hex() if isinstance(found, bytes) else found
        assert found == expected, f"{name}: {found} instead of {expected}"
        checks += 1

    psk = psk_of(of("pre_shared_key"))
    same("psk", psk)
    member, hub = Noise(psk, of("member_ephemeral")), Noise(psk, of("hub_ephemeral"))
    hello = member.hello()
    same("hello", hello)
    same("named_hello", Noise(psk, of("member_ephemeral")).hello(of("session")))
    same("welcome", hub.welcome(hub.read_hello(hello), of("welcome_body")))
    welcome = member.read_welcome(of("welcome"))
    session = welcome["session"]
    same("session", session)
    for name in ("member", "members", "group", "answered", "reports"):
        same(name, welcome[name])
    storing = Noise(psk, of("member_ephemeral"))
    storing.hello()
    same("store", storing.read_welcome(of("storing_welcome"))["store"])
    same("announcement", bytes([ANNOUNCEMENT]) + session)
    pair = member.pair(session)
    same("pair_hub_control_key", pair.key("control", 0, HUB))
    same("pair_hub_control_key", hub.pair(session).key("control", 0, HUB))
    invitation = open_invitation(pair, of("invitation"))
    epoch = invitation["epoch"]
    for name in ("count", "epoch", "secret", "model", "datagram", "rate_bit_s", "loss"):
        same("invitation_" + name, invitation[name])
    same("invitation_round_trip_us", invitation["round_trip_us"])
    for name in ("next", "estimated", "apart", "probes", "bundles"):
        same("invitation_" + name, invitation[name])
    group = Root(invitation["secret"], session)
    same("group_hub_message_key", group.key("message", epoch, HUB))
    number, _, message = open_data(group, epoch, of("data"))
    same("data_number", number)
    same("data_message", message)
    same(
        "data",
        bytes([DATA])
        + struct.pack(">HI", epoch & 0xFFFF, number)
        + group.seal("message", epoch, HUB, number, message),
    )
    for lifetime in vectors["lifetimes"]:
        found = [read_lifetime(bytes.fromhex(lifetime[1])), lifetime[1]]
        assert found == lifetime, f"{found} instead of {lifetime}"
        checks += 1
    for name in ("chosen", "chosen_near"):
        number, members, message = open_data(group, epoch, of(name))
        same(name + "_opened", [number, members, message.hex()])
    number, members, topic, message = open_topic(group, epoch, of("topic"))
    same("topic_opened", [number, members, topic, message.hex()])
    *numbers, message = open_stored(group, epoch, of("stored"))
    same("stored_opened", [*numbers, message.hex()])
    same("probe_opened", list(open_probe(group, epoch, of("probe"))))
    for name in ("answer", "acknowledge", "ready", "ready_bundles", "cannot", "alive"):
        kind, who, number, body = open_member(pair, epoch, of(name))
        same(name + "_opened", [who, number, body.hex()])
        same(name, seal_member(pair, kind, who, epoch, number, body))
    code = hmac_sha256(group.key("frame", epoch, HUB), of("frame"))[:4]
    same("frame_signed", of("frame") + code)
    found = frames.parts(of("bundle"))
    same("bundle", frames.bundle(found))
    same("bundle_parts", [frames.read(part) for part in found])
    code = hmac_sha256(group.key("frame", epoch, HUB), of("bundle"))[:4]
    same("bundle_signed", of("bundle") + code)
    count = struct.pack(">Q", vectors["counted_frame_count"])
    code = hmac_sha256(pair.key("frame", epoch, 299 + 1), of("frame") + count)[:4]
    same("counted_frame", of("frame") + count[-2:] + code)
    frame, count = of("short_frame"), vectors["short_frame_count"]
    code = hmac_sha256(
        pair.key("frame", epoch, 299 + 1), frame + struct.pack(">Q", count)
    )[:4]
    same("short_frame_signed", short(frame, count) + code)
    # Each changed byte is noticed.
    for name, reader in (
        ("data", lambda bytes_: open_data(group, epoch, bytes_)),
        ("chosen", lambda bytes_: open_data(group, epoch, bytes_)),
        ("invitation", lambda bytes_: open_invitation(pair, bytes_)),
    ):
        for at in range(len(of(name))):
            changed = bytearray(of(name))
            changed[at] ^= 1
            try:
                reader(bytes(changed))
            except ValueError:
                checks += 1
            else:
                # The kind only chooses the reader.
                assert at == 0, f"{name}: changed byte {at} is not noticed"
    print(f"{checks} checks")
    return 0


class Member:
    """A member of a session whose only model is udp-request-response."""

    def __init__(self, key: bytes, local: int, hub: int):
        self.psk = psk_of(key)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", local))
        self.socket.settimeout(0.2)
        self.hub = ("127.0.0.1", hub)
        self.noise, self.hello_bytes = None, b""
        self.pair, self.welcome = None, {}
        self.groups, self.epoch, self.received, self.sent = {}, None, 0, 0
        self.answers = {}

    def say_hello(self) -> None:
        """Sends the first message of a handshake."""
        if self.noise is None:
            self.noise = Noise(self.psk, os.urandom(32))
            self.hello_bytes = self.noise.hello()
        self.socket.sendto(self.hello_bytes, self.hub)

    def receive(self, datagram: bytes) -> None:
        """Handles a datagram of the hub."""
        kind = datagram[0]
        if kind == WELCOME and self.pair is None:
            self.welcome = self.noise.read_welcome(datagram)
            self.pair = self.noise.pair(self.welcome["session"])
        elif kind == ASK and self.pair is not None:
            invitation = open_invitation(self.pair, datagram)
            if invitation["count"] <= self.received:
                return
            self.received = invitation["count"]
            self.epoch = invitation["epoch"]
            self.groups[self.epoch] = Root(invitation["secret"], self.welcome["session"])
            self.sent += 1
            available = invitation["model"] == UDP_REQUEST_RESPONSE
            body = struct.pack(">H", 1 << UDP_REQUEST_RESPONSE)
            if available:
                body += struct.pack(">H", invitation["count"] & 0x7FFF)
            self.reply(READY if available else CANNOT, self.epoch, self.sent, body)
        elif kind in (DATA, CHOSEN) and self.groups:
            for epoch, group in self.groups.items():
                try:
                    number, chosen, message = open_data(group, epoch, datagram)
                except ValueError:
                    continue
                if chosen is not None and self.welcome["member"] not in chosen:
                    continue
                # The first two bytes are the lifetime: this member answers at once, and once.
                self.answers.setdefault(number, message[2:][::-1])
                self.reply(ANSWER, epoch, number, self.answers[number])

    def reply(self, *what) -> None:
        """Seals and sends a message to the hub."""
        kind, epoch, number, body = what
        sealed = seal_member(self.pair, kind, self.welcome["member"], epoch, number, body)
        self.socket.sendto(sealed, self.hub)

    def run(self, count: int, patience: float) -> int:
        """Joins, and answers messages."""
        end = time.monotonic() + patience
        while len(self.answers) < count:
            if time.monotonic() > end:
                print(f"only {len(self.answers)} of {count} messages", file=sys.stderr)
                return 1
            if self.epoch is None:
                self.say_hello()
            try:
                datagram, _ = self.socket.recvfrom(65536)
                self.receive(datagram)
            except (TimeoutError, ValueError):
                pass
        print(f"{count} messages, session {self.welcome['session'].hex()}")
        return 0


def main() -> int:
    """Executes a command."""
    match sys.argv[1:]:
        case ["vectors", path]:
            return check_vectors(path)
        case ["member", key, local, hub, count]:
            return Member(bytes.fromhex(key), int(local), int(hub)).run(int(count), 120)
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
