"""kill -9 at random moments of sweeps: `evidence/kill_sweeps.py BIN [COUNT] [CLOCK]`.

COUNT times: a sweep of three short runs is killed after a random time and then resumed; every fifth
one is killed again while it resumes. Then all three cells must have results, and no process and no
network interface may be left; the numbers of mounts are printed. Real time needs root. Exit
status 1 if anything is missing or left.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXPERIMENT = """experiment: kills
nodes: {a: {}, b: {count: 3}}
networks:
  net: {attach: [a, b], subnet: 10.0.0.0/24, links: {b: {up: {delay: 5 ms, loss: 5 %}}}}
models:
  udp: {down: udp/request-response, up: udp/request-response, every: "${every}", drain: 100 ms}
workloads:
  - interaction: {name: poll, source: a, sinks: b, model: udp, payload: payload.bin}
duration: 0.5 s
drain: 0.5 s
matrix: {every: [50 ms, 40 ms, 30 ms]}
"""
CELLS = 3


def of_round(mark: str) -> list[int]:
    """Processes whose environment has the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def host_state() -> tuple[set[str], int]:
    """The network interfaces and the number of mounts of the host."""
    mounts = len(Path("/proc/self/mountinfo").read_text().splitlines())
    return set(os.listdir("/sys/class/net")), mounts


def killed_after(command: list[str], folder: Path, env: dict[str, str], delay: float) -> bool:
    """Runs a command and kills it after a delay, in s; whether it still ran."""
    with open(folder / "log", "ab") as log:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log)
        try:
            process.wait(delay)
            return False
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return True


def main() -> int:
    """Runs all rounds and prints the counts."""
    tool, count = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100
    clock = sys.argv[3] if len(sys.argv) > 3 else "real"
    chance = random.Random(7)
    killed = resumed = cut = whole = 0
    problems: list[str] = []
    net_before, mounts_before = host_state()
    for number in range(count):
        with tempfile.TemporaryDirectory(prefix="kills-") as name:
            folder = Path(name)
            mark = f"THINGBED_KILLS={os.getpid()}-{number}"
            env = dict(os.environ, THINGBED_KILLS=f"{os.getpid()}-{number}")
            (folder / "e.yaml").write_text(EXPERIMENT)
            (folder / "payload.bin").write_bytes(b"x" * 200)
            run = [tool, "run", "e.yaml", "-q", "--clock", clock]
            longest = 6.0
            if not killed_after(run, folder, env, chance.uniform(0.01, longest)):
                continue
            killed += 1
            sweeps = sorted(folder.glob("runs/kills/*"))
            if not sweeps or not (sweeps[0] / "experiment.yaml").exists():
                continue
            resume = [*run, "--resume", str(sweeps[0])]
            if number % 5 == 0:
                killed += killed_after(resume, folder, env, chance.uniform(0.01, longest))
            ended = subprocess.run(
                resume, cwd=folder, env=env, capture_output=True, text=True, timeout=300
            )
            resumed += 1
            if ended.returncode not in (0, 3) or "panicked" in ended.stderr:
                text = ended.stderr[-500:]
                problems.append(f"round {number}: status {ended.returncode}: {text}")
                continue
            results = json.loads((sweeps[0] / "summary.json").read_text())
            runs = {(str(result["cell"]), result["repeat"]) for result in results}
            if len(results) != CELLS or len(runs) != CELLS:
                problems.append(f"round {number}: {len(results)} results of {len(runs)} cells")
            whole += len(results)
            cut += len(list(sweeps[0].glob("cut-short/*")))
            end = time.monotonic() + 10
            while of_round(mark) and time.monotonic() < end:
                time.sleep(0.05)
            if left := of_round(mark):
                problems.append(f"round {number}: processes are left: {left}")
            done = f"{number + 1} of {count}: {killed} kills, {resumed} resumed"
            print(f"{done}, {len(problems)} problems", flush=True)
    net_after, mounts_after = host_state()
    if left_net := net_after - net_before:
        problems.append(f"interfaces are left (of other programs, too): {left_net}")
    print(f"{killed} kills, {resumed} sweeps resumed, {whole} runs with results, {cut} cut short")
    print(f"mounts before and after: {mounts_before}, {mounts_after}")
    print("\n".join(problems) or "nothing is left, nothing is missing")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
