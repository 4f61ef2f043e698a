"""A second reader of the director's wire format (docs/director-wire.md), for tests.

wire.py vectors FILE                 opens the test vectors
wire.py member KEY LOCAL HUB COUNT   joins the hub at 127.0.0.1:HUB as a member at port LOCAL with
                                     the pre-shared key KEY (hex), answers COUNT messages with their
                                     bytes in reverse order
"""

import json
import os
import socket
import struct
import sys
import time

import frames
from envelopes import (
    ANNOUNCEMENT,
    ANSWER,
    ASK,
    CANNOT,
    CHOSEN,
    DATA,
    HUB,
    READY,
    WELCOME,
    Root,
    open_data,
    open_invitation,
    open_member,
    open_probe,
    open_stored,
    open_topic,
    read_lifetime,
    seal_member,
)
from noise import Noise, psk_of
from primitives import hmac_sha256

UDP_REQUEST_RESPONSE = 0


def short(frame: bytes, count: int) -> bytes:
    """A symbol of an answer in the short form as it is alone in a datagram, without its code."""
    message = int.from_bytes(frame[1:3], "big")
    both = (message & 0xFFF) << 12 | (count & 0xFFF)
    return frame[:1] + both.to_bytes(3, "big") + frame[3:]


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
    code = hmac_sha256(pair.key("frame", epoch, 299 + 1), frame + struct.pack(">Q", count))[:4]
    same("short_frame_signed", short(frame, count) + code)
    invitation = open_invitation(pair, of("signed_invitation"))
    same("signed_invitation_signer", invitation["signer"])
    signed = Root(invitation["secret"], session, invitation["signer"])
    number, members, message = open_data(signed, epoch, of("signed_data"))
    same("signed_data_opened", [number, members, message.hex()])
    number, members, topic, message = open_topic(signed, epoch, of("signed_topic"))
    same("signed_topic_opened", [number, members, topic, message.hex()])
    for name in ("data", "chosen"):
        try:
            open_data(signed, epoch, of(name))
        except ValueError:
            checks += 1
        else:
            raise AssertionError(f"{name} is not signed and counts as the hub's")
    # Each changed byte is noticed.
    for name, reader in (
        ("data", lambda bytes_: open_data(group, epoch, bytes_)),
        ("chosen", lambda bytes_: open_data(group, epoch, bytes_)),
        ("invitation", lambda bytes_: open_invitation(pair, bytes_)),
        ("signed_data", lambda bytes_: open_data(signed, epoch, bytes_)),
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
            keys = (invitation["secret"], self.welcome["session"], invitation["signer"])
            self.groups[self.epoch] = Root(*keys)
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
