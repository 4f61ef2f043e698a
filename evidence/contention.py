#!/usr/bin/env python3
"""How well contention probes detect spoiled runs: `evidence/contention.py SWEEP`.

A run is spoiled if its devices' own answers took longer, by more than 5 % of the service
time, than those of one device on the quiet machine. For each figure of the probes the
runs of even repeats set the threshold with the fewest errors of both kinds, and the runs
of odd repeats test it. The curve of the first figure covers all runs. Prints Markdown.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SERVICE_MS = 25.0
SPOILED = 0.05
FIGURES = ("mean", "p50", "p95")
CURVE = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)


@dataclass(frozen=True)
class Run:
    """One run: its cell, and the figures of its devices and its probes."""

    mode: str
    devices: int
    stress: str
    repeat: int
    answers: int
    deviation: float
    probed: dict[str, float]

    def spoiled(self, clean: dict[str, float]) -> bool:
        """Whether its devices deviated by more than 5 % of the service time."""
        return self.deviation - clean[self.mode] > SPOILED


def read(summary: dict[str, Any]) -> Run:
    """A run from its summary; without any answer the deviation is infinite."""
    cell = summary["cell"]
    mode = str(cell["mode"])
    load = summary["loads"]["load"]
    mean = load["service_ms"]["mean"]
    deviation = float("inf") if mean is None else (mean - SERVICE_MS) / SERVICE_MS
    cores = summary["probes"]["probe"]["cores"].values()
    # The probes that use their time as the devices do; the worst core.
    probed = {name: max(float(core[mode][name]) for core in cores) for name in FIGURES}
    return Run(
        mode,
        int(cell["devices"]),
        str(cell["stress"]),
        int(summary["repeat"]),
        int(load["answered"]),
        deviation,
        probed,
    )


def rates(
    runs: list[Run], clean: dict[str, float], figure: str, threshold: float
) -> tuple[float, float]:
    """The share of spoiled runs that are found, and of other runs with a false alarm."""
    spoiled = [run for run in runs if run.spoiled(clean)]
    sound = [run for run in runs if not run.spoiled(clean)]
    found = sum(run.probed[figure] > threshold for run in spoiled) / max(1, len(spoiled))
    alarms = sum(run.probed[figure] > threshold for run in sound) / max(1, len(sound))
    return found, alarms


def best(runs: list[Run], clean: dict[str, float], figure: str) -> float:
    """The threshold with the fewest errors of both kinds, in the middle of its gap."""
    seen = sorted({max(run.probed[figure], 1e-3) for run in runs})
    candidates = [math.sqrt(one * other) for one, other in itertools.pairwise(seen)]

    def errors(threshold: float) -> tuple[float, float]:
        found, alarms = rates(runs, clean, figure, threshold)
        return (1.0 - found) + alarms, -threshold

    return min(candidates, key=errors)


def main() -> int:
    """Prints the table, the thresholds and their results."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    path = Path(sys.argv[1]) / "summary.json"
    runs = [read(summary) for summary in json.loads(path.read_text())]
    clean: dict[str, float] = {}
    for mode in ("busy", "sleep"):
        baseline = [r for r in runs if (r.mode, r.devices, r.stress) == (mode, 1, "none")]
        clean[mode] = sorted(run.deviation for run in baseline)[len(baseline) // 2]
    print("| mode | devices | other work | devices' R_d, median | probes' R_d, median | spoiled |")
    print("| --- | --- | --- | --- | --- | --- |")
    for cell in sorted({(run.mode, run.devices, run.stress) for run in runs}):
        own = [run for run in runs if (run.mode, run.devices, run.stress) == cell]
        middle = len(own) // 2
        deviation = sorted(run.deviation for run in own)[middle]
        probed = sorted(run.probed["mean"] for run in own)[middle]
        spoiled = sum(run.spoiled(clean) for run in own)
        mode, devices, stress = cell
        print(
            f"| {mode} | {devices} | {stress} | {deviation:.3f} | {probed:.3f} "
            f"| {spoiled} of {len(own)} |"
        )
    train = [run for run in runs if run.repeat % 2 == 0]
    test = [run for run in runs if run.repeat % 2 == 1]
    columns = ["figure of the probes", "runs", "threshold"]
    columns += ["training half: found, alarms", "test half: found, alarms"]
    print(f"\n| {' | '.join(columns)} |")
    print("| --- | --- | --- | --- | --- |")
    for minimum in (0, 100):
        for figure in FIGURES:
            halves = [[run for run in half if run.answers >= minimum] for half in (train, test)]
            threshold = best(halves[0], clean, figure)
            results = []
            for half in halves:
                spoiled = sum(run.spoiled(clean) for run in half)
                found, alarms = rates(half, clean, figure, threshold)
                results.append(f"{found:.1%} of {spoiled}, {alarms:.1%} of {len(half) - spoiled}")
            which = f"{minimum} answers or more" if minimum else "all"
            print(f"| {figure} | {which} | {threshold:.3f} | {results[0]} | {results[1]} |")
    print("\n| mean R_d over | found | false alarms |")
    print("| --- | --- | --- |")
    for threshold in CURVE:
        found, alarms = rates(runs, clean, "mean", threshold)
        print(f"| {threshold} | {found:.1%} | {alarms:.1%} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
