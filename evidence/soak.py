#!/usr/bin/env python3
"""Slopes of what the tool uses over hours: `evidence/soak.py BIN HOURS OUT [ARGUMENTS]`.

Runs experiments/soak.yaml for HOURS with the program BIN into the folder OUT, with further
ARGUMENTS of `thingbed run`, and samples memory, descriptors, threads and the run folder's size.
`--nodes N` among the ARGUMENTS sets the number of meters. With `--clock virtual` HOURS are those
of the run, and slopes are per hour of the machine. Writes OUT/samples.csv and prints Markdown.

A slope is that of Theil and Sen (median over all pairs of points), with the 95 % confidence
interval of Sen (1968). Points are means of blocks, because samples that follow one another depend
on each other, and the first tenth is left out: the tool fills its tables then. Exit status 1 if a
limit is exceeded with certainty, 3 if the interval has the limit within it: the run was too short
to tell.
"""

from __future__ import annotations

import csv
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

EXPERIMENT = Path(__file__).parent.parent / "experiments" / "soak.yaml"
EVERY_S = 5.0
BLOCKS = 60
WARM_UP = 0.1
# The drain of the experiment, and the end of its programs.
END_S = 90.0
# The 97.5 % quantile of the normal distribution.
NORMAL = 1.959964


@dataclass(frozen=True)
class Figure:
    """Something that is sampled, and the largest slope per hour that is no leak."""

    name: str
    unit: str
    limit: float | None


FIGURES = (
    Figure("tool_memory", "MB", 1.0),
    Figure("programs_memory", "MB", None),
    Figure("descriptors", "", 1.0),
    Figure("threads", "", 1.0),
    Figure("processes", "", 1.0),
    Figure("folder", "MB", None),
)


@dataclass(frozen=True)
class Slope:
    """A slope with its confidence interval."""

    value: float
    low: float
    high: float

    def verdict(self, limit: float | None) -> str:
        """`below`, `above` or `unclear`; empty without a limit."""
        if limit is None:
            return ""
        if self.high < limit:
            return "below"
        return "above" if self.low > limit else "unclear"


def theil_sen(points: Sequence[tuple[float, float]]) -> Slope:
    """The slope of points with distinct times."""
    slopes = sorted(
        (late[1] - early[1]) / (late[0] - early[0])
        for place, early in enumerate(points)
        for late in points[place + 1 :]
    )
    if not slopes:
        return Slope(math.nan, -math.inf, math.inf)
    count = len(points)
    # Half the width in ranks: from the variance of Kendall's S without ties.
    width = NORMAL * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = math.floor((len(slopes) - width) / 2)
    high = math.ceil((len(slopes) + width) / 2)
    return Slope(
        statistics.median(slopes),
        slopes[low] if low >= 0 else -math.inf,
        slopes[high] if high < len(slopes) else math.inf,
    )


def blocks(points: Sequence[tuple[float, float]], count: int) -> list[tuple[float, float]]:
    """Means of `count` blocks of equal size; the points themselves if there are fewer."""
    size = max(1, len(points) // count)
    parts = [points[start : start + size] for start in range(0, len(points) - size + 1, size)]
    return [
        (statistics.fmean(t for t, _ in part), statistics.fmean(v for _, v in part))
        for part in parts
    ]


def descendants(root: int) -> list[int]:
    """The process and all below it."""
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                todo.extend(int(child) for child in children.read_text().split())
            except OSError:
                continue
    return found


def status(pid: int) -> dict[str, str]:
    """The fields of /proc/PID/status; empty if the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def private_mb(pid: int) -> float:
    """Memory that only this process holds, with what of it is in swap, in MB."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    kib = (line.split()[1] for line in lines if line.startswith(("Private_", "Swap:")))
    return sum(map(int, kib)) * 1024 / 1e6


def size_mb(folder: Path) -> float:
    """Size of the files of a folder in MB."""

    def size(path: Path) -> int:
        try:
            return path.stat().st_size if path.is_file() else 0
        except OSError:
            return 0

    return sum(size(path) for path in folder.rglob("*")) / 1e6


def sample(root: int, folder: Path) -> dict[str, float]:
    """One sample of all figures."""
    figures = dict.fromkeys((figure.name for figure in FIGURES), 0.0)
    for pid in descendants(root):
        fields = status(pid)
        if not fields:
            continue
        own = fields.get("Name", "") == "thingbed"
        figures["tool_memory" if own else "programs_memory"] += private_mb(pid)
        figures["threads"] += float(fields.get("Threads", 0))
        figures["processes"] += 1
        try:
            figures["descriptors"] += len(list(Path(f"/proc/{pid}/fd").iterdir()))
        except OSError:
            continue
    figures["folder"] = size_mb(folder)
    return figures


def experiment(out: Path, hours: float, nodes: int | None) -> Path:
    """A copy of the experiment with this duration and this number of meters."""
    text = EXPERIMENT.read_text().replace("duration: 8 h", f"duration: {hours * 3600:.0f} s")
    text = text.replace("payloads/", f"{EXPERIMENT.parent.resolve()}/payloads/")
    if nodes is not None:
        text = text.replace("meter: {count: 20}", f"meter: {{count: {nodes}}}")
    path = out / "soak.yaml"
    path.write_text(text)
    return path


def judge(times: Sequence[float], rows: Sequence[dict[str, float]]) -> Iterable[tuple[str, str]]:
    """A line of Markdown and a verdict for each figure."""
    for figure in FIGURES:
        points = list(zip(times, (row[figure.name] for row in rows), strict=True))
        last_s = times[-1] - END_S / 3600
        steady = [point for point in points if times[-1] * WARM_UP <= point[0] <= last_s]
        slope = theil_sen(blocks(steady, BLOCKS))
        verdict = slope.verdict(figure.limit)
        first, last = steady[0][1], steady[-1][1]
        limit = "" if figure.limit is None else f"{figure.limit:g}"
        name = f"{figure.name.replace('_', ' ')}{f', {figure.unit}' if figure.unit else ''}"
        interval = f"{slope.low:.3f} to {slope.high:.3f}"
        yield (
            f"| {name} | {first:.2f} | {last:.2f} | {slope.value:.3f} | {interval} "
            f"| {limit} | {verdict} |",
            verdict,
        )


def main() -> int:
    """Runs, samples and judges."""
    if len(sys.argv) < 4:
        print(__doc__)
        return 2
    program, hours, out = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
    further, nodes = sys.argv[4:], None
    if "--nodes" in further:
        place = further.index("--nodes")
        nodes = int(further[place + 1])
        del further[place : place + 2]
    out.mkdir(parents=True, exist_ok=True)
    command = [program, "run", str(experiment(out, hours, nodes)), "--out", str(out / "run")]
    with (out / "run.log").open("w") as log:
        run = subprocess.Popen([*command, *further], stdout=log, stderr=log)
    start, times, rows = time.monotonic(), [], []
    with (out / "samples.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["hours", *(figure.name for figure in FIGURES)])
        while run.poll() is None:
            at = (time.monotonic() - start) / 3600
            row = sample(run.pid, out / "run")
            if run.poll() is None:
                times.append(at)
                rows.append(row)
                writer.writerow([f"{at:.5f}", *(f"{row[f.name]:.3f}" for f in FIGURES)])
                file.flush()
            time.sleep(EVERY_S)
    if len(times) < 20:
        print(f"only {len(times)} samples: the run ended with {run.returncode}, see {out}/run.log")
        return 2
    print(f"{times[-1]:.3f} hours, {len(times)} samples; the run ended with {run.returncode}\n")
    print("| figure | first | last | slope per hour | 95 % | limit | |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    verdicts = []
    for line, verdict in judge(times, rows):
        print(line)
        verdicts.append(verdict)
    return 1 if "above" in verdicts else 3 if "unclear" in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
