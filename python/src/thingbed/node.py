"""Nodes of a running lab."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import tool
from .errors import ProgramError, ToolError
from .part import plain

if TYPE_CHECKING:
    from .lab import Lab, NodeState

#: What the tool itself says if it cannot start a program.
_NOT_STARTED = re.compile(
    r"error: (could not run |no node and no group |no lab |could not reach the lab |could not "
    r"prepare the boundary |could not enter |the node `|all \d+ nodes |`.*` matches \d+ nodes)"
)

Word = str | int | float | os.PathLike[str]


@dataclass(frozen=True)
class Completed:
    """A program that has ended.

    Attributes:
        status: its exit status; 128 plus the signal if one ended it.
        stdout, stderr: its output.
    """

    status: int
    stdout: str
    stderr: str


class LabNode:
    """A node; for commands that take several nodes, also a group or a pattern."""

    def __init__(self, lab: Lab, name: str) -> None:
        self._lab, self.name = lab, name

    def exec(
        self,
        *command: Word,
        input: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        timeout: float | None = None,
        check: bool = True,
    ) -> Completed:
        """Run a program in the node to its end, and return its output.

        Args:
            command: the program and its arguments; no shell.
            input: its standard input; empty by default.
            env: variables to add.
            cwd: its working folder in the node, by default the current one.
            timeout: seconds after which it is killed.
            check: whether an exit status other than 0 is an exception.

        Raises:
            ProgramError: its exit status is not 0.
            ToolError: it could not be started.
            subprocess.TimeoutExpired: it was killed after `timeout`.
        """
        process = self.popen(
            *command,
            env=env,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        try:
            out, err = process.communicate(input or "", timeout)
        except BaseException:
            # The program itself is in the same process group as the command that started it.
            kill(process)
            process.communicate()
            raise
        return self.completed(command, process.returncode, out, err, check)

    def popen(
        self,
        *command: Word,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> subprocess.Popen[Any]:
        """Start a program in the node, and return it as a `subprocess.Popen`.

        It ends with the lab at the latest. `options` are those of `Popen`; the standard input is
        empty by default.
        """
        words = ["exec"]
        for name, value in (env or {}).items():
            words += ["--env", f"{name}={value}"]
        words += ["--workdir", os.fspath(cwd)] if cwd is not None else []
        options = {"stdin": subprocess.DEVNULL, "start_new_session": True, **options}
        words = self._lab.words(*words, self.name, "--", *(_word(one) for one in command))
        return subprocess.Popen([tool.find(), *words], **options)

    def completed(
        self, command: tuple[Word, ...], status: int, out: str, err: str, check: bool
    ) -> Completed:
        """Return the end of a program, or raise its error.

        Raises:
            Exception: see `exec`.
        """
        if status == 1 and _NOT_STARTED.match(err):
            raise ToolError(err.strip().removeprefix("error: "))
        status = status if status >= 0 else 128 - status
        if check and status != 0:
            raise ProgramError(self.name, [_word(one) for one in command], status, out, err)
        return Completed(status, out, err)

    def state(self) -> NodeState:
        """Return its addresses, program and counters."""
        return self._lab.nodes(self.name)[0]

    def logs(self, tail: int | None = None) -> str:
        """Return what its program printed; the last lines only with `tail`."""
        return self._lab.command("logs", *(["--tail", str(tail)] if tail else []), self.name)

    def start(self) -> None:
        """Start its own program."""
        self._lab.command("start", self.name)

    def stop(self) -> None:
        """Stop its own program with SIGTERM."""
        self._lab.command("stop", self.name)

    def restart(self) -> None:
        """Restart its own program: SIGTERM, then start."""
        self._lab.command("restart", self.name)

    def kill(self) -> None:
        """Kill all its programs with SIGKILL."""
        self._lab.command("kill", self.name)

    def pause(self) -> None:
        """Pause all its programs with SIGSTOP."""
        self._lab.command("pause", self.name)

    def resume(self) -> None:
        """Resume its paused programs."""
        self._lab.command("resume", self.name)

    def destroy(self) -> None:
        """Remove the node and all programs in it."""
        self._lab.command("destroy", self.name)

    def clone(self, count: int = 1) -> list[LabNode]:
        """Add copies of the node, and return them."""
        out = self._lab.command("clone", "--count", str(count), self.name)
        return [LabNode(self._lab, line.split()[0]) for line in out.splitlines() if line.strip()]

    def set(self, **settings: object) -> None:
        """Change limits: `set(cpus=0.5, memory="64 MiB")`; also `hostname` and `mtu`.

        Raises:
            InputError: a setting is wrong; nothing has changed.
        """
        pairs = [f"{key}={plain(value)}" for key, value in settings.items()]
        self._lab.command("set", self.name, *pairs)

    def put(self, source: str | os.PathLike[str], target: str) -> None:
        """Copy a file into the node."""
        self._lab.command("cp", os.fspath(source), f"{self.name}:{target}")

    def get(self, source: str, target: str | os.PathLike[str]) -> None:
        """Copy a file out of the node."""
        self._lab.command("cp", f"{self.name}:{source}", os.fspath(target))

    def __repr__(self) -> str:
        return f"<LabNode {self.name} of {self._lab.name}>"


def kill(process: subprocess.Popen[Any]) -> None:
    """Kill a program of a node, and the command that started it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()


def _word(word: Word) -> str:
    return os.fspath(word) if isinstance(word, os.PathLike) else str(word)
