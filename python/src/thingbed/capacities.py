"""The largest value of an axis that meets targets: `thingbed capacity`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from . import tool
from .errors import InterruptedRunError, ToolError
from .experiment import file_of
from .progress import printer
from .running import Progress, Source, folder_of, selection

Outcome = Literal["met", "missed", "lost"]
"""Trusted runs met the targets, or missed them; or no run can be trusted (`lost`)."""


@dataclass(frozen=True)
class TestedValue:
    """A value that a search tested.

    Attributes:
        value: the value, as in the experiment.
        outcome: whether it meets the targets.
        runs: number of runs.
        valid: number of valid runs.
        figures: by target, the median of its figure over the trusted runs; None without such a run.
        reasons: why runs are not trusted, or failed.
        overload: why the system was overloaded although its figures may meet the targets.
    """

    __test__ = False  # pytest: no class of tests

    value: str
    outcome: Outcome
    runs: int
    valid: int
    figures: dict[str, float | None]
    reasons: list[str]
    overload: str | None


@dataclass(frozen=True)
class Capacity:
    """The result of a search.

    Attributes:
        cell: the values of the other axes.
        axis: the axis that was maximised.
        best: its largest value that meets the targets; None if no tested value does.
        limit: its smallest value that does not; None if the largest allowed value meets them.
        limited_by: the cause: the system, or the test bed, which had no trusted run at `limit`.
        tested: all tested values, in the order of testing.
        folder: the folder of the runs, with `report.html`.
    """

    cell: dict[str, str]
    axis: str
    best: str | None
    limit: str | None
    limited_by: Literal["system", "test bed"] | None
    tested: list[TestedValue]
    folder: Path


class CapacityOptions(TypedDict, total=False):
    """Options of `capacity`; `thingbed help capacity` has the details of those with its names."""

    #: Largest value to try.
    to: int
    #: Relative precision of the result, by default "5 %".
    resolution: str
    #: Trusted runs per value, by default 3.
    repeat: int
    #: Also trust suspect runs.
    suspect: bool
    #: Run only these cells of the other axes: a value, or a list of values, by axis.
    only: Mapping[str, object]
    seed: int
    #: Folder for results, by default `runs`.
    out: str | os.PathLike[str]
    threads: int
    spin: bool
    clock: Literal["real", "virtual"]
    #: CPU in virtual time: `infinite`, or 10^9 instructions per second.
    cpu: float | str
    progress: Progress


def capacity(
    experiment: Source,
    maximize: str,
    targets: Sequence[str],
    *,
    first: int | None = None,
    **options: Unpack[CapacityOptions],
) -> list[Capacity]:
    """Find the largest value of the axis `maximize` that meets all `targets`.

    Targets are such as `p99 < 200 ms`. The search begins with `first`, by default the smallest
    value of the axis. Each combination of the other axes has a search, and a result. Blocks until
    the searches have ended.

    Raises:
        InputError: the experiment, the axis, a target or an option is wrong.
        InterruptedRunError: someone else stopped the search.
        ToolError: a run could not be done.
    """
    arguments = ["--max", maximize, *_words(options)]
    for target in [targets] if isinstance(targets, str) else targets:
        arguments += ["--slo", target]
    arguments += [] if first is None else ["--from", str(first)]
    with file_of(experiment) as path, printer(options.get("progress")) as show:
        quiet = ["--quiet"] if show is None else []
        process = tool.Process(["capacity", str(path), *arguments, *quiet], on_error=show)
        try:
            status = process.wait()
        finally:
            # Also after KeyboardInterrupt: a search must not continue unattended.
            process.stop()
    folder = folder_of(process.output)
    if status == 130:
        raise InterruptedRunError("the search was interrupted", folder)
    # 4: a search found no value, which its result says.
    if status != 4:
        tool.check(status, process.errors_text(), process.command)
    if folder is None:
        errors = process.errors_text()
        raise ToolError(f"thingbed printed no report\n{errors}", status, process.command)
    found = json.loads((folder / "capacity.json").read_text(encoding="utf-8"))
    names = [targets] if isinstance(targets, str) else list(targets)
    return [_capacity(one, names, folder) for one in found]


def _words(options: CapacityOptions) -> list[str]:
    found = selection(options.get("only"))
    found += ["--out", str(Path(options.get("out", "runs")).absolute())]
    for name in ("to", "resolution", "repeat", "seed", "threads", "clock", "cpu"):
        if name in options:
            found += [f"--{name}", str(options[name])]
    found += ["--suspect"] if options.get("suspect") else []
    found += ["--spin"] if options.get("spin") else []
    return found


def _capacity(one: dict[str, Any], targets: Sequence[str], folder: Path) -> Capacity:
    limit, outcome = one["limit"] or (None, None)
    causes: dict[str | None, Literal["system", "test bed"]] = {
        "missed": "system",
        "lost": "test bed",
    }
    return Capacity(
        cell=dict(one["cell"]),
        axis=one["axis"],
        best=one["best"],
        limit=limit,
        limited_by=causes.get(outcome),
        tested=[
            TestedValue(
                value=tried["value"],
                outcome=tried["found"],
                runs=tried["runs"],
                valid=tried["valid"],
                figures=dict(zip(targets, tried["figures"], strict=True)),
                reasons=list(tried["reasons"]),
                overload=tried["overload"],
            )
            for tried in one["tried"]
        ],
        folder=folder,
    )
