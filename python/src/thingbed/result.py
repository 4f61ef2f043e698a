"""The results of runs: a sweep's folder, which the tool wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import polars

_WORST = ("valid", "suspect", "failed", "invalid")


@dataclass(frozen=True)
class Expectation:
    """The result of an expectation of the experiment.

    Attributes:
        say: the statement.
        status: `pass`, `fail` or `not measured`.
        text: the comparison with its numbers.
    """

    say: str
    status: str
    text: str


class Run:
    """One run: a cell and a repeat.

    Attributes:
        folder: its folder; docs/run-folder.md describes the files.
        summary: its `summary.json`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())

    @property
    def cell(self) -> dict[str, str]:
        """The axes of the matrix and their values."""
        return dict(self.summary["cell"])

    @property
    def repeat(self) -> int:
        """The repeat, from 0."""
        return int(self.summary["repeat"])

    @property
    def verdict(self) -> str:
        """`valid`, `suspect`, `failed` or `invalid`."""
        return str(self.summary["verdict"]["status"])

    @property
    def reasons(self) -> list[str]:
        """The reasons why it is not valid, the worst first."""
        reasons = self.summary["verdict"]["reasons"]
        return [
            f"{reason['name']}: {reason.get('detail') or reason['meaning']}" for reason in reasons
        ]

    @cached_property
    def plan(self) -> dict[str, Any]:
        """Its `plan.json`: nodes, addresses, links, programs and schedules."""
        return dict(json.loads((self.folder / "plan.json").read_text()))

    @cached_property
    def figures(self) -> dict[str, Any]:
        """All figures by path, such as `messages.loss_pct`."""
        names = ("verdict", "cell", "experiment", "seed", "repeat")
        return dict(_flat({key: value for key, value in self.summary.items() if key not in names}))

    def __getitem__(self, path: str) -> Any:
        """Return the figure with this path.

        Raises:
            KeyError: there is no such figure; the text has similar ones.
        """
        if path not in self.figures:
            last = path.rsplit(".", 1)[-1]
            similar = [name for name in self.figures if name.rsplit(".", 1)[-1] == last]
            raise KeyError(f"no figure `{path}`; similar: {', '.join(similar[:8]) or 'none'}")
        return self.figures[path]

    def output(self, node: str, program: str | None = None, stream: str = "out") -> str:
        """Return what a program of a node printed.

        Args:
            node: the node.
            program: the name of a command, or `run` for the node's own program. Default: the
                node's only program.
            stream: `out` or `err`.

        Raises:
            KeyError: there is no such node or program.
        """
        programs = self._programs(node)
        if program is None:
            if len(programs) != 1:
                raise KeyError(f"{node} has {len(programs)} programs: {', '.join(programs)}")
            program = next(iter(programs))
        if program not in programs:
            raise KeyError(f"{node} has no program `{program}`; it has {', '.join(programs)}")
        path = self.folder / "programs" / f"{node}.{programs[program]}.{stream}"
        # The tool removes empty files.
        return path.read_text(errors="replace") if path.exists() else ""

    def _programs(self, node: str) -> dict[str, str]:
        """Programs of a node: name, and name in the files."""
        nodes = {one["name"]: one for one in self.plan["nodes"]}
        if node not in nodes:
            raise KeyError(f"no node `{node}`; the nodes are {', '.join(nodes)}")
        programs = {"run": "run"} if "program" in nodes[node] else {}
        for number, workload in enumerate(self.plan["workloads"]):
            command = workload.get("command")
            if command is not None and node in command["on"]:
                programs[str(command["name"])] = str(number)
        return programs


class Result:
    """The results of a sweep.

    Attributes:
        folder: the sweep's folder.
        text: the table that `thingbed run` printed; empty if the folder was read later.
    """

    def __init__(self, folder: Path, text: str = "") -> None:
        self.folder, self.text = Path(folder), text
        self.runs = _runs(self.folder)
        """The runs that have results, in the order of the sweep."""

    @property
    def name(self) -> str:
        """The experiment's name."""
        return str(self.runs[0].summary["experiment"]) if self.runs else self.folder.parent.name

    @property
    def report(self) -> Path:
        """The report, an HTML page that works offline."""
        return self.folder / "report.html"

    @property
    def verdict(self) -> str:
        """The worst verdict of the runs."""
        return max((run.verdict for run in self.runs), key=_WORST.index, default="invalid")

    @property
    def expectations(self) -> list[Expectation]:
        """The results of the experiment's expectations."""
        path = self.folder / "expect.json"
        data = json.loads(path.read_text()) if path.exists() else []
        return [Expectation(one["say"], one["status"], one["text"]) for one in data]

    def select(self, **cell: object) -> list[Run]:
        """Return the runs with these values of axes."""
        wanted = {axis: str(value) for axis, value in cell.items()}
        return [run for run in self.runs if wanted.items() <= run.cell.items()]

    def __getitem__(self, path: str) -> Any:
        """Return the figure of the only cell: the median of its repeats."""
        return self.figure(path)

    def figure(self, path: str, **cell: object) -> Any:
        """Return a figure of one cell: the median of its repeats, as in `expect`.

        Raises:
            KeyError: there is no such figure, or the cell is not unique.
        """
        runs = self.select(**cell)
        if len({tuple(run.cell.items()) for run in runs}) != 1:
            cells = ", ".join(
                " ".join(f"{a}={v}" for a, v in run.cell.items()) for run in self.runs
            )
            raise KeyError(f"name one cell, for example by `figure(path, axis=value)`: {cells}")
        values = [
            run[path] for run in runs if run.verdict in ("valid", "suspect") or len(runs) == 1
        ]
        if all(isinstance(value, (int, float)) for value in values) and len(values) > 1:
            return median(values)
        return values[0] if values else None

    def output(self, node: str, program: str | None = None, stream: str = "out") -> str:
        """Return what a program printed, in the only run; see `Run.output`."""
        if len(self.runs) != 1:
            raise KeyError(f"there are {len(self.runs)} runs; use `result.runs[0].output(...)`")
        return self.runs[0].output(node, program, stream)

    def frame(self, table: str = "nodes") -> polars.DataFrame | pandas.DataFrame:
        """Return a table of all runs, as a polars frame, or a pandas frame without polars.

        Each row starts with the values of the cell's axes, `repeat` and `verdict`.

        Args:
            table: `nodes`: one row per run and node, with its traffic, resources, messages and
                metrics; `summary`: one row per run, with all figures of `summary.json`; or the name
                of a Parquet file of the run folder, such as `messages`, `links` or `metrics`.

        Raises:
            ImportError: neither polars nor pandas (with pyarrow) is installed.
            KeyError: no run has such a table.
        """
        from .frames import frame

        found: polars.DataFrame | pandas.DataFrame = frame(self.runs, table)
        return found

    def problems(self) -> str:
        """Return what failed or is not trusted, with the path of the report."""
        return "\n".join([*self._problems(), f"report: {self.report}"])

    def _problems(self) -> Iterator[str]:
        for run in self.runs:
            if run.verdict in ("failed", "invalid"):
                cell = " ".join(f"{axis}={value}" for axis, value in run.cell.items())
                place = f"{cell} repeat {run.repeat}".strip()
                yield from (f"{run.verdict} ({place}): {reason}" for reason in run.reasons)
        for one in self.expectations:
            if one.status != "pass":
                yield f"expectation: {one.say}: {one.status}: {one.text}"

    def __repr__(self) -> str:
        return f"<Result {self.name}: {len(self.runs)} runs, {self.verdict}, {self.folder}>"

    def _repr_html_(self) -> str:
        from .page import result_html

        return result_html(self)


def read(folder: str | Path) -> Result:
    """Read the results of an earlier run or sweep.

    Raises:
        FileNotFoundError: this is not the folder of a sweep with results.
    """
    path = Path(folder).absolute()
    if not (path / "summary.json").exists():
        raise FileNotFoundError(f"{path} is not the folder of a sweep: it has no summary.json")
    return Result(path)


def _runs(folder: Path) -> list[Run]:
    summary = json.loads((folder / "summary.json").read_text())
    if isinstance(summary, dict):
        return [Run(folder)]
    found = {}
    for path in folder.glob("*/summary.json"):
        run = Run(path.parent)
        found[_key(run.summary)] = run
    return [found[key] for one in summary if (key := _key(one)) in found]


def _key(summary: Mapping[str, Any]) -> str:
    return json.dumps([summary["cell"], summary["repeat"]], sort_keys=True)


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """All figures below a value, with their paths; lists keep their index."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _flat(inner, f"{path}.{index}")
    elif not isinstance(value, Mapping):
        yield path, value
