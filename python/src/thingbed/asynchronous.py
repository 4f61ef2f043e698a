"""Runs and labs for asyncio. Cancelling a task stops what it waits for."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Literal, TypeVar, Unpack

from .lab import Lab, NodeState, Start, UpOptions
from .link import LabLink, LinkState
from .node import Completed, LabNode, Word, kill
from .part import Time
from .result import Result
from .running import RunOptions, Source, finished, started
from .schema import Impairment

Found = TypeVar("Found")


async def in_thread(work: Callable[[], Found], stop: Callable[[], object] | None = None) -> Found:
    """Do blocking work in a separate thread; when cancelled, call `stop` and await the end.

    A separate thread, because the threads of `asyncio.to_thread` are few, and some runs are long.
    """
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    outcome: list[Found] = []
    errors: list[BaseException] = []

    def body() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            errors.append(error)
        with contextlib.suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=body, daemon=True).start()
    try:
        await done.wait()
    except asyncio.CancelledError:
        if stop is not None:
            await asyncio.shield(in_thread(stop))
        await asyncio.shield(done.wait())
        raise
    if errors:
        raise errors[0]
    return outcome[0]


async def run_async(experiment: Source, **options: Unpack[RunOptions]) -> Result:
    """Like `thingbed.run`, for asyncio. Several runs may go on at once, best in virtual time."""
    with started(experiment, options) as process:
        try:
            status = await in_thread(process.wait, process.stop)
        finally:
            process.stop()
    return finished(process, status, options)


@contextlib.asynccontextmanager
async def up_async(experiment: Source, **options: Unpack[UpOptions]) -> AsyncIterator[AsyncLab]:
    """Like `thingbed.up`, for asyncio; use it with `async with`."""
    start = Start(experiment, options)
    try:
        lab = await in_thread(start.wait, start.stop)
        yield AsyncLab(lab)
    finally:
        # Shielded: a second cancellation must not leave the lab half stopped.
        await asyncio.shield(in_thread(start.stop))


class AsyncLab:
    """A running lab; see `Lab`.

    Attributes:
        sync: the same lab with blocking methods.
    """

    def __init__(self, lab: Lab) -> None:
        self.sync = lab

    @property
    def pid(self) -> int:
        """The process of the lab."""
        return self.sync.pid

    @property
    def folder(self) -> Path:
        """The folder with the logs of its programs."""
        return self.sync.folder

    async def down(self) -> None:
        """Stop the lab, and wait until nothing is left of it."""
        await in_thread(self.sync.down)

    async def command(self, *words: str) -> str:
        """Run any command of `thingbed` on this lab, and return its output."""
        return await in_thread(lambda: self.sync.command(*words))

    def node(self, name: str) -> AsyncNode:
        """Return a node."""
        return AsyncNode(self, self.sync.node(name))

    def link(
        self, node: str, network: str | None = None, way: Literal["up", "down"] | None = None
    ) -> AsyncLink:
        """Return the links of a node, a group or a pattern."""
        return AsyncLink(self, self.sync.link(node, network, way))

    async def nodes(self, *names: str) -> list[NodeState]:
        """Return the nodes with their state."""
        return await in_thread(lambda: self.sync.nodes(*names))

    async def links(self, *nodes: str) -> list[LinkState]:
        """Return the settings of links."""
        return await in_thread(lambda: self.sync.links(*nodes))


class AsyncNode:
    """A node; see `LabNode`. Its other methods are those of `sync`, by `command`."""

    def __init__(self, lab: AsyncLab, node: LabNode) -> None:
        self._lab, self.sync = lab, node
        self.name = node.name

    async def exec(
        self,
        *command: Word,
        input: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        timeout: float | None = None,
        check: bool = True,
    ) -> Completed:
        """Run a program in the node to its end; see `LabNode.exec`.

        Raises:
            TimeoutError: it was killed after `timeout`.
        """
        process = self.sync.popen(
            *command,
            env=env,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )

        def talk() -> tuple[str, str]:
            out, err = process.communicate(input or "")
            return out, err

        async with asyncio.timeout(timeout):
            out, err = await in_thread(talk, lambda: kill(process))
        return self.sync.completed(command, process.returncode, out, err, check)

    async def state(self) -> NodeState:
        """Return its addresses, program and counters."""
        return await in_thread(self.sync.state)

    async def command(self, what: str, *words: str) -> str:
        """Run a command of `thingbed` on this node: `await node.command("restart")`."""
        return await self._lab.command(what, *words, self.name)


class AsyncLink:
    """Links of a node, a group or a pattern; see `LabLink`."""

    def __init__(self, lab: AsyncLab, link: LabLink) -> None:
        self._lab, self.sync = lab, link

    async def set(
        self, impairment: Impairment | None = None, over: Time | None = None, **settings: object
    ) -> None:
        """Change impairments; see `LabLink.set`."""
        await self._lab.command(*self.sync.set_words(impairment, over, settings))

    async def down(self) -> None:
        """Take the links down."""
        await self._lab.command(*self.sync.switch_words("down"))

    async def up(self) -> None:
        """Bring the links up again."""
        await self._lab.command(*self.sync.switch_words("up"))

    async def show(self) -> list[LinkState]:
        """Return the current settings."""
        return await in_thread(self.sync.show)
