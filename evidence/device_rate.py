#!/usr/bin/env python3
"""Compares the frame rate of other nodes with and without machines: `evidence/device_rate.py RUN`.

RUN is the folder of a run of experiments/devices/rate.yaml, in which two machines run for 10 s
and are paused for 10 s in turn. The frames of the TCP stream have one length, so the ratio of its
rates is the ratio of frame rates. Prints the ratio of each pair of phases, and their geometric
mean with its 95 % interval (t distribution, 5 degrees of freedom).
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from pathlib import Path

PHASE_S = 10
# A pause does not begin on the stream's full second.
SKIPPED_S = 1
PAIRS = 6
T_95 = 2.571
FRAME_PAYLOAD = 1448


def main() -> None:
    """Prints the ratios."""
    output = Path(sys.argv[1]) / "programs" / "client.0.out"
    intervals = json.loads(output.read_text())["intervals"]
    rates = [interval["sum"]["bits_per_second"] / 8 / FRAME_PAYLOAD for interval in intervals]
    if len(rates) < 2 * PAIRS * PHASE_S:
        sys.exit(f"{output}: {len(rates)} s of the stream, {2 * PAIRS * PHASE_S} are needed")
    phases = [
        statistics.mean(rates[begin + SKIPPED_S : begin + PHASE_S])
        for begin in range(0, 2 * PAIRS * PHASE_S, PHASE_S)
    ]
    logs = []
    for running, paused in zip(phases[::2], phases[1::2], strict=True):
        logs.append(math.log(running / paused))
        print(f"{running:9.0f} frames/s with, {paused:9.0f} without: {running / paused:.3f}")
    mean = statistics.mean(logs)
    half = T_95 * statistics.stdev(logs) / math.sqrt(PAIRS)
    low, high = math.exp(mean - half), math.exp(mean + half)
    print(f"ratio {math.exp(mean):.3f}, 95 % interval {low:.3f} to {high:.3f}")


if __name__ == "__main__":
    main()
