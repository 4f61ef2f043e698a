"""Exceptions. Their text is the tool's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .result import Result

__all__ = [
    "FailedError",
    "InputError",
    "InterruptedRunError",
    "NotTrustedError",
    "ProgramError",
    "RunError",
    "ThingbedError",
    "ToolError",
    "ToolNotFoundError",
]


class ThingbedError(Exception):
    """The base of all errors of this package."""


class ToolNotFoundError(ThingbedError):
    """The program `thingbed` is not installed."""


class InputError(ThingbedError):
    """Wrong arguments or experiment file (exit status 2)."""


class ToolError(ThingbedError):
    """A runtime error of the tool (exit status 1, or the signal that ended it).

    Attributes:
        status: the exit status; negative for a signal.
        command: the program and its arguments.
    """

    def __init__(self, text: str, status: int = 1, command: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.status = status
        self.command = list(command)


class InterruptedRunError(ThingbedError):
    """Someone else interrupted the run (exit status 130), such as `thingbed down`.

    Attributes:
        folder: the folder with the partial results, if there are any.
    """

    def __init__(self, text: str, folder: Path | None = None) -> None:
        super().__init__(text)
        self.folder = folder


class RunError(ThingbedError):
    """The runs ended and have results, but not the expected ones.

    Attributes:
        result: the results.
    """

    def __init__(self, text: str, result: Result) -> None:
        super().__init__(text)
        self.result = result


class NotTrustedError(RunError):
    """A run is invalid: the machine did not keep up (exit status 3). Do not use the figures."""


class FailedError(RunError):
    """A program failed, or an expectation does not hold (exit status 4)."""


class ProgramError(ThingbedError):
    """A program in a node ended with an exit status other than 0.

    Attributes:
        node: the node.
        command: the program and its arguments.
        status: the exit status; 128 plus the signal if one ended it.
        stdout, stderr: its output.
    """

    def __init__(
        self, node: str, command: Sequence[str], status: int, stdout: str, stderr: str
    ) -> None:
        last = "\n".join((stderr or stdout).strip().splitlines()[-10:])
        super().__init__(
            f"{' '.join(command)} in {node} ended with status {status}"
            + (f":\n{last}" if last else "")
        )
        self.node, self.command, self.status = node, list(command), status
        self.stdout, self.stderr = stdout, stderr
