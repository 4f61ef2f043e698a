"""Threads for calls of the C library that wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Work = SimpleQueue[Callable[[], None] | None]


class Threads(Executor):
    """Up to `most` threads, which end with this object. A program that ends does not wait for them,
    as it does for those of ThreadPoolExecutor: a message can have a lifetime of hours."""

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._work: Work = SimpleQueue()
        # Threads without a call, and all.
        self._idle, self._count = threading.Semaphore(0), 0
        self._lock = threading.Lock()

    def submit(
        self,
        fn: Callable[Parameters, Result],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Future[Result]:
        """Calls a function in a thread, as soon as there is one."""
        future: Future[Result] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._lock:
            self._work.put(call)
            if not self._idle.acquire(blocking=False) and self._count < self._most:
                self._count += 1
                # Without `self`, which would never be collected.
                own = (self._work, self._idle)
                threading.Thread(target=_run, args=own, name=self._name, daemon=True).start()
        return future

    def __del__(self) -> None:
        """Ends the threads, after the calls that wait."""
        for _ in range(self._count):
            self._work.put(None)


def _run(work: Work, idle: threading.Semaphore) -> None:
    while (call := work.get()) is not None:
        call()
        # What it refers to must not stay until the next call.
        del call
        idle.release()
