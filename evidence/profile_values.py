"""Computes times of the profiles nb-iot, nb-iot-ce1, nb-iot-ce2 and wifi-n from their standards.

python3 evidence/profile_values.py
"""

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Level:
    """A coverage level of NB-IoT (3GPP TS 36.211, TS 36.213 chapter 16, TS 36.331). Times in ms."""

    preambles: int  # repetitions of the random access preamble
    period: float  # of the control channel
    control: int  # repetitions of a control message,
    down: int  # of data down,
    up: int  # of data up,
    ack: int  # and of an acknowledgement
    unit: float  # duration of a resource unit
    units: int  # resource units of a block up
    subframes: int  # subframes of a block down
    free: float  # share of subframes without broadcast and synchronisation


LEVELS = {
    "nb-iot": Level(2, 16, 1, 1, 1, 1, 1, 4, 3, 1.0),
    "nb-iot, single tone": Level(2, 16, 1, 1, 1, 1, 8, 6, 3, 1.0),
    "nb-iot-ce1": Level(8, 64, 8, 8, 4, 8, 8, 10, 4, 0.75),
    "nb-iot-ce2": Level(32, 256, 32, 32, 32, 32, 8, 10, 10, 0.75),
}
UP_BITS, DOWN_BITS = 1000, 680
PREAMBLE = 5.6
GAP_DOWN, GAP_UP, GAP_ACK, GAP_CONTROL = 4.0, 8.0, 12.0, 3.0
SINGLE_TONE_UNIT = 8.0


def nb_iot(name: str, level: Level) -> str:
    """The time from one block to the next, and of the parts of random access."""
    control = level.control / level.free
    wait = level.period / 2
    up = control + GAP_UP + level.units * level.unit * level.up + GAP_CONTROL
    data = level.subframes * level.down / level.free
    down = control + GAP_DOWN + data + GAP_ACK + 2 * level.ack + GAP_CONTROL
    response = 4 + wait + control + GAP_DOWN + level.down / level.free
    msg3 = GAP_ACK + SINGLE_TONE_UNIT * level.up
    request = PREAMBLE * level.preambles + response + msg3 + wait
    msg4 = wait + control + GAP_DOWN + 2 * level.down / level.free + GAP_ACK + 2 * level.ack
    return (
        f"{name}: block up {up:.1f} ms, {UP_BITS / up:.2f} kbit/s; block down {down:.1f} ms, "
        f"{DOWN_BITS / down:.2f} kbit/s; request to grant {request:.0f} ms; Msg4 {msg4:.0f} ms"
    )


CORE = 286.0  # the rest of connection set-up in good coverage, 315 ms measured minus Msg4's 29 ms
OPERATOR = 20.0  # a guess of the profiles: one way through the operator's network


def nb_iot_round_trip(level: Level, preamble_period: float) -> float:
    """Mean round trip of one block each way from idle, ms: half a period of random access first."""
    control = level.control / level.free
    wait = level.period / 2
    response = 4 + wait + control + GAP_DOWN + level.down / level.free
    request = PREAMBLE * level.preambles + response + GAP_ACK + SINGLE_TONE_UNIT * level.up + wait
    msg4 = wait + control + GAP_DOWN + 2 * level.down / level.free + GAP_ACK + 2 * level.ack
    up = control + GAP_UP + level.units * level.unit * level.up + GAP_CONTROL
    data = level.subframes * level.down / level.free
    down = control + GAP_DOWN + data + GAP_ACK + 2 * level.ack + GAP_CONTROL
    return preamble_period / 2 + request + msg4 + CORE + up + down + 2 * OPERATOR


SLOT, SIFS, CW_MIN, PHY_PREAMBLE, LEGACY = 9, 16, 15, 36, 24  # us, and Mbit/s of acknowledgements
UDP_HEADERS, LLC, QOS, FCS, ETHERNET = 28, 8, 26, 4, 14  # B
MOST_BYTES, MOST_US, MOST_FRAMES = 65_535, 5_484, 64


def wifi(rate: float, payload: int) -> str:
    """The fixed part of an aggregate, and its share of a frame (IEEE 802.11-2012, 9 and 20)."""
    aifs = SIFS + 3 * SLOT
    frame = payload + UDP_HEADERS + LLC + QOS + FCS
    part = 4 + frame + (-frame) % 4
    room = int((MOST_US - PHY_PREAMBLE) * rate / 8 // part)
    count = min(MOST_BYTES // part, room, MOST_FRAMES)
    ack = 20 + 4 * math.ceil((16 + 8 * 32 + 6) / (4 * LEGACY))
    fixed = aifs + CW_MIN / 2 * SLOT + PHY_PREAMBLE + SIFS + ack
    total = fixed + count * part * 8 / rate
    overhead = total / count * rate / 8 - (payload + UDP_HEADERS + ETHERNET)
    return (
        f"wifi-n: {count} frames of {payload} B, fixed part {fixed:.0f} us, "
        f"{count * payload * 8 / total:.1f} Mbit/s, overhead {overhead:.0f} B for each frame"
    )


def main() -> None:
    """Prints the times."""
    for name, level in LEVELS.items():
        print(nb_iot(name, level))
    for preamble_period in (40, 80, 160, 320, 640, 1280, 2560):
        levels = (replace(LEVELS["nb-iot"], period=period) for period in (16, 64, 128, 256))
        means = (f"{nb_iot_round_trip(level, preamble_period):.0f}" for level in levels)
        print(f"nb-iot, random access every {preamble_period} ms: {', '.join(means)} ms")
    print(wifi(65.0, 1472))


if __name__ == "__main__":
    main()
