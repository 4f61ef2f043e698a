"""Shows the progress of a run, on a terminal or in Jupyter."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def printer(
    progress: bool | Callable[[str], None] | None,
) -> Iterator[Callable[[str], None] | None]:
    """Return what to call with each line of progress; None for none."""
    if callable(progress):
        yield progress
        return
    display = _jupyter()
    if display is not None and progress is not False:
        handle = display({"text/plain": "starting"}, raw=True, display_id=True)
        yield lambda line: handle.update({"text/plain": line.strip()}, raw=True)
        handle.update({"text/plain": ""}, raw=True)
    elif progress or (progress is None and sys.stderr.isatty()):
        last = _Line()
        yield last.show
        last.clear()
    else:
        yield None


class _Line:
    """One line of a terminal that is overwritten; plain lines elsewhere."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()

    def show(self, line: str) -> None:
        if self._terminal:
            text = line.strip()[: shutil.get_terminal_size().columns - 1]
            sys.stderr.write(f"\r\x1b[K{text}")
        else:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def clear(self) -> None:
        if self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _jupyter() -> Callable[..., Any] | None:
    """Return IPython's `display` in a notebook."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython
    from IPython.display import display

    shell = get_ipython()
    return display if shell is not None and hasattr(shell, "kernel") else None
