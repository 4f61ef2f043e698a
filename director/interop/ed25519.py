"""Verification of Ed25519 signatures (RFC 8032, section 5.1). For tests: not in constant time."""

import hashlib

PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, PRIME - 2, PRIME) % PRIME
ROOT = pow(2, (PRIME - 1) // 4, PRIME)

Point = tuple[int, int, int, int]
"""In extended coordinates: X, Y, Z and T, with x = X / Z, y = Y / Z and x y = T / Z."""


def _add(p: Point, q: Point) -> Point:
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % PRIME, (p[1] + p[0]) * (q[1] + q[0]) % PRIME
    c, d = 2 * p[3] * q[3] * D % PRIME, 2 * p[2] * q[2] % PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f, g * h, f * g, e * h


def _times(number: int, p: Point) -> Point:
    q = (0, 1, 1, 0)
    while number:
        if number & 1:
            q = _add(q, p)
        p = _add(p, p)
        number >>= 1
    return q


def _same(p: Point, q: Point) -> bool:
    return (p[0] * q[2] - q[0] * p[2]) % PRIME == 0 and (p[1] * q[2] - q[1] * p[2]) % PRIME == 0


def _point(encoded: bytes) -> Point | None:
    """The point of 32 bytes; None if there is none."""
    y = int.from_bytes(encoded, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    if y >= PRIME:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, PRIME - 2, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if (x * x - square) % PRIME:
        x = x * ROOT % PRIME
    if (x * x - square) % PRIME or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = PRIME - x
    return x, y, 1, x * y % PRIME


_BASE = _point((4 * pow(5, PRIME - 2, PRIME) % PRIME).to_bytes(32, "little"))


def is_signature(key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether this is the signature of a message by the owner of a public key."""
    if len(key) != 32 or len(signature) != 64:
        return False
    public, r = _point(key), _point(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if public is None or r is None or _BASE is None or s >= ORDER:
        return False
    digest = hashlib.sha512(signature[:32] + key + message).digest()
    challenge = int.from_bytes(digest, "little") % ORDER
    return _same(_times(s, _BASE), _add(r, _times(challenge, public)))
