"""Starts the tool so that it ends when the Python process that uses it ends, even by SIGKILL.

    python guard.py PARENT COMMAND...

A second process waits for the end of the parent and of the tool, by pidfds. When the parent ends,
it stops the tool with SIGTERM, so that the tool removes its nodes; later with SIGKILL. This process
becomes the tool itself, so that its process id and exit status are the tool's.

This file runs alone, without site packages; it is no part of the package's interface.
"""

import os
import select
import signal
import sys

#: Milliseconds until the next signal, for a tool that does not end.
PATIENCE = (30_000, 10_000)


def main() -> None:
    """Start the watcher, then become the tool."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    try:
        parent_fd = os.pidfd_open(parent)
    except ProcessLookupError:
        sys.exit(1)
    if os.getppid() != parent:
        sys.exit(1)
    tool_fd = os.pidfd_open(os.getpid())
    # The watcher is not the tool's child: the tool does not expect children that it did not start.
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            watch(parent_fd, tool_fd)
        os._exit(0)
    os.waitpid(child, 0)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        # Python ignores these signals, and programs inherit that.
        signal.signal(number, signal.SIG_DFL)
    os.execv(command[0], command)


def watch(parent_fd: int, tool_fd: int) -> None:
    """Stop the tool when the parent has ended; never returns."""
    # Readers of the tool's output wait until all processes have closed it.
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    poll = select.poll()
    poll.register(parent_fd, select.POLLIN)
    poll.register(tool_fd, select.POLLIN)
    ended = [fd for fd, _ in poll.poll()]
    if tool_fd not in ended:
        poll.unregister(parent_fd)
        for patience in PATIENCE:
            stop(tool_fd, signal.SIGTERM)
            if poll.poll(patience):
                os._exit(0)
        stop(tool_fd, signal.SIGKILL)
    os._exit(0)


def stop(tool_fd: int, number: signal.Signals) -> None:
    """Send a signal, unless the tool has just ended."""
    try:
        signal.pidfd_send_signal(tool_fd, number)
    except ProcessLookupError:
        os._exit(0)


if __name__ == "__main__":
    main()
