"""Two builds compared: `thingbed compare`."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Literal

from . import frames, tool
from .errors import ToolError
from .experiment import file_of
from .progress import printer
from .result import Result
from .running import Progress, Source


@dataclass(frozen=True)
class Difference:
    """A figure of a cell in two builds.

    Attributes:
        cell: the cell, such as `loss 5 %`; empty if there is only one.
        figure: its path in `summary.json`.
        name: its short name.
        main: whether it is one of the main figures.
        old, new: its means over the repeats.
        difference: the mean difference of runs with the same seed.
        interval: ends of its 95 % confidence interval; None with one repeat.
        percent, percent_interval: the same in percent of `old`; None if that is 0.
        significant: whether the interval excludes 0; None with one repeat.
        repeats: number of pairs of runs.
    """

    cell: str
    figure: str
    name: str
    main: bool
    old: float
    new: float
    difference: float
    interval: tuple[float, float] | None
    percent: float | None
    percent_interval: tuple[float, float] | None
    significant: bool | None
    repeats: int


@dataclass(frozen=True)
class Comparison:
    """Two builds.

    Attributes:
        exact: whether all runs are in virtual time, so that each run is exact.
        differences: the figures of all common cells.
        newly_failed: runs that are failed with the new build only: cell and repeat.
        notes: what was left out, and what limits the comparison.
        problems: with `max_change`, a line for each figure that changes by more, and for each run
            of `newly_failed`.
    """

    exact: bool
    differences: list[Difference]
    newly_failed: list[str]
    notes: list[str]
    problems: list[str]

    def __getitem__(self, figure: str) -> Difference:
        """Return the difference of a figure, by path or short name, if one cell has it.

        Raises:
            KeyError: no cell has it, or several have.
        """
        found = [one for one in self.differences if figure in (one.figure, one.name)]
        if len(found) == 1:
            return found[0]
        names = ", ".join(dict.fromkeys(one.figure for one in self.differences))
        cells = ", ".join(one.cell for one in found)
        raise KeyError(
            f"{figure}: several cells have it: {cells}"
            if found
            else f"{figure}; there are: {names}"
        )

    def frame(self) -> Any:
        """Return a table, of polars or pandas, with a row for each difference.

        Raises:
            ImportError: neither is installed.
        """
        return frames.backend().make([_row(one) for one in self.differences])


def _row(one: Difference) -> dict[str, Any]:
    row = dict(vars(one))
    for name in ("interval", "percent_interval"):
        low, high = row.pop(name) or (None, None)
        row |= {f"{name}_low": low, f"{name}_high": high}
    return row


def compare(
    old: Result | str | os.PathLike[str],
    new: Result | str | os.PathLike[str],
    experiment: Source | None = None,
    *,
    clock: Literal["real", "virtual"] | None = None,
    cpu: float | str | None = None,
    repeat: int | None = None,
    max_change: str | None = None,
    all_figures: bool = False,
    progress: Progress = None,
) -> Comparison:
    """Compare two builds: results of runs, or with an experiment, two programs.

    `old` and `new` are results or their folders. With `experiment` they are programs: it runs with
    each of them as its value `${env:PROGRAM}`, in virtual time unless `clock` is `real`.
    `max_change`, such as `5 %`, fills `problems`. Blocks until the runs have ended.

    Raises:
        InputError: the experiment or an option is wrong.
        ToolError: no runs can be compared, or a run could not be done.
    """
    arguments = ["compare", "--format", "json"]
    for name, value in (
        ("clock", clock),
        ("cpu", cpu),
        ("repeat", repeat),
        ("max-change", max_change),
    ):
        arguments += [] if value is None else [f"--{name}", str(value)]
    arguments += ["--all"] if all_figures else []
    arguments += [str(_path(old)), str(_path(new))]
    if experiment is None:
        return _compared(arguments, progress)
    with file_of(experiment) as path:
        return _compared([*arguments, "--run", str(path)], progress)


def _path(build: Result | str | os.PathLike[str]) -> str | os.PathLike[str]:
    return build.folder if isinstance(build, Result) else build


def _compared(arguments: list[str], progress: Progress) -> Comparison:
    with printer(progress) as show:
        process = tool.Process(arguments, on_error=show)
        try:
            status = process.wait()
        finally:
            process.stop()
    errors = process.errors_text()
    # 4: the builds differ, which the result says.
    if status != 4:
        tool.check(status, errors, process.command)
    # With --run, tables of the runs come before.
    begin = next((place for place, line in enumerate(process.output) if line == "{"), None)
    if begin is None:
        raise ToolError(f"thingbed printed no comparison\n{errors}", status, process.command)
    found = json.loads("\n".join(process.output[begin:]))
    lines = [line.removeprefix("error: ") for line in errors.splitlines()]
    return Comparison(
        exact=found["exact"],
        differences=[
            _difference(cell["cell"], figure)
            for cell in found["cells"]
            for figure in cell["figures"]
        ],
        newly_failed=list(found["newly_failed"]),
        notes=list(found["notes"]),
        problems=lines if status == 4 else [],
    )


def _difference(cell: str, figure: dict[str, Any]) -> Difference:
    def pair(name: str) -> tuple[float, float] | None:
        return tuple(figure[name]) if figure[name] else None

    return Difference(
        cell=cell,
        interval=pair("interval"),
        percent_interval=pair("percent_interval"),
        **{
            name: figure[name]
            for name in Difference.__annotations__
            if name not in ("cell", "interval", "percent_interval")
        },
    )
