"""Compares netem and the medium with the same probes; prints Markdown.

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

# Significance limits, chosen before any measurement: one pair in a thousand of equal
# figures differs by this many standard errors, or has a p-value of its distributions
# below this.
LIMIT = 3.29
P_VALUE = 0.001
# Each side takes CPU time in the guest (the baseline), so times differ only beyond
# this, and distributions of delays are compared on a grid; in ms.
TOLERANCE = 0.05
GRID = 0.1
TIMES = {"mean", "deviation"}

NAMES = {
    "lost": "lost, %",
    "loss_run": "loss burst length",
    "duplicated": "duplicated, %",
    "duplicated_run": "duplicate burst length",
    "corrupted_share": "corrupted, %",
    "corrupted_run": "corruption burst length",
    "mean": "mean delay, ms",
    "deviation": "standard deviation, ms",
    "delay_correlation": "autocorrelation, lag 1",
    "reordered": "reordered, %",
    "overtaking": "overtaking, %",
    "throughput": "throughput, kbit/s",
}
# Throughput has no standard error: it is computed from two times.
PLAIN = {"throughput"}
# Figures to print by the beginning of a case's name; the first match counts.
FLOOD = ("throughput", "lost", "mean")
LOSS = ("lost", "loss_run")
FIGURES = (
    ("baseline", ("mean", "deviation", "lost")),
    ("delay", ("mean", "deviation", "reordered")),
    ("loss", LOSS),
    ("gilbert", LOSS),
    ("four", LOSS),
    ("duplicate-loss", ("lost", "duplicated")),
    ("duplicate", ("duplicated", "duplicated_run")),
    ("corrupt", ("corrupted_share", "corrupted_run", "lost")),
    ("reorder", ("overtaking", "reordered")),
    ("rate-overload", FLOOD),
    ("rate-loss", FLOOD),
    ("rate-limit", FLOOD),
    ("rate", ("mean", "deviation", "reordered")),
    ("bucket", ("mean", "deviation", "lost")),
    ("slot", ("mean", "deviation", "delay_correlation")),
    ("", ("mean", "deviation", "delay_correlation", "reordered")),
)
# Cases whose delays are drawn independently, so the test of distributions applies.
DRAWN = ("uniform", "normal", "pareto", "below", "longest")


@dataclass
class Case:
    """A line of the cases file."""

    name: str
    qdisc: str
    medium: str
    count: int
    size: int

    @classmethod
    def read(cls, line: str) -> "Case":
        """Parses a line."""
        name, qdisc, medium, probes = (part.strip() for part in line.split("|"))
        count, _, size, _ = (int(number) for number in probes.split())
        return cls(name, qdisc, medium, count, size)


def number(value: float) -> str:
    """Four significant digits at most."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def compared(figure: str, sides: tuple[Series, Series]) -> tuple[str, str, str]:
    """A figure of both, and their difference in standard errors."""
    values = [getattr(side, figure)() for side in sides]
    if figure in PLAIN:
        return (number(values[0]), number(values[1]), f"{100 * (values[1] / values[0] - 1):+.2f} %")
    errors = [error(side, getattr(Series, figure)) for side in sides]
    one, other = (f"{number(v)} ± {e:.2g}" for v, e in zip(values, errors, strict=True))
    both = math.hypot(*errors)
    gap = max(abs(values[0] - values[1]) - (TOLERANCE if figure in TIMES else 0), 0)
    difference = gap / both if gap > 0 and both > 0 else np.inf if gap > 0 else 0.0
    return (one, other, f"**{difference:.1f}**" if difference > LIMIT else f"{difference:.1f}")


def row(case: Case, figure: str, sides: tuple[Series, Series]) -> str:
    """A table row: a figure of both, their difference, and the expected values."""
    expected = rule(case.name, figure)
    if expected is None:
        rules = ""
    elif np.isclose(*expected):
        rules = number(expected[0])
    else:
        rules = f"{number(expected[0])}; {number(expected[1])}"
    cells = (case.name, NAMES[figure], *compared(figure, sides), rules)
    return f"| {' | '.join(cells)} |"


def figures_of(case: Case) -> tuple[str, ...]:
    """The figures to print for a case."""
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
    print("| case | figure | netem | medium | difference | expected: netem; medium |")
    print("| --- | --- | --- | --- | --- | --- |")
    for case in cases:
        for figure in figures_of(case):
            print(row(case, figure, series[case.name]))
    columns = (
        "case",
        "mean distance of delays, ms",
        "Kolmogorov-Smirnov distance",
        "p-value",
        "lateness p99, ms",
    )
    print(f"\n| {' | '.join(columns)} |")
    print("| --- | --- | --- | --- | --- |")
    for case in cases:
        difference = distance(*series[case.name], GRID)
        largest, chance = "", ""
        if case.name.startswith(DRAWN):
            largest, chance = f"{difference.largest:.3f}", f"{difference.chance:.2g}"
            if difference.chance < P_VALUE:
                chance = f"**{chance}**"
        cells = (case.name, f"{difference.mean:.3g}", largest, chance, lateness(folder, case))
        print(f"| {' | '.join(cells)} |")
    backend(folder, cases)
    print("\n| case | tc qdisc | the medium |\n| --- | --- | --- |")
    for case in cases:
        print(f"| {case.name} | `{case.qdisc}` | `{case.medium}` |")


def read(folder: Path, case: Case, side: str) -> Series:
    """The series of a case on one side."""
    return Series.read(folder / f"{case.name}.{side}", case.count, case.size)


def backend(folder: Path, cases: list[Case]) -> None:
    """Prints `backend: netem` in both directions, compared with tc's netem."""
    columns = ["case", "figure", "tc's netem", "`backend: netem` up", "difference"]
    columns += ["down", "difference", "counted"]
    print(f"\n| {' | '.join(columns)} |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for case in (case for case in cases if (folder / f"{case.name}.up").exists()):
        tc, up, down = (read(folder, case, side) for side in ("netem", "up", "down"))
        counted = ", ".join(lost(folder, case, side) for side in ("up", "down"))
        for figure in figures_of(case):
            one, other = (compared(figure, (tc, side)) for side in (up, down))
            last = counted if figure == "lost" else ""
            cells = (case.name, NAMES[figure], *one, *other[1:], last)
            print(f"| {' | '.join(cells)} |")


def lost(folder: Path, case: Case, side: str) -> str:
    """netem's loss count from the run folder, in %."""
    summary = json.loads((folder / f"{case.name}.{side}.summary.json").read_text())
    return number(summary["links"]["loss_measured_pct"])


def lateness(folder: Path, case: Case) -> str:
    """The medium's lateness at the 99th percentile in ms, from the run folder."""
    summary = json.loads((folder / f"{case.name}.medium.summary.json").read_text())
    error_us = (summary.get("links") or {}).get("delay_error_us") or {}
    return number(error_us["p99"] / 1000) if error_us.get("p99") is not None else ""


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
