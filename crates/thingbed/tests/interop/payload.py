"""Payloads of exchanges, as their specs describe them: one stream of seeded bytes."""

MASK = (1 << 64) - 1
NUMBER = 8


def stream(seed: int, size: int) -> bytes:
    """The first bytes of the stream (SplitMix64)."""
    state, out = seed, b""
    while len(out) < size:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        out += (z ^ (z >> 31)).to_bytes(8, "little")
    return out[:size]


def payload(seed: int, size: int, number: int | None = None) -> bytes:
    """A payload, with its number if it is known and fits."""
    out = stream(seed, size)
    if size < NUMBER:
        return out
    head = b"\xff" * NUMBER if number is None else number.to_bytes(NUMBER, "big")
    return head + out[NUMBER:]
