"""X25519 (RFC 7748), ChaCha20-Poly1305 (RFC 8439) and HKDF (RFC 5869), from the standard library
alone. For tests: not in constant time."""

import hashlib
import hmac
import struct

PRIME = 2**255 - 19


def x25519(private: bytes, public: bytes) -> bytes:
    """The Montgomery ladder of RFC 7748, section 5."""
    scalar = bytearray(private)
    scalar[0] &= 248
    scalar[31] = (scalar[31] & 127) | 64
    number = int.from_bytes(scalar, "little")
    u = int.from_bytes(public, "little") & ((1 << 255) - 1)
    x2, z2, x3, z3, swap = 1, 0, u, 1, 0
    for at in reversed(range(255)):
        bit = number >> at & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb, aa, bb = d * a, c * b, a * a, b * b
        x3, z3 = pow(da + cb, 2, PRIME), u * pow(da - cb, 2, PRIME) % PRIME
        e = aa - bb
        x2, z2 = aa * bb % PRIME, e * (aa + 121665 * e) % PRIME
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, PRIME - 2, PRIME) % PRIME).to_bytes(32, "little")


def public_key(private: bytes) -> bytes:
    """The public key of a private one."""
    return x25519(private, (9).to_bytes(32, "little"))


def _quarter(s: list, a: int, b: int, c: int, d: int) -> None:
    for x, y, z, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        s[x] = (s[x] + s[y]) & 0xFFFFFFFF
        mixed = s[z] ^ s[x]
        s[z] = (mixed << by | mixed >> (32 - by)) & 0xFFFFFFFF


def _block(key: bytes, counter: int, nonce: bytes) -> bytes:
    first = list(
        struct.unpack("<16I", b"expand 32-byte k" + key + struct.pack("<I", counter) + nonce)
    )
    state = first[:]
    for _ in range(10):
        for column in range(4):
            _quarter(state, column, 4 + column, 8 + column, 12 + column)
        for row in range(4):
            _quarter(state, row, 4 + (row + 1) % 4, 8 + (row + 2) % 4, 12 + (row + 3) % 4)
    return struct.pack("<16I", *((a + b) & 0xFFFFFFFF for a, b in zip(first, state, strict=True)))


def _stream(key: bytes, nonce: bytes, data: bytes) -> bytes:
    blocks = range(1, 2 + len(data) // 64)
    stream = b"".join(_block(key, counter, nonce) for counter in blocks)
    return bytes(a ^ b for a, b in zip(data, stream, strict=False))


def _tag(key: bytes, nonce: bytes, aad: bytes, sealed: bytes) -> bytes:
    once = _block(key, 0, nonce)
    r = int.from_bytes(once[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF

    def padded(data: bytes) -> bytes:
        return data + bytes(-len(data) % 16)

    text = padded(aad) + padded(sealed) + struct.pack("<QQ", len(aad), len(sealed))
    total = 0
    for at in range(0, len(text), 16):
        total = (total + int.from_bytes(text[at : at + 16] + b"\1", "little")) * r % (2**130 - 5)
    return ((total + int.from_bytes(once[16:32], "little")) % 2**128).to_bytes(16, "little")


def seal(key: bytes, nonce: bytes, aad: bytes, data: bytes) -> bytes:
    """Encrypts and appends the tag."""
    sealed = _stream(key, nonce, data)
    return sealed + _tag(key, nonce, aad, sealed)


def open_sealed(key: bytes, nonce: bytes, aad: bytes, sealed: bytes) -> bytes:
    """Raises ValueError if the tag is wrong."""
    if len(sealed) < 16 or not hmac.compare_digest(
        _tag(key, nonce, aad, sealed[:-16]), sealed[-16:]
    ):
        raise ValueError("the tag is wrong")
    return _stream(key, nonce, sealed[:-16])


def sha256(data: bytes) -> bytes:
    """The digest."""
    return hashlib.sha256(data).digest()


def hmac_sha256(key: bytes, data: bytes) -> bytes:
    """The code."""
    return hmac.new(key, data, hashlib.sha256).digest()


def hkdf_extract(salt: bytes, secret: bytes) -> bytes:
    """A pseudorandom key of a secret."""
    return hmac_sha256(salt, secret)


def hkdf_expand(key: bytes, info: bytes) -> bytes:
    """32 bytes: the first block."""
    return hmac_sha256(key, info + b"\1")


def take_members(body: bytes) -> tuple:
    """The members of a set at the start, as a list or a bitmap, and the bytes after it."""
    head = int.from_bytes(body[:2], "big")
    length = head & 0x7FFF
    if head & 0x8000:
        bits = int.from_bytes(body[2 : 2 + length], "little")
        return [at for at in range(8 * length) if bits >> at & 1], body[2 + length :]
    return list(struct.unpack_from(f">{length}H", body, 2)), body[2 + 2 * length :]
