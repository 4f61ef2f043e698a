"""HTML of results and labs, for Jupyter."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .lab import NodeState
    from .result import Result, Run

_COLOURS = {"valid": "#1a7f37", "suspect": "#9a6700", "failed": "#cf222e", "invalid": "#cf222e"}
#: Figures of the table: title, path. A column without any value is left out.
_FIGURES = (
    ("sent", "messages.sent"),
    ("received", "messages.received"),
    ("unanswered %", "messages.unanswered_pct"),
    ("round trip ms", "messages.rtd_ms.mean"),
    ("p99 ms", "messages.rtd_ms.p99"),
    ("frames lost %", "links.loss_measured_pct"),
    ("bytes sent", "all.tx_bytes"),
    ("CPU ms", "all.cpu_ms"),
)


def result_html(result: Result) -> str:
    """Return the verdict, a row per run, and the expectations."""
    axes = list(result.runs[0].cell) if result.runs else []
    metrics = dict.fromkeys(
        name.removesuffix(".mean")
        for run in result.runs
        for name in run.figures
        if name.startswith("programs.") and name.endswith(".mean")
    )
    columns = [*_FIGURES, *((name.removeprefix("programs."), f"{name}.mean") for name in metrics)]
    if not any(run.figures.get("messages.sent") for run in result.runs):
        columns = [column for column in columns if not column[1].startswith("messages.")]
    columns = [
        (title, path) for title, path in columns if any(_has(run, path) for run in result.runs)
    ]
    rows = [
        [*run.cell.values(), str(run.repeat), _verdict(run.verdict)]
        + [_number(run.figures.get(path)) for _, path in columns]
        for run in result.runs
    ]
    head = [*axes, "repeat", "verdict", *(title for title, _ in columns)]
    reasons = (html.escape(reason) for run in result.runs for reason in dict.fromkeys(run.reasons))
    expected = (
        f"{html.escape(one.say)}: <b>{html.escape(one.status)}</b> ({html.escape(one.text)})"
        for one in result.expectations
    )
    return (
        f"<p><b>{html.escape(result.name)}</b>: {_verdict(result.verdict)}, "
        f"{len(result.runs)} runs</p>{table(head, rows, raw=(len(axes) + 1,))}"
        f"{_list(reasons)}{_list(expected)}"
        f"<p>report: <code>{html.escape(str(result.report))}</code></p>"
    )


def nodes_html(name: str, nodes: Iterable[NodeState]) -> str:
    """Return a table of a lab's nodes."""
    rows = [
        [node.name, " ".join(node.addresses), node.state or "", node.program or ""]
        for node in nodes
    ]
    return f"<p><b>{html.escape(name)}</b></p>" + table(
        ["node", "addresses", "state", "program"], rows
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]], raw: Sequence[int] = ()) -> str:
    """Return a table; the columns `raw` are HTML already."""
    cells = (
        "".join(
            f"<td>{cell if n in raw else html.escape(str(cell))}</td>" for n, cell in enumerate(row)
        )
        for row in rows
    )
    return (
        "<table><thead><tr>"
        + "".join(f"<th>{html.escape(title)}</th>" for title in head)
        + "</tr></thead><tbody>"
        + "".join(f"<tr>{row}</tr>" for row in cells)
        + "</tbody></table>"
    )


def _list(items: Iterable[str]) -> str:
    text = "".join(f"<li>{item}</li>" for item in items)
    return f"<ul>{text}</ul>" if text else ""


def _verdict(verdict: str) -> str:
    colour = _COLOURS.get(verdict, "inherit")
    return f'<span style="color: {colour}">{html.escape(verdict)}</span>'


def _has(run: Run, path: str) -> bool:
    return run.figures.get(path) is not None


def _number(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
