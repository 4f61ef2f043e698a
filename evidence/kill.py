#!/usr/bin/env python3
"""kill -9 at random moments of labs: `evidence/kill.py BIN COUNT OUT [SEED]`.

COUNT times, in turn: the tool is killed while `up` sets up a lab, while `clone` adds nodes, while
`capture` reads frames; and the clients of `clone` and of `capture` are killed, after which the lab
must still answer. Then `gc` must leave nothing that was not there before: no process, interface,
network namespace, mount, control group, ledger page. A process, an interface and a file of someone
else must be as they were. All happens in separate namespaces with a separate ledger, so that
other labs on the machine are not touched. Needs root. Prints Markdown; exit status 1 if anything
was left or touched.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

LAB = """experiment: kill
nodes: {a: {count: 2}, b: {}}
networks: {n: {attach: [a, b], subnet: 10.77.0.0/24}}
"""
KINDS = ("up", "clone", "capture", "client of clone", "client of capture")
# A lab is up after a fifth of a second on a quiet machine, a clone after a tenth.
UP_S, CHANGE_S = 1.0, 0.5
PATIENCE_S = 30.0
LEDGER = Path("/run/thingbed")
INSIDE = "THINGBED_KILL_INSIDE"


class Left(Exception):
    """Something was left, touched, or does not answer."""


def enter() -> None:
    """Starts this script again in its own namespaces of processes, mounts and interfaces."""
    command = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc"]
    os.environ[INSIDE] = "1"
    os.execvp(command[0], [*command, sys.executable, *sys.argv])


def lines(path: str) -> set[str]:
    """The lines of a file."""
    return set(Path(path).read_text().splitlines())


def processes() -> set[str]:
    """Other processes of this namespace, by number and name, without ones that have ended."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)
        except OSError:
            continue
        if fields[1].split()[0] not in "ZX" and int(folder.name) != os.getpid():
            found.add(fields[0])
    return found


# The tools' numbers in this namespace of processes, which are in the names of their control groups.
PIDS: set[int] = set()


def groups() -> set[str]:
    """Control groups of the tools that were started here."""
    found = set()
    # Groups of others come and go meanwhile: `walk` ignores folders that are gone.
    folders = [(Path(top), name) for top, names, _ in os.walk("/sys/fs/cgroup") for name in names]
    for path in (top / name for top, name in folders if name.startswith("thingbed-")):
        number = path.name.split("-")[1]
        if not number.isdigit() or int(number) not in PIDS:
            continue
        try:
            inside = (path / "cgroup.procs").read_text().split()
        except OSError:
            continue
        # A process of another namespace is 0 here: its lab has the same number by chance.
        if "0" not in inside:
            found.add(str(path))
    return found


def state() -> dict[str, set[str]]:
    """All that a lab makes, as it is now."""
    ledger = {path.name for path in LEDGER.iterdir()} if LEDGER.is_dir() else set()
    links = {line.split(":")[0].strip() for line in lines("/proc/net/dev") if ":" in line}
    return {
        "process": processes(),
        "mount": lines("/proc/self/mounts"),
        "interface": links,
        "ledger page": ledger,
        "control group": groups(),
    }


def is_within(known: dict[str, set[str]]) -> bool:
    """Whether there is nothing now that is not known."""
    return all(now <= known[what] for what, now in state().items())


def eventually(what: str, holds: Callable[[], bool]) -> None:
    """Waits for a condition."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            raise Left(f"{what}: not after {PATIENCE_S:.0f} s")
        time.sleep(0.05)


class Trial:
    """One lab and the end of it."""

    def __init__(self, program: str, folder: Path, chance: random.Random) -> None:
        self.program, self.folder, self.chance = program, folder, chance
        self.log = (folder / "log").open("a")
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts the tool with these arguments, in a separate group."""
        child = subprocess.Popen(
            [self.program, *arguments],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
        )
        self.started.append(child)
        if arguments[0] == "up":
            PIDS.add(child.pid)
        return child

    def tell(self, *arguments: str) -> bool:
        """Whether the tool's command with these arguments succeeds."""
        return self.start(*arguments).wait(PATIENCE_S) == 0

    def kill(self, child: subprocess.Popen[bytes], within_s: float) -> None:
        """Kills only this process, at a random moment."""
        time.sleep(self.chance.uniform(0, within_s))
        child.send_signal(signal.SIGKILL)
        child.wait()

    def run(self, kind: str) -> None:
        """Starts a lab, and kills what `kind` says."""
        lab = self.start("up", "lab.yaml", "--out", "runs")
        if kind == "up":
            self.kill(lab, UP_S)
            return
        eventually("the lab is up", lambda: self.tell("ps"))
        match kind.split()[-1]:
            case "clone":
                client = self.start("clone", "b", "--count", "3")
            case _:
                client = self.start("capture", "a-1", "--write", f"{time.monotonic_ns()}.pcapng")
        if kind.startswith("client"):
            self.kill(client, CHANGE_S)
            eventually("the lab answers", lambda: self.tell("ps"))
            self.kill(lab, 0.1)
        else:
            self.kill(lab, CHANGE_S)

    def end(self) -> None:
        """Ends what was started here; clients of a lab that is gone end by themselves."""
        for child in self.started:
            child.wait(PATIENCE_S)
        self.log.close()


def bystander(folder: Path) -> Callable[[], None]:
    """Things of someone else; the result checks them."""
    other = subprocess.Popen(["sleep", "infinity"])
    file = folder / "others"
    file.write_text("as it was")
    subprocess.run(["ip", "tuntap", "add", "others", "mode", "tap"], check=True)

    def check() -> None:
        links = lines("/proc/net/dev")
        if other.poll() is not None or file.read_text() != "as it was":
            raise Left("a process or a file of someone else was touched")
        if not any(line.strip().startswith("others:") for line in links):
            raise Left("an interface of someone else was touched")

    return check


def main() -> int:
    """Kills and counts."""
    if len(sys.argv) < 4:
        print(__doc__)
        return 2
    if INSIDE not in os.environ:
        enter()
    os.environ["TMPDIR"] = "/tmp"
    program, count = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    folder = Path(sys.argv[3]).resolve()
    chance = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lab.yaml").write_text(LAB)
    LEDGER.mkdir(mode=0o700, exist_ok=True)
    # `gc` looks for folders of guests in these, too.
    for place in (str(LEDGER), "/tmp", "/dev/shm"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700", "none", place], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    untouched = bystander(folder)
    done: Counter[str] = Counter()
    wrong: list[str] = []
    before = state()
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        trial = Trial(program, folder, chance)
        try:
            trial.run(kind)
            trial.end()
            sweep = Trial(program, folder, chance)
            if not sweep.tell("gc"):
                raise Left("gc failed")
            sweep.end()

            eventually("nothing is left", partial(is_within, before))
            untouched()
        except (Left, subprocess.TimeoutExpired) as error:
            now = state()
            left = {what: sorted(now[what] - before[what])[:5] for what in now}
            wrong.append(f"{number} ({kind}): {error}; {left}")
            before = {what: before[what] | now[what] for what in now}
        done[kind] += 1
    print("| killed during | times |\n| --- | --- |")
    for kind in KINDS:
        print(f"| {kind} | {done[kind]} |")
    print(f"\n{len(wrong)} of {count} left or touched something.")
    for line in wrong:
        print(f"- {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
