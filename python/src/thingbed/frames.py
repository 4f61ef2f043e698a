"""Tables of results, with polars or pandas."""

from __future__ import annotations

import importlib.util
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .result import Run

Columns = dict[str, list[Any]]

#: Columns of nodes.parquet: sums over the seconds, and the largest value.
_SUMS = ("tx_frames", "tx_bytes", "rx_frames", "rx_bytes", "cpu_user_ms", "cpu_system_ms")
_LARGEST = ("memory_peak_bytes",)


class Backend(Protocol):
    """What this module needs of a library for tables."""

    def read(self, path: Path) -> Any:
        """Read a Parquet file as a frame."""

    def columns(self, path: Path) -> Columns:
        """Read a Parquet file as lists."""

    def label(self, frame: Any, labels: dict[str, Any]) -> Any:
        """Put columns with one value each in front of a frame."""

    def join(self, frames: list[Any]) -> Any:
        """Put frames one below the other."""

    def make(self, rows: list[dict[str, Any]]) -> Any:
        """Make a frame; keys that a row lacks are null."""


class Polars:
    """Frames of polars."""

    def read(self, path: Path) -> Any:  # noqa: D102
        import polars

        return polars.read_parquet(path)

    def columns(self, path: Path) -> Columns:  # noqa: D102
        columns: Columns = self.read(path).to_dict(as_series=False)
        return columns

    def label(self, frame: Any, labels: dict[str, Any]) -> Any:  # noqa: D102
        import polars

        first = [polars.lit(value).alias(name) for name, value in labels.items()]
        rest = [column for column in frame.columns if column not in labels]
        return frame.select(*first, *rest) if len(frame) else frame.with_columns(first)

    def join(self, frames: list[Any]) -> Any:  # noqa: D102
        import polars

        return polars.concat(frames, how="diagonal_relaxed")

    def make(self, rows: list[dict[str, Any]]) -> Any:  # noqa: D102
        import polars

        names = dict.fromkeys(name for row in rows for name in row)
        data = {name: [row.get(name) for row in rows] for name in names}
        return polars.DataFrame(data, strict=False)


class Pandas:
    """Frames of pandas."""

    def read(self, path: Path) -> Any:  # noqa: D102
        import pandas

        return pandas.read_parquet(path)

    def columns(self, path: Path) -> Columns:  # noqa: D102
        import pyarrow.parquet

        columns: Columns = pyarrow.parquet.read_table(path).to_pydict()
        return columns

    def label(self, frame: Any, labels: dict[str, Any]) -> Any:  # noqa: D102
        rest = [column for column in frame.columns if column not in labels]
        return frame.assign(**labels)[[*labels, *rest]]

    def join(self, frames: list[Any]) -> Any:  # noqa: D102
        import pandas

        return pandas.concat(frames, ignore_index=True)

    def make(self, rows: list[dict[str, Any]]) -> Any:  # noqa: D102
        import pandas

        return pandas.DataFrame(rows)


def backend() -> Backend:
    """Return polars if it is installed, else pandas.

    Raises:
        ImportError: neither is.
    """
    if importlib.util.find_spec("polars"):
        return Polars()
    if importlib.util.find_spec("pandas") and importlib.util.find_spec("pyarrow"):
        return Pandas()
    raise ImportError(
        "frames need polars, or pandas with pyarrow: pip install 'thingbed[polars]' or "
        "'thingbed[pandas]'; without them use `result.runs[0].figures`"
    )


def frame(runs: Sequence[Run], table: str) -> Any:
    """See `Result.frame`."""
    library, first = backend(), labels(runs)
    if table == "summary":
        return library.make([{**first[run], **run.figures} for run in runs])
    if table == "nodes":
        rows = [row for run in runs for row in node_rows(run, first[run], library)]
        return library.make(rows)
    found = [(run, run.folder / f"{table}.parquet") for run in runs]
    frames = [library.label(library.read(path), first[run]) for run, path in found if path.exists()]
    if not frames:
        folder = runs[0].folder if runs else Path()
        known = sorted(path.stem for path in folder.glob("*.parquet"))
        raise KeyError(
            f"no run has a table `{table}`; there are nodes, summary, {', '.join(known)}"
        )
    return library.join(frames)


def labels(runs: Sequence[Run]) -> dict[Run, dict[str, Any]]:
    """Return the first columns of each run's rows: the cell's axes, the repeat and the verdict.

    The values of an axis are numbers if all of them are.
    """
    axes: dict[str, list[str]] = defaultdict(list)
    for run in runs:
        for axis, value in run.cell.items():
            axes[axis].append(value)
    numeric = {
        axis for axis, values in axes.items() if not any(isinstance(number(v), str) for v in values)
    }
    return {
        run: {
            **{a: number(v) if a in numeric else v for a, v in run.cell.items()},
            "repeat": run.repeat,
            "verdict": run.verdict,
        }
        for run in runs
    }


def number(text: str) -> str | int | float:
    """Return the number that a text is, else the text."""
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        # Not texts that only look like numbers, such as `1_0`, `007` and `nan`.
        if str(value) == text and math.isfinite(value):
            return value
    return text


def node_rows(run: Run, first: dict[str, Any], library: Backend) -> list[dict[str, Any]]:
    """Return one row per node: traffic, resources, messages, metrics."""
    rows: dict[str, dict[str, Any]] = {
        node["name"]: {**first, "node": node["name"], "group": node["group"]}
        for node in run.plan["nodes"]
    }
    for figures in (_resources, _messages, _metrics):
        for node, found in figures(run, library).items():
            rows.setdefault(node, {**first, "node": node, "group": node}).update(found)
    return list(rows.values())


def _read(run: Run, table: str, library: Backend) -> Columns:
    path = run.folder / f"{table}.parquet"
    return library.columns(path) if path.exists() else {}


def _resources(run: Run, library: Backend) -> dict[str, dict[str, Any]]:
    columns = _read(run, "nodes", library)
    # With an infinite CPU, programs take no time: the zeros of the table are no measurement.
    measured = run.figures.get("all.cpu_ms") is not None
    sums = [name for name in _SUMS if measured or not name.startswith("cpu_")]
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for row, node in enumerate(columns.get("node", [])):
        for name in sums:
            found[node][name] = found[node].get(name, 0) + (columns[name][row] or 0)
        for name in _LARGEST:
            found[node][name] = max(found[node].get(name, 0), columns[name][row] or 0)
    return found


def _messages(run: Run, library: Backend) -> dict[str, dict[str, Any]]:
    """Messages by sender."""
    columns = _read(run, "messages", library)
    trips: dict[str, list[float]] = defaultdict(list)
    found: dict[str, dict[str, Any]] = defaultdict(lambda: dict.fromkeys(_COUNTS, 0))
    for row, node in enumerate(columns.get("sender", [])):
        for name, column in _COUNTS.items():
            found[node][name] += columns[column][row] is not None
        reply = columns["reply_received_ns"][row]
        if reply is not None:
            trips[node].append((reply - columns["intended_ns"][row]) / 1e6)
    for node, times in trips.items():
        times.sort()
        found[node]["rtd_ms_mean"] = sum(times) / len(times)
        for share in (50, 95, 99):
            # The smallest value that at least this share of the values does not exceed.
            found[node][f"rtd_ms_p{share}"] = times[-(-share * len(times) // 100) - 1]
    return found


_COUNTS = {"sent": "sent_ns", "received": "received_ns", "answered": "reply_received_ns"}


def _metrics(run: Run, library: Backend) -> dict[str, dict[str, Any]]:
    """Means of the metrics that programs printed, as `PROGRAM.METRIC`."""
    columns = _read(run, "metrics", library)
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row, node in enumerate(columns.get("node", [])):
        name = f"{columns['program'][row]}.{columns['metric'][row]}"
        values[node, name].append(columns["value"][row])
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for (node, name), numbers in values.items():
        found[node][name] = sum(numbers) / len(numbers)
    return found
