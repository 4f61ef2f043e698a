"""Prints what netem and the medium did with the same probes, side by side, as Markdown.

`compare.py CASES RESULTS`
"""

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rules import rule
from series import Series, distance, error

# Chosen before anything was measured: by chance one pair in a thousand of the same
# figures is this far apart, in standard errors, or has distributions of delays as
# unlike as that.
APART = 3.29
CHANCE = 0.001
# Either side costs the guest time of its own (the baseline), so times are apart
# only beyond this, and distributions of delays are compared on a grid; in ms.
OWN = 0.05
GRID = 0.1
TIMES = {"mean", "deviation"}

NAMES = {
    "lost": "lost, %",
    "run": "losses in a row",
    "again": "came twice, %",
    "again_run": "twice in a row",
    "corrupt": "corrupted, %",
    "corrupt_run": "corrupted in a row",
    "mean": "mean delay, ms",
    "deviation": "its deviation, ms",
    "delay_correlation": "correlation with the one before",
    "late": "came late, %",
    "overtaking": "overtook, %",
    "throughput": "throughput, kbit/s",
}
# Throughput has no standard error of its own: it is read off two times.
PLAIN = {"throughput"}
# What is shown of cases whose names begin so; the first that fits.
FLOOD = ("throughput", "lost", "mean")
LOSS = ("lost", "run")
FIGURES = (
    ("baseline", ("mean", "deviation", "lost")),
    ("delay", ("mean", "deviation", "late")),
    ("loss", LOSS),
    ("gilbert", LOSS),
    ("four", LOSS),
    ("duplicate-loss", ("lost", "again")),
    ("duplicate", ("again", "again_run")),
    ("corrupt", ("corrupt", "corrupt_run", "lost")),
    ("reorder", ("overtaking", "late")),
    ("rate-overload", FLOOD),
    ("rate-loss", FLOOD),
    ("rate-limit", FLOOD),
    ("rate", ("mean", "deviation", "late")),
    ("bucket", ("mean", "deviation", "lost")),
    ("slot", ("mean", "deviation", "delay_correlation")),
    ("", ("mean", "deviation", "delay_correlation", "late")),
)
# Cases whose delays are drawn one by one, so that the test of distributions holds.
DRAWN = ("uniform", "normal", "pareto", "below", "longest")


@dataclass
class Case:
    """A line of the file of cases."""

    name: str
    qdisc: str
    medium: str
    count: int
    size: int

    @classmethod
    def read(cls, line: str) -> "Case":
        """Takes a line apart."""
        name, qdisc, medium, probes = (part.strip() for part in line.split("|"))
        count, _, size, _ = (int(number) for number in probes.split())
        return cls(name, qdisc, medium, count, size)


def number(value: float) -> str:
    """Four digits, no more."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def shown(figure: str, sides: tuple[Series, Series]) -> tuple[str, str, str]:
    """A figure of both, and how far they are apart."""
    got = [getattr(side, figure)() for side in sides]
    if figure in PLAIN:
        return (number(got[0]), number(got[1]), f"{100 * (got[1] / got[0] - 1):+.2f} %")
    errors = [error(side, getattr(Series, figure)) for side in sides]
    one, other = (f"{number(v)} ± {e:.2g}" for v, e in zip(got, errors, strict=True))
    both = math.hypot(*errors)
    gap = max(abs(got[0] - got[1]) - (OWN if figure in TIMES else 0), 0)
    far = gap / both if gap > 0 and both > 0 else np.inf if gap > 0 else 0.0
    return (one, other, f"**{far:.1f}**" if far > APART else f"{far:.1f}")


def row(case: Case, figure: str, sides: tuple[Series, Series]) -> str:
    """A figure of both, what their rules say, and whether they are apart."""
    says = rule(case.name, figure)
    if says is None:
        rules = ""
    elif np.isclose(*says):
        rules = number(says[0])
    else:
        rules = f"{number(says[0])}; {number(says[1])}"
    cells = (case.name, NAMES[figure], *shown(figure, sides), rules)
    return f"| {' | '.join(cells)} |"


def figures_of(case: Case) -> tuple[str, ...]:
    """What is shown of a case."""
    return next(figures for begin, figures in FIGURES if case.name.startswith(begin))


def main(cases_file: Path, folder: Path) -> None:
    """Prints the tables."""
    lines = cases_file.read_text().splitlines()
    cases = [Case.read(line) for line in lines if line and not line.startswith("#")]
    cases = [case for case in cases if (folder / f"{case.name}.netem").exists()]
    series = {
        case.name: (read(folder, case, "netem"), read(folder, case, "medium")) for case in cases
    }
    print("```\n" + (folder / "machine").read_text() + "```\n")
    print("| case | figure | netem | medium | apart | rules: netem's; the medium's |")
    print("| --- | --- | --- | --- | --- | --- |")
    for case in cases:
        for figure in figures_of(case):
            print(row(case, figure, series[case.name]))
    columns = (
        "case",
        "mean distance of delays, ms",
        "largest of distributions",
        "by chance",
        "release error p99, ms",
    )
    print(f"\n| {' | '.join(columns)} |")
    print("| --- | --- | --- | --- | --- |")
    for case in cases:
        far = distance(*series[case.name], GRID)
        largest, chance = "", ""
        if case.name.startswith(DRAWN):
            largest, chance = f"{far.largest:.3f}", f"{far.chance:.2g}"
            if far.chance < CHANCE:
                chance = f"**{chance}**"
        cells = (case.name, f"{far.mean:.3g}", largest, chance, late(folder, case))
        print(f"| {' | '.join(cells)} |")
    backend(folder, cases)
    print("\n| case | tc qdisc | the medium |\n| --- | --- | --- |")
    for case in cases:
        print(f"| {case.name} | `{case.qdisc}` | `{case.medium}` |")


def read(folder: Path, case: Case, side: str) -> Series:
    """What the probe saw of a case by one way."""
    return Series.read(folder / f"{case.name}.{side}", case.count, case.size)


def backend(folder: Path, cases: list[Case]) -> None:
    """Prints what the tool's own netem did, each way, beside tc's."""
    print("\n| case | figure | tc's netem | `backend: netem` up | apart | down | apart | counted |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for case in (case for case in cases if (folder / f"{case.name}.up").exists()):
        tc, up, down = (read(folder, case, side) for side in ("netem", "up", "down"))
        counted = ", ".join(lost(folder, case, side) for side in ("up", "down"))
        for figure in figures_of(case):
            one, other = (shown(figure, (tc, side)) for side in (up, down))
            last = counted if figure == "lost" else ""
            cells = (case.name, NAMES[figure], *one, *other[1:], last)
            print(f"| {' | '.join(cells)} |")


def lost(folder: Path, case: Case, side: str) -> str:
    """The loss that netem counted, as the run folder has it, in %."""
    summary = json.loads((folder / f"{case.name}.{side}.summary.json").read_text())
    return number(summary["links"]["loss_got_pct"])


def late(folder: Path, case: Case) -> str:
    """How much later than meant the medium let frames go, as the tool itself says."""
    summary = json.loads((folder / f"{case.name}.medium.summary.json").read_text())
    error_us = (summary.get("links") or {}).get("delay_error_us") or {}
    return number(error_us["p99"] / 1000) if error_us.get("p99") is not None else ""


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
