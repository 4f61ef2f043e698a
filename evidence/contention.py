#!/usr/bin/env python3
"""How well contention probes tell spoiled runs: `evidence/contention.py SWEEP`.

A run is spoiled if its devices' own answers took longer by more than 5 % of the service
time than those of one device on the quiet machine. The probes' threshold is set on the
runs of even repeats, so that all spoiled ones are found with as few false alarms as can
be, and tried on those of odd ones. Prints Markdown.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SERVICE_MS = 25.0
SPOILED = 0.05


@dataclass(frozen=True)
class Run:
    """One run: where it is in the matrix, what its devices saw, what its probes saw."""

    mode: str
    devices: int
    stress: str
    repeat: int
    deviation: float
    probed: float

    def spoiled(self, clean: dict[str, float]) -> bool:
        """Whether its devices were off by more than 5 % of the service time."""
        return self.deviation - clean[self.mode] > SPOILED


def read(summary: dict[str, Any]) -> Run:
    """A run from its summary; what was not answered is off by all there is."""
    cell = summary["cell"]
    mode = str(cell["mode"])
    mean = summary["loads"]["load"]["service_ms"]["mean"]
    deviation = float("inf") if mean is None else (mean - SERVICE_MS) / SERVICE_MS
    cores = summary["probes"]["probe"]["cores"].values()
    # The probes that spend their time as the devices do.
    probed = max(float(core[mode]["mean"]) for core in cores)
    return Run(
        mode, int(cell["devices"]), str(cell["stress"]), int(summary["repeat"]), deviation, probed
    )


def rates(runs: list[Run], clean: dict[str, float], threshold: float) -> tuple[float, float]:
    """The share of spoiled runs that are found, and of the others that are alarms."""
    spoiled = [run for run in runs if run.spoiled(clean)]
    sound = [run for run in runs if not run.spoiled(clean)]
    found = sum(run.probed > threshold for run in spoiled) / max(1, len(spoiled))
    alarms = sum(run.probed > threshold for run in sound) / max(1, len(sound))
    return found, alarms


def best(runs: list[Run], clean: dict[str, float]) -> float:
    """The threshold with the fewest mistakes of both kinds."""
    candidates = sorted({run.probed for run in runs} | {0.0})

    def mistakes(threshold: float) -> tuple[float, float]:
        found, alarms = rates(runs, clean, threshold)
        return (1.0 - found) + alarms, -threshold

    return min(candidates, key=mistakes)


def main() -> int:
    """Prints the table, the threshold and what it does."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    path = Path(sys.argv[1]) / "summary.json"
    runs = [read(summary) for summary in json.loads(path.read_text())]
    clean: dict[str, float] = {}
    for mode in ("busy", "sleep"):
        quiet = [r for r in runs if (r.mode, r.devices, r.stress) == (mode, 1, "none")]
        clean[mode] = sorted(run.deviation for run in quiet)[len(quiet) // 2]
    print("| mode | devices | other work | devices' R_d, median | probes' R_d, median | spoiled |")
    print("| --- | --- | --- | --- | --- | --- |")
    for cell in sorted({(run.mode, run.devices, run.stress) for run in runs}):
        own = [run for run in runs if (run.mode, run.devices, run.stress) == cell]
        middle = len(own) // 2
        deviation = sorted(run.deviation for run in own)[middle]
        probed = sorted(run.probed for run in own)[middle]
        spoiled = sum(run.spoiled(clean) for run in own)
        mode, devices, stress = cell
        print(
            f"| {mode} | {devices} | {stress} | {deviation:.3f} | {probed:.3f} "
            f"| {spoiled} of {len(own)} |"
        )
    train = [run for run in runs if run.repeat % 2 == 0]
    test = [run for run in runs if run.repeat % 2 == 1]
    threshold = best(train, clean)
    print(f"\nThreshold set on even repeats: a mean R_d of {threshold:.3f}.\n")
    for name, part in (("even (set on)", train), ("odd (tried on)", test)):
        found, alarms = rates(part, clean, threshold)
        count = sum(run.spoiled(clean) for run in part)
        print(
            f"- {name}: {len(part)} runs, {count} spoiled; found {found:.1%}, "
            f"false alarms {alarms:.1%}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
