"""Runs of experiments."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from . import tool
from .errors import FailedError, InterruptedRunError, NotTrustedError, ToolError
from .experiment import BaseExperiment, file_of
from .progress import printer
from .result import Result

_REPORT = re.compile(r"report: (.*)/report\.html$")

Source = BaseExperiment | str | os.PathLike[str]
"""An experiment, or the path of an experiment file or capsule."""
Progress = bool | Callable[[str], None] | None
"""Whether to show progress, or what to call with each line. None: on a terminal and in Jupyter."""


class RunOptions(TypedDict, total=False):
    """Options of `run`; `thingbed help run` has the details of those with its names."""

    #: Run only these cells: a value, or a list of values, by axis.
    only: Mapping[str, object]
    #: Repeats per cell.
    repeat: int
    seed: int
    #: Folder for results, by default `runs`.
    out: str | os.PathLike[str]
    #: Resume the sweep in this folder.
    resume: str | os.PathLike[str]
    #: Replay the impairment decisions of the run in this folder.
    replay: str | os.PathLike[str]
    threads: int
    spin: bool
    #: Write all frames to `capture.pcapng`.
    capture: bool
    #: Repeat an invalid run up to this many times.
    retry: int
    clock: Literal["real", "virtual"]
    #: CPU in virtual time: `infinite`, or 10^9 instructions per second; or a list of them.
    cpu: float | str | Sequence[float | str]
    jobs: int
    #: Raise an exception if a run is invalid or failed, or an expectation does not hold (default).
    check: bool
    progress: Progress


def run(experiment: Source, **options: Unpack[RunOptions]) -> Result:
    """Run all cells and repeats of an experiment, and return the results.

    Blocks until the runs have ended. Ctrl-C stops them and keeps the partial results.

    Raises:
        InputError: the experiment or an option is wrong.
        NotTrustedError: a run is invalid; the error has the results.
        FailedError: a program failed, or an expectation does not hold; the error has the results.
        ToolError: a run could not be done.
    """
    with started(experiment, options) as process:
        try:
            status = process.wait()
        finally:
            # Also after KeyboardInterrupt: a run must not continue unattended.
            process.stop()
    return finished(process, status, options)


@contextlib.contextmanager
def started(experiment: Source, options: RunOptions) -> Iterator[tool.Process]:
    """Start the runs. The experiment's file exists within this context."""
    with file_of(experiment) as path, printer(options.get("progress")) as show:
        arguments = ["run", str(path), *words(options)]
        yield tool.Process(arguments + (["--quiet"] if show is None else []), on_error=show)


def words(options: RunOptions) -> list[str]:
    """Return the options of the command line."""
    found = selection(options.get("only"))
    if "resume" not in options:
        found += ["--out", str(Path(options.get("out", "runs")).absolute())]
    for name in ("repeat", "seed", "threads", "retry", "clock", "jobs"):
        if name in options:
            found += [f"--{name}", str(options[name])]
    for name in ("resume", "replay"):
        if name in options:
            found += [f"--{name}", os.fspath(options[name])]  # type: ignore[literal-required]
    if "cpu" in options:
        cpu = options["cpu"]
        several = cpu if isinstance(cpu, Sequence) and not isinstance(cpu, str) else [cpu]
        found += [
            "--cpu",
            ",".join(f"{one:g}" if isinstance(one, float) else str(one) for one in several),
        ]
    found += ["--spin"] if options.get("spin") else []
    found += ["--capture"] if options.get("capture") else []
    return found


def selection(only: Mapping[str, object] | None) -> list[str]:
    """Return the options that select cells."""
    found = []
    for axis, values in (only or {}).items():
        several = values if isinstance(values, (list, tuple)) else [values]
        found += ["--only", f"{_word(axis)}={'|'.join(_value(one) for one in several)}"]
    return found


def _value(value: object) -> str:
    return _word(str(value).lower() if isinstance(value, bool) else str(value))


def _word(text: str) -> str:
    """Return the text as a word of `--only`, in double quotes if needed (docs: matrix)."""
    if text and text == text.strip() and not text.startswith('"') and not set(text) & set("|,="):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def finished(process: tool.Process, status: int, options: RunOptions) -> Result:
    """Read the results of runs that have ended.

    Raises:
        Exception: see `run`.
    """
    errors = process.errors_text()
    folder = _folder(process.output, options)
    if status == 130:
        where = f"; partial results are in {folder}" if folder else ""
        raise InterruptedRunError(f"the run was interrupted{where}", folder)
    if status in (0, 3, 4) and folder is not None:
        result = Result(folder, text="\n".join(process.output))
        if options.get("check", True):
            judge(result, status)
        return result
    tool.check(status, errors, process.command)
    raise ToolError(f"thingbed printed no results\n{errors}", status, process.command)


def judge(result: Result, status: int) -> None:
    """Raise the error of a run's exit status.

    Raises:
        NotTrustedError: the status is 3.
        FailedError: the status is 4.
    """
    if status == 3:
        raise NotTrustedError(result.problems(), result)
    if status == 4:
        raise FailedError(result.problems(), result)


def folder_of(output: Sequence[str]) -> Path | None:
    """Return the folder of the results that the tool has printed."""
    found = [match[1] for line in output if (match := _REPORT.match(line))]
    return Path(found[-1]) if found else None


def _folder(output: Sequence[str], options: Mapping[str, Any]) -> Path | None:
    folder = folder_of(output)
    if folder is not None:
        return folder
    return Path(options["resume"]).absolute() if "resume" in options else None
