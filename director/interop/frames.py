"""Datagrams of `udp-arq` (docs/director-wire.md, Bundles), without their counts and codes."""

import struct

CHUNK, MISSING, WHOLE, BUNDLE = 0x10, 0x11, 0x12, 0x19
REQUESTS_ACKNOWLEDGEMENT = 0x80


def parts(datagram: bytes) -> list:
    """The parts of a bundle, or the datagram itself."""
    if datagram[0] != BUNDLE:
        return [datagram]
    found, rest = [], datagram[1:]
    while len(rest) >= 2:
        length = int.from_bytes(rest[:2], "big")
        if len(rest) < 2 + length:
            break
        found.append(rest[2 : 2 + length])
        rest = rest[2 + length :]
    return found


def bundle(all_parts: list) -> bytes:
    """A bundle of these parts, two or more."""
    return bytes([BUNDLE]) + b"".join(struct.pack(">H", len(part)) + part for part in all_parts)


def number(five: bytes) -> int:
    """A message's number."""
    return int.from_bytes(five, "big")


def read(part: bytes) -> list:
    """The fields of a part."""
    kind = part[0]
    if kind & ~REQUESTS_ACKNOWLEDGEMENT == CHUNK:
        asks = bool(kind & REQUESTS_ACKNOWLEDGEMENT)
        attempts = (part[1] >> 4, part[1] & 15)
        return ["chunk", number(part[2:7]), part[7], part[8], asks, *attempts, part[9:].hex()]
    if kind == MISSING:
        arrived = [
            8 * place + bit
            for place, byte in enumerate(part[7:])
            for bit in range(8)
            if byte >> bit & 1
        ]
        return ["missing", number(part[2:7]), part[1] & 15, bool(part[1] & 128), arrived]
    if kind == WHOLE:
        each = [part[at : at + 6] for at in range(1, len(part), 6)]
        return ["whole", [[number(one[1:]), one[0] & 15, bool(one[0] & 128)] for one in each]]
    raise ValueError("another kind")
