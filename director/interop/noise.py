"""The handshake of the director: Noise, and what a welcome says."""

import ipaddress
import struct

from envelopes import HELLO, WELCOME, Root
from primitives import (
    hkdf_expand,
    hkdf_extract,
    hmac_sha256,
    open_sealed,
    public_key,
    seal,
    sha256,
    x25519,
)


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

    def pair(self, session: bytes) -> Root:
        """The keys of the handshake."""
        first, second = self.outputs(b"", 2)
        return Root(first + second + self.hash, session)


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
