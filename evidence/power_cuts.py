#!/usr/bin/env python3
"""Power cuts at random moments of a run: `evidence/power_cuts.py BIN COUNT OUT [SEED]`.

Records the system calls of one run on files with `strace`, in real time. Then makes COUNT folders
that a power cut at a random call could leave, and reads each with `report`. A cut keeps what was
synchronised: the content of a file up to its last `fsync`, and the names in a folder up to the last
`fsync` of that folder. Of the rest it keeps any part: of the names a random number of the next
changes, of a file any length between, with or without zeros in place of its data. `report` must say
that the run is incomplete, or show it; a run with `run.json` must not lack or damage a file of its
list.
Needs root and strace. Prints Markdown; exit status 1 if a folder could not be read.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

EXPERIMENT = """experiment: cut
nodes: {a: {count: 2}, b: {}}
networks: {n: {attach: [a, b], subnet: 10.77.0.0/24}}
workloads:
  - exchange: {name: x, sources: a, sinks: b, protocol: tcp, payload: 50 B, repetitions: 40,
      every: 50 ms}
  - command: {on: b, run: [sh, -c, "while :; do echo text; sleep 0.05; done"], background: true}
"""
CALLS = (
    "openat,creat,write,pwrite64,writev,ftruncate,rename,renameat,renameat2,unlink,unlinkat,mkdir,"
    "mkdirat,rmdir,fsync,fdatasync,syncfs"
)
LINE = re.compile(r"^(?P<pid>\d+) +(?P<call>\w+)\((?P<args>.*)\) += (?P<result>-?\d+)")
START = re.compile(r"^(?P<pid>\d+) +(?P<head>\w+\(.*) <unfinished \.\.\.>$")
END = re.compile(r"^(?P<pid>\d+) +<\.\.\. \w+ resumed>(?P<tail>.*)$")
OF_FD = re.compile(r"^(?:AT_FDCWD|\d+)<(?P<path>[^>]*)>")
TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


@dataclass
class Node:
    """A file: its content now, and what of it is on the disk for sure."""

    content: bytes = b""
    synced: bytes = b""


@dataclass
class Change:
    """A change of the names in a folder: a node, a folder or nothing has the name from then on."""

    name: str
    node: Node | None
    is_folder: bool = False


@dataclass
class Disk:
    """Folders with their changes so far, and how many of these are on the disk for sure."""

    changes: dict[str, list[Change]] = field(default_factory=dict)
    synced: dict[str, int] = field(default_factory=dict)

    def change(self, path: str, node: Node | None, *, is_folder: bool = False) -> None:
        """Gives a name to a file or folder, or removes it."""
        parent, name = path.rsplit("/", 1)
        self.changes.setdefault(parent, []).append(Change(name, node, is_folder))

    def node(self, path: str) -> Node | None:
        """The file with a name."""
        parent, name = path.rsplit("/", 1)
        found = [c.node for c in self.changes.get(parent, []) if c.name == name]
        return found[-1] if found else None


def texts(args: str) -> list[bytes]:
    """The quoted arguments of a call."""
    return [bytes.fromhex(found.replace("\\x", "")) for found in TEXT.findall(args)]


def paths(call: str, args: str, texts: list[bytes]) -> list[str]:
    """The absolute paths of a call with names; strace names the folder of each descriptor."""
    folders = re.findall(r"(?:AT_FDCWD|\d+)<([^>]*)>", TEXT.sub("", args))
    found = []
    for number, text in enumerate(texts):
        folder = decoded(folders[min(number, len(folders) - 1)]) if folders else ""
        path = text.decode(errors="replace")
        found.append(path if path.startswith("/") else f"{folder}/{path}")
    return found


def decoded(path: str) -> str:
    """A path that strace shows in hexadecimal digits."""
    return re.sub(r"\\x([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), path)


def apply(disk: Disk, call: str, args: str, below: str) -> bool:
    """Applies a call; returns whether it changed something below a folder."""
    names = texts(args)
    of_fd = OF_FD.match(args)
    path = decoded(of_fd["path"]) if of_fd else ""
    if call in ("write", "pwrite64", "writev", "ftruncate", "fsync", "fdatasync", "syncfs"):
        if not path.startswith(below):
            return False
        if call in ("fsync", "fdatasync") and path in disk.changes:
            disk.synced[path] = len(disk.changes[path])
            return True
        node = disk.node(path)
        if node is None:
            return False
        if call == "ftruncate":
            length = int(args.rsplit(",", 1)[1])
            node.content = node.content[:length].ljust(length, b"\0")
        elif call == "pwrite64":
            offset = int(args.rsplit(",", 1)[1])
            old = node.content.ljust(offset, b"\0")
            node.content = old[:offset] + names[0] + old[offset + len(names[0]) :]
        elif call in ("write", "writev"):
            # All writers of a run folder append.
            node.content += b"".join(names)
        else:
            node.synced = node.content
        return True
    found = paths(call, args, names)
    if not found or not found[0].startswith(below):
        return False
    if call in ("openat", "creat"):
        if "O_CREAT" not in args:
            return False
        node = disk.node(found[0])
        if node is None:
            disk.change(found[0], Node())
        elif "O_TRUNC" in args:
            node.content = b""
    elif call.startswith("mkdir"):
        disk.changes.setdefault(found[0], [])
        disk.change(found[0], None, is_folder=True)
    elif call.startswith("rename"):
        disk.change(found[1], disk.node(found[0]))
        disk.change(found[0], None)
    else:
        disk.change(found[0], None)
    return True


def calls(trace: Path) -> list[tuple[str, str]]:
    """The successful calls of a trace in the order of their ends."""
    found, open_calls = [], {}
    for text in trace.read_text(errors="replace").splitlines():
        if start := START.match(text):
            open_calls[start["pid"]] = start["head"]
            continue
        if end := END.match(text):
            text = f"{end['pid']} {open_calls.pop(end['pid'], '')}{end['tail']}"
        line = LINE.match(text)
        if line and int(line["result"]) >= 0:
            found.append((line["call"], line["args"]))
    return found


def left(node: Node, rng: random.Random) -> bytes:
    """What a cut leaves of a file."""
    synced, now = node.synced, node.content
    kind = rng.randrange(4)
    if kind == 0 or synced == now:
        return synced
    if kind == 1:
        return now
    length = rng.randint(min(len(synced), len(now)), max(len(synced), len(now)))
    # Blocks that were allocated and not written are zeros.
    kept = now[:length] if kind == 2 else synced[:length].ljust(length, b"\0")
    return kept


def cut(disk: Disk, below: str, to: Path, rng: random.Random) -> None:
    """Writes what a power cut leaves."""
    todo = [(below, to)]
    while todo:
        folder, place = todo.pop()
        place.mkdir()
        changes, synced = disk.changes.get(folder, []), disk.synced.get(folder, 0)
        for_sure = rng.randint(synced, len(changes))
        names: dict[str, Change] = {change.name: change for change in changes[:for_sure]}
        for name, change in names.items():
            if change.is_folder:
                todo.append((f"{folder}/{name}", place / name))
            elif change.node is not None:
                (place / name).write_bytes(left(change.node, rng))


def main() -> None:
    """Runs once, then cuts."""
    tool, count, out = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]).resolve()
    rng = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "cut.yaml").write_text(EXPERIMENT)
    command = ["strace", "-f", "-y", "-xx", "-s", "100000000", "-e", f"trace={CALLS}"]
    command += ["-o", "trace", tool, "run", "cut.yaml", "--capture"]
    # An absolute path: calls without a descriptor of a folder have no other one.
    command += ["--out", str(out / "results")]
    subprocess.run(command, cwd=out, check=False, stdout=subprocess.DEVNULL)
    (sweep,) = (out / "results/cut").iterdir()
    all_calls = calls(out / "trace")
    below = str(sweep)
    disk = Disk({below: []})
    relevant = [number for number, call in enumerate(all_calls) if apply(disk, *call, below)]
    # Half of the cuts are at the end, where the tables and the list of files are written.
    points = rng.choices(relevant, k=count // 2)
    points += rng.choices(relevant[-60:], k=count - count // 2)
    points.sort()
    disk, done, problems = Disk({below: []}), 0, []
    results: Counter[str] = Counter()
    for number, point in enumerate(points):
        for call in all_calls[done : point + 1]:
            apply(disk, *call, below)
        done = max(done, point + 1)
        folder = out / "left"
        shutil.rmtree(folder, ignore_errors=True)
        cut(disk, below, folder, rng)
        result = subprocess.run(
            [tool, "report", str(folder)], capture_output=True, text=True, check=False
        )
        text = result.stdout + result.stderr
        has_list = is_json(folder / "run.json")
        is_damaged = "damaged" in text or "missing" in text.lower() and has_list
        kind = "complete" if has_list else "incomplete"
        results[kind] += 1
        if "panicked" in text or result.returncode < 0 or (has_list and is_damaged):
            problems.append((number, point, kind, result.returncode, text[-2000:]))
            shutil.copytree(folder, out / f"problem-{number}")
    print(f"| {len(all_calls)} calls, {len(relevant)} of them changed the folder | |")
    print("| --- | --- |")
    for kind, times in sorted(results.items()):
        print(f"| cuts with a {kind} run | {times} |")
    print(f"| problems | {len(problems)} |")
    for problem in problems[:10]:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


def is_json(path: Path) -> bool:
    """Whether a file is there and whole."""
    try:
        json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    return True


if __name__ == "__main__":
    main()
