"""An experiment: an object that can be written, checked, run, and started as a lab."""

from __future__ import annotations

import contextlib
import html
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from . import tool, yaml
from .part import Part

if TYPE_CHECKING:
    from .asynchronous import AsyncLab
    from .lab import Lab, UpOptions
    from .result import Result
    from .running import RunOptions


@dataclass(kw_only=True)
class BaseExperiment(Part):
    """What every experiment can do."""

    folder: Path | None = field(default=None, metadata={"in_file": False}, repr=False)
    """The folder to which paths in the experiment are relative. Default: the current one."""

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read an experiment file, after the tool has checked it.

        Raises:
            InputError: the file is wrong; the text has its lines.
        """
        path = Path(path)
        tool.call(["check", str(path)])
        experiment = cls.from_data(yaml.load(path))
        experiment.folder = path.absolute().parent
        return experiment

    def to_yaml(self) -> str:
        """Return the experiment file."""
        return yaml.dump(self.to_data())

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the experiment file. Its paths are then relative to the file's folder."""
        path = Path(path)
        path.write_text(self.to_yaml(), encoding="utf-8")
        return path

    @contextlib.contextmanager
    def file(self) -> Iterator[Path]:
        """Write the experiment to a temporary file in its folder."""
        folder = (self.folder or Path.cwd()).absolute()
        name = str(self.to_data().get("experiment", "experiment"))
        prefix = ".thingbed-" + "".join(c if c.isalnum() or c in "-_" else "_" for c in name[:40])
        handle, path = tempfile.mkstemp(".yaml", prefix + "-", folder, text=True)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write(self.to_yaml())
            yield Path(path)
        finally:
            Path(path).unlink(missing_ok=True)

    def check(self) -> None:
        """Check the experiment without running it.

        Raises:
            InputError: it is wrong; the text has all problems with their lines.
        """
        with self.file() as path:
            tool.call(["check", str(path)])

    def plan(self) -> list[dict[str, Any]]:
        """Return the plans of all cells: nodes, addresses, links and schedules."""
        with self.file() as path:
            plans: list[dict[str, Any]] = json.loads(tool.call(["plan", "--json", str(path)]))
        return plans

    def run(self, **options: Unpack[RunOptions]) -> Result:
        """Run all cells; see `thingbed.run`."""
        from .running import run

        return run(self, **options)

    async def run_async(self, **options: Unpack[RunOptions]) -> Result:
        """Like `run`, for asyncio."""
        from .asynchronous import run_async

        return await run_async(self, **options)

    def up(self, **options: Unpack[UpOptions]) -> Lab:
        """Start a live lab; see `thingbed.up`."""
        from .lab import up

        return up(self, **options)

    def up_async(self, **options: Unpack[UpOptions]) -> AbstractAsyncContextManager[AsyncLab]:
        """Like `up`, for asyncio; use it with `async with`."""
        from .asynchronous import up_async

        return up_async(self, **options)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.to_yaml())}</pre>"


@contextlib.contextmanager
def file_of(experiment: BaseExperiment | str | os.PathLike[str]) -> Iterator[Path]:
    """Return the file of an experiment: the path itself, or a temporary one."""
    if isinstance(experiment, BaseExperiment):
        with experiment.file() as path:
            yield path
    else:
        yield Path(experiment)
