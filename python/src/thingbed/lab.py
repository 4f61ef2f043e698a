"""Live labs: nodes and networks that run until you stop them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, Unpack

from . import tool
from .errors import ToolError
from .experiment import file_of
from .link import LabLink, LinkState, link_states
from .node import LabNode
from .running import Source, selection

_UP = re.compile(r".*: \d+ nodes? up in .* s, logs in (.*)$")


class UpOptions(TypedDict, total=False):
    """Options of `up`."""

    #: The cell of the matrix, by default the first.
    only: Mapping[str, object]
    #: Folder for the logs of the programs, by default `runs`.
    out: str | os.PathLike[str]
    threads: int
    spin: bool


@dataclass(frozen=True)
class NodeState:
    """A node of a lab, as `thingbed ps` shows it.

    Attributes:
        pid: the process of its init, in the host's numbering.
        addresses: its IPv4 addresses, in the order of its interfaces.
        program, state: its own program, and `running`, `waiting`, `paused` or how it ended; None
            without one.
        sent_frames, sent_bytes: what the network received from it.
        received_frames, received_bytes: what the network delivered to it.
    """

    name: str
    group: str
    pid: int
    addresses: tuple[str, ...]
    program: str | None
    state: str | None
    sent_frames: int
    sent_bytes: int
    received_frames: int
    received_bytes: int


class Lab:
    """A running lab. Use it with `with`; the lab ends with the context, however that ends.

    Attributes:
        pid: the process of the lab.
        folder: the folder with the logs of its programs.
        name: the name of the experiment.
        answers: whether it answered when `labs` listed it; a lab that is busy or hangs may not.
    """

    answers: bool = True

    def __init__(
        self, pid: int, folder: Path, name: str, process: tool.Process | None = None
    ) -> None:
        self.pid, self.folder, self.name = pid, folder, name
        self._process = process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    def down(self) -> None:
        """Stop the lab, and wait until nothing is left of it."""
        if self._process is not None:
            self._process.stop()
        else:
            with contextlib.suppress(ToolError):
                self.command("down")

    @property
    def running(self) -> bool:
        """Whether the lab is up."""
        if self._process is not None:
            return self._process.running()
        return any(lab.pid == self.pid for lab in labs())

    @property
    def messages(self) -> list[str]:
        """What the lab has reported so far, such as programs that ended; empty if attached."""
        return list(self._process.errors) if self._process is not None else []

    def command(self, *words: str) -> str:
        """Run any command of `thingbed` on this lab, and return its output.

        Example: `lab.command("top", "--once")`.

        Raises:
            InputError: the arguments are wrong.
            ToolError: the command failed.
        """
        return tool.call(self.words(*words))

    def words(self, *words: str) -> list[str]:
        """Return a command with the option that selects this lab."""
        size = 2 if words[0] == "link" else 1
        return [*words[:size], "--lab", str(self.pid), *words[size:]]

    def node(self, name: str) -> LabNode:
        """Return a node, to run programs in it and to control it.

        Commands that take several nodes accept a group or a pattern as `name`, too.
        """
        return LabNode(self, name)

    def link(
        self, node: str, network: str | None = None, way: Literal["up", "down"] | None = None
    ) -> LabLink:
        """Return the links of a node, a group or a pattern, to show and change them.

        Args:
            node: the node, group or pattern.
            network: only the links to this network.
            way: only this direction: `up` (from the node) or `down` (to the node).
        """
        return LabLink(self, node, network, way)

    def nodes(self, *names: str) -> list[NodeState]:
        """Return the nodes with their state; all without names."""
        return [_state(one) for one in json.loads(self.command("ps", "--json", *names))]

    def links(self, *nodes: str) -> list[LinkState]:
        """Return the settings of links; of all nodes without names."""
        return link_states(self.command("link", "show", "--json", *nodes))

    def capture(self, path: str | os.PathLike[str], *nodes: str, filter: str = "") -> Capture:
        """Write the frames of nodes to a pcapng file until the context ends; of all without names.

        Args:
            path: the file to write.
            nodes: nodes, groups or patterns.
            filter: a capture filter, as of tcpdump.
        """
        words = self.words("capture", "--write", os.fspath(path), *nodes)
        return Capture(words + (["--filter", filter] if filter else []))

    def __repr__(self) -> str:
        return f"<Lab {self.name}: process {self.pid}, {self.folder}>"

    def _repr_html_(self) -> str:
        from .page import nodes_html

        return nodes_html(self.name, self.nodes())


class Capture:
    """A capture in progress; the file is complete after the context."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._process: tool.Process | None = None

    def __enter__(self) -> Self:
        started = threading.Event()
        self._process = tool.Process(self._words, on_error=lambda line: started.set())
        while not started.wait(0.02):
            if not self._process.running():
                break
        if not self._process.running():
            status = self._process.wait()
            tool.check(status, self._process.errors_text(), self._process.command)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.stop()


def up(experiment: Source, **options: Unpack[UpOptions]) -> Lab:
    """Start a lab: the nodes, networks and programs of an experiment, without its workloads.

    Returns when all nodes are ready. The lab ends with the `with` block, with `Lab.down`, or with
    this Python process, whichever comes first.

    Raises:
        InputError: the experiment or an option is wrong.
        ToolError: the lab could not come up.
    """
    start = Start(experiment, options)
    try:
        return start.wait()
    except BaseException:
        start.stop()
        raise


class Start:
    """A lab that comes up."""

    def __init__(self, experiment: Source, options: UpOptions) -> None:
        self._done = threading.Event()
        self._folder: Path | None = None
        self._file = contextlib.ExitStack()
        path = self._file.enter_context(file_of(experiment))
        out = Path(options.get("out", "runs")).absolute()
        words = ["up", str(path), "--out", str(out), *selection(options.get("only"))]
        words += ["--threads", str(options["threads"])] if "threads" in options else []
        words += ["--spin"] if options.get("spin") else []
        try:
            self.process = tool.Process(words, on_output=self._line)
        except BaseException:
            self._file.close()
            raise

    def _line(self, line: str) -> None:
        match = _UP.match(line)
        if match:
            self._folder = Path(match[1])
            self._done.set()

    def wait(self) -> Lab:
        """Wait until the lab is up.

        Raises:
            Exception: see `up`.
        """
        while not self._done.wait(0.02) and self.process.running():
            pass
        self._file.close()
        if not self.process.running():
            status = self.process.wait()
            tool.check(status, self.process.errors_text(), self.process.command)
            raise ToolError("the lab ended while it came up", status, self.process.command)
        assert self._folder is not None
        return Lab(self.process.pid, self._folder, self._folder.parent.name, self.process)

    def stop(self) -> None:
        """Give up."""
        self.process.stop()
        self._file.close()


def labs() -> list[Lab]:
    """Return the labs that run on this machine; the context manager of such a lab stops it.

    A lab that has not answered within two seconds has `answers` False, an empty name and an empty
    folder.
    """
    found = json.loads(tool.call(["labs", "--json"]))
    return [_listed(one) for one in found]


def _listed(data: Mapping[str, Any]) -> Lab:
    lab = Lab(data["pid"], Path(data.get("folder", "")), data.get("experiment", ""))
    lab.answers = data["answers"]
    return lab


def _state(data: Mapping[str, Any]) -> NodeState:
    program, state = data["program"] or (None, None)
    addresses: Sequence[Sequence[str]] = data["interfaces"]
    return NodeState(
        name=data["name"],
        group=data["group"],
        pid=data["pid"],
        addresses=tuple(address for _, _, address in addresses),
        program=program,
        state=state,
        sent_frames=data["sent"][0],
        sent_bytes=data["sent"][1],
        received_frames=data["received"][0],
        received_bytes=data["received"][1],
    )
