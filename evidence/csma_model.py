#!/usr/bin/env python3
"""The frames of simulated radios in a run, and the same frames on another model of CSMA-CA.

`csma_model.py RUN [FROM TO]` reads `capture.pcapng` of a run with `--capture` and OpenThread's
radios, all of which hear each other. It prints, for frames that devices sent from FROM to TO s,
how many arrived, and what a separate simulation of unslotted CSMA-CA (IEEE 802.15.4-2011,
5.1.1.4) makes of frames of the same lengths at the same times: the mean of ten seeds.
"""

from __future__ import annotations

import collections
import heapq
import random
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

# In us: backoff unit, CCA, turnaround, interframe spaces after long and short frames, a byte.
UNIT, CCA, TURNAROUND, LIFS, SIFS, BYTE = 320, 128, 192, 640, 192, 32
MIN_BE, MAX_BE, MAX_BACKOFFS = 3, 5, 4
PHY_HEADER, ACK = 6, 5
LOSS = 0.05
SEEDS = 10
# Events of one instant, in this order: a CCA does not detect what begins when it ends.
END, CCA_ENDS, START, OTHER = range(4)


@dataclass
class Frame:
    """A frame that a device passes to its radio: its time in us, and whether it arrived."""

    at: float
    station: int
    radio: bytes
    arrived: bool = False

    @property
    def kind(self) -> str:
        """Acknowledgement, or with or without a request for one."""
        if self.radio[0] & 7 == 2:
            return "acknowledgement"
        return "unicast" if self.radio[0] & 0x20 else "broadcast"

    @property
    def airtime(self) -> int:
        """Time on the air, in us."""
        return (PHY_HEADER + len(self.radio)) * BYTE


def radio_frame(frame: bytes) -> bytes | None:
    """Return the radio's frame in a datagram to the group of OpenThread's simulation."""
    if len(frame) < 42 or frame[12:14] != b"\x08\0" or frame[30:34] != bytes([224, 0, 0, 116]):
        return None
    udp = frame[14 + (frame[14] & 15) * 4 :]
    return udp[9 : struct.unpack_from(">H", udp, 4)[0]]


def packets(data: bytes) -> list[tuple[int, int, bool, bytes]]:
    """Return time in ns, interface, whether the node sent it, and bytes of each captured frame."""
    found, place = [], 0
    while place + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, place)
        if kind == 6:
            body = data[place + 8 : place + length - 4]
            interface, high, low, kept = struct.unpack_from("<IIII", body)
            option, flags = 20 + (kept + 3 & ~3), 0
            while option + 4 <= len(body):
                code, size = struct.unpack_from("<HH", body, option)
                if code == 2:
                    flags = struct.unpack_from("<I", body, option + 4)[0]
                option += 4 + (size + 3 & ~3)
            found.append((high << 32 | low, interface, flags & 3 == 2, body[20 : 20 + kept]))
        place += length
    return found


def read(path: Path) -> list[Frame]:
    """Return the frames that devices sent. One arrived if any device got a copy of it."""
    sent: dict[bytes, list[Frame]] = collections.defaultdict(list)
    copies: dict[bytes, list[float]] = collections.defaultdict(list)
    first = None
    for ns, station, is_sent, frame in packets(path.read_bytes()):
        first = ns if first is None else first
        radio, at = radio_frame(frame), (ns - first) / 1e3
        if radio is None:
            continue
        key = frame[26:30] + radio
        if is_sent:
            sent[key].append(Frame(at, station, radio))
        elif not copies[key] or at - copies[key][-1] > 3_000:
            # The copies of one frame differ by less: it is the shortest time between two frames.
            copies[key].append(at)
    for key, frames in sent.items():
        for at in copies[key]:
            before = [one for one in frames if not one.arrived and one.at + one.airtime <= at]
            if before:
                before[-1].arrived = True
    return sorted((one for frames in sent.values() for one in frames), key=lambda one: one.at)


@dataclass
class Sent:
    """A transmission, or the contention for one."""

    frame: Frame
    is_ack: bool = False
    backoffs: int = 0
    since: float = 0
    collided: bool = False


class Channel:
    """One channel on which all stations hear each other."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.events: list[tuple[float, int, int, Sent]] = []
        self.count = 0
        self.on_air: list[Sent] = []
        self.last: collections.deque[tuple[float, float]] = collections.deque(maxlen=64)
        self.queues: dict[int, collections.deque[Frame]] = collections.defaultdict(
            collections.deque
        )
        self.ended: list[tuple[Frame, str]] = []

    def add(self, at: float, step: int, sent: Sent) -> None:
        """Schedules an event."""
        self.count += 1
        heapq.heappush(self.events, (at, step, self.count, sent))

    def back_off(self, at: float, sent: Sent) -> None:
        """Waits, then senses the channel."""
        units = self.random.randrange(1 << min(MIN_BE + sent.backoffs, MAX_BE))
        sent.since = at + units * UNIT
        self.add(sent.since + CCA, CCA_ENDS, sent)

    def offer(self, at: float, frame: Frame) -> None:
        """Queues a frame, unless its station has it already."""
        queue = self.queues[frame.station]
        if frame.kind == "unicast" and any(other.radio == frame.radio for other in queue):
            self.ended.append((frame, "waits"))
            return
        queue.append(frame)
        if len(queue) == 1:
            self.back_off(at, Sent(frame))

    def finish(self, at: float, frame: Frame, ending: str, space: float) -> None:
        """Ends the contention of the station's first frame; the next one follows."""
        self.ended.append((frame, ending))
        queue = self.queues[frame.station]
        queue.popleft()
        if queue:
            self.back_off(at + space, Sent(queue[0]))

    def is_idle(self, since: float, until: float) -> bool:
        """Whether nothing was on the air in this time."""
        busy = any(end > since and start < until for start, end in self.last)
        return not busy and not any(other.since < until for other in self.on_air)

    def step(self, at: float, step: int, sent: Sent) -> None:
        """Processes an event."""
        frame = sent.frame
        if step == OTHER:
            self.offer(at, frame)
        elif step == CCA_ENDS and self.is_idle(sent.since, at):
            self.add(at + TURNAROUND, START, sent)
        elif step == CCA_ENDS:
            sent.backoffs += 1
            if sent.backoffs > MAX_BACKOFFS:
                self.finish(at, frame, "no access", 0)
            else:
                self.back_off(at, sent)
        elif step == START:
            sent.since, sent.collided = at, bool(self.on_air)
            for other in self.on_air:
                other.collided = True
            self.on_air.append(sent)
            airtime = (PHY_HEADER + ACK) * BYTE if sent.is_ack else frame.airtime
            self.add(at + airtime, END, sent)
        else:
            self.on_air.remove(sent)
            self.last.append((sent.since, at))
            if sent.is_ack:
                return
            lost = "lost" if self.random.random() < LOSS else "arrived"
            ending = "collided" if sent.collided else lost
            self.finish(at, frame, ending, LIFS if len(frame.radio) > 18 else SIFS)
            if ending == "arrived" and frame.kind == "unicast":
                self.add(at + TURNAROUND, START, Sent(frame, is_ack=True))


def simulate(frames: list[Frame], seed: int) -> list[tuple[Frame, str]]:
    """Return how each frame ends. Acknowledgements follow the frames that arrive."""
    channel = Channel(seed)
    for frame in frames:
        channel.add(frame.at, OTHER, Sent(frame))
    while channel.events:
        at, step, _, sent = heapq.heappop(channel.events)
        channel.step(at, step, sent)
    return channel.ended


def main() -> None:
    """Prints the counts."""
    run = Path(sys.argv[1])
    since, until = (float(text) * 1e6 for text in (sys.argv[2:4] or ["0", "inf"]))
    frames = [one for one in read(run / "capture.pcapng") if one.kind != "acknowledgement"]
    counted = [one for one in frames if since <= one.at < until]
    model: collections.Counter[tuple[str, str]] = collections.Counter()
    for seed in range(SEEDS):
        for frame, ending in simulate(frames, seed):
            if since <= frame.at < until:
                model[frame.kind, ending] += 1
    for kind in ("unicast", "broadcast"):
        sent = [one for one in counted if one.kind == kind]
        print(f"{kind}: sent {len(sent)}, arrived {sum(one.arrived for one in sent)}")
        endings = sorted((ending, n / SEEDS) for (of, ending), n in model.items() if of == kind)
        print("  model:", ", ".join(f"{ending} {n:.1f}" for ending, n in endings))


if __name__ == "__main__":
    main()
