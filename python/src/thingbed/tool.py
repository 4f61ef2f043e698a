"""The program `thingbed`: where it is, and its processes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from .errors import InputError, ToolError, ToolNotFoundError

_GUARD = Path(__file__).with_name("guard.py")
_PROGRESS = re.compile(r"(\[\d+/\d+\] .*|  .*[\[(]\d+:\d\d(:\d\d)?[\])])$")
#: Seconds until the next signal, for a tool that does not end.
_PATIENCE = (30, 10)


def find() -> str:
    """Return the path of the program `thingbed`.

    It is `THINGBED_BIN`, else a program installed with this package, else the one in `PATH`.

    Raises:
        ToolNotFoundError: there is none.
    """
    chosen = os.environ.get("THINGBED_BIN")
    if chosen:
        path = shutil.which(chosen)
        if path is None:
            raise ToolNotFoundError(f"THINGBED_BIN={chosen}: this is no program")
        return str(Path(path).absolute())
    installed = Path(sysconfig.get_path("scripts")) / "thingbed"
    path = str(installed) if installed.exists() else shutil.which("thingbed")
    if path is None:
        raise ToolNotFoundError(
            "the program `thingbed` is not in PATH\n"
            "  build it with `make build` in a clone of Thingbed, and add target/release to PATH, "
            "or set THINGBED_BIN to its path"
        )
    return str(Path(path).absolute())


def call(arguments: Sequence[str], cwd: Path | None = None, accepted: Sequence[int] = (0,)) -> str:
    """Run a command of the tool to its end, and return its standard output.

    `accepted` are the exit statuses that are no error.

    Raises:
        InputError: the arguments are wrong.
        ToolError: the command failed.
    """
    command = [find(), *arguments]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", cwd=cwd
    )
    if done.returncode not in accepted:
        check(done.returncode, done.stderr, command)
    return done.stdout


def check(status: int, errors: str, command: Sequence[str]) -> None:
    """Raise the error of an exit status, with the tool's words.

    Raises:
        InputError: the status is 2.
        ToolError: the status is any other than 0.
    """
    text = errors.strip().removeprefix("error: ")
    if status == 2:
        raise InputError(text)
    if status < 0:
        name = signal.Signals(-status).name
        raise ToolError(f"thingbed was ended by {name}\n{text}".strip(), status, command)
    if status != 0:
        raise ToolError(text or f"exit status {status}", status, command)


class Process:
    """A running `thingbed run` or `thingbed up`, which ends with this Python process.

    It is in a separate session: only this process gets a Ctrl-C of the terminal, and stops it.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        on_output: Callable[[str], None] | None = None,
        on_error: Callable[[str], None] | None = None,
    ) -> None:
        if not sys.executable:
            raise ToolError("this Python does not know its own program (sys.executable is empty)")
        self.command = [find(), *arguments]
        self.output: list[str] = []
        self.errors: list[str] = []
        guard = [sys.executable, "-I", "-S", str(_GUARD), str(os.getpid())]
        self._process = subprocess.Popen(
            guard + self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._readers = [
            threading.Thread(target=self._read, args=reader, daemon=True)
            for reader in (
                (self._process.stdout, self.output, on_output),
                (self._process.stderr, self.errors, on_error),
            )
        ]
        for thread in self._readers:
            thread.start()

    @staticmethod
    def _read(
        stream: IO[str] | None, lines: list[str], on_line: Callable[[str], None] | None
    ) -> None:
        for line in stream or ():
            lines.append(line.rstrip("\n"))
            if on_line is not None:
                on_line(lines[-1])

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return the exit status; negative for a signal.

        Raises:
            subprocess.TimeoutExpired: it has not ended in `timeout` seconds.
        """
        status = self._process.wait(timeout)
        for thread in self._readers:
            # A program of a node may keep the output open for a moment.
            thread.join(10)
        return status

    def running(self) -> bool:
        """Return whether it still runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Stop it with SIGTERM, and wait until it has removed its nodes."""
        for patience in _PATIENCE:
            self._signal(signal.SIGTERM)
            try:
                self.wait(patience)
                return
            except subprocess.TimeoutExpired:
                continue
        self._signal(signal.SIGKILL)
        self.wait()

    def _signal(self, number: signal.Signals) -> None:
        # `send_signal` does not signal a process that has ended.
        self._process.send_signal(number)

    def errors_text(self) -> str:
        """Return the standard error without lines of progress."""
        return "\n".join(line for line in self.errors if not _PROGRESS.match(line))
