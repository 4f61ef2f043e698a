#!/usr/bin/env python3
"""Third-party programs over impaired links.

ping over delays, iperf3 over a rate, TCP under loss compared with the formulas of
Mathis and of Padhye, and a multicast stream. Prints Markdown for
docs/results/medium.md. Needs iperf3 and ping, and the built tool.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MSS = 1448
"""Payload of a TCP segment in bytes, at an MTU of 1500 B with timestamps."""


def experiment(links: str, near: list[str], far: list[str] | None, seconds: int) -> str:
    """The experiment file of one measurement between two nodes."""
    background = ""
    if far is not None:
        background = f"  - command: {{on: far, run: {json.dumps(far)}, background: true}}\n"
    return (
        "experiment: programs\nnodes: {near: {}, far: {}}\nnetworks:\n"
        "  field:\n    attach: [near, far]\n    subnet: 10.0.0.0/24\n"
        f"    links: {links}\nworkloads:\n{background}"
        f"  - command: {{on: near, run: {json.dumps(near)}}}\nduration: {seconds} s\n"
    )


class Bed:
    """Runs experiments in a temporary folder."""

    def __init__(self, tool: Path) -> None:
        self.tool = tool
        self.folder = Path(tempfile.mkdtemp(prefix="programs-"))
        self.count = 0

    def run(self, text: str, node: str, workload: int) -> tuple[str, dict[str, object]]:
        """The standard output of a node's workload, and the run's summary."""
        self.count += 1
        file = self.folder / f"{self.count}.yaml"
        file.write_text(text)
        out = self.folder / f"runs-{self.count}"
        command = [str(self.tool), "run", str(file), "-q", "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):
            sys.exit(
                f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        run = next((out / "programs").iterdir())
        output = (run / "programs" / f"{node}.{workload}.out").read_text()
        summary: dict[str, object] = json.loads((run / "summary.json").read_text())
        return output, summary


def verdict(summary: dict[str, object]) -> str:
    """The run's verdict."""
    found = summary["verdict"]
    assert isinstance(found, dict)
    return str(found["status"])


def mathis(rtt_s: float, loss: float) -> float:
    """bit/s; Mathis, Semke, Mahdavi, Ott, CCR 27(3), 1997, every segment acknowledged."""
    return MSS * 8 / rtt_s * math.sqrt(1.5 / loss)


def pftk(rtt_s: float, loss: float, acked: int = 2, timeout_s: float = 0.24) -> float:
    """bit/s; Padhye, Firoiu, Towsley, Kurose, SIGCOMM 1998, equation 30.

    `acked` segments per acknowledgement; `timeout_s` is Linux's minimum of 200 ms plus
    the round trip.
    """
    wait = min(1.0, 3 * math.sqrt(3 * acked * loss / 8)) * loss * (1 + 32 * loss**2)
    return MSS * 8 / (rtt_s * math.sqrt(2 * acked * loss / 3) + timeout_s * wait)


def pings(bed: Bed) -> None:
    """Round trips measured by ping."""
    print("\n### ping\n")
    print("| configured up and down, ms | minimum, ms | mean | maximum | deviation | verdict |")
    print("| --- | --- | --- | --- | --- | --- |")
    for delay in (0, 1, 10, 100):
        links = f"{{near: {{up: {{delay: {delay} ms}}, down: {{delay: {delay} ms}}}}}}"
        ping = ["ping", "-n", "-q", "-c", "200", "-i", "0.02", "far"]
        output, summary = bed.run(experiment(links, ping, None, 1), "near", 0)
        found = re.search(r"= ([\d.]+)/([\d.]+)/([\d.]+)/([\d.]+) ms", output)
        assert found, output
        minimum, mean, maximum, deviation = found.groups()
        print(
            f"| {delay} + {delay} | {minimum} | {mean} | {maximum} | {deviation} "
            f"| {verdict(summary)} |"
        )


def iperf(bed: Bed, links: str, words: list[str], seconds: int) -> tuple[dict[str, object], str]:
    """The output of iperf3, and the verdict."""
    client = ["iperf3", "-c", "10.0.0.2", "-J", "-t", str(seconds), *words]
    wait = ["sh", "-c", "sleep 1; exec " + " ".join(client)]
    text = experiment(links, wait, ["iperf3", "-s"], seconds)
    output, summary = bed.run(text, "near", 1)
    result: dict[str, object] = json.loads(output)
    return result, verdict(summary)


def received(result: dict[str, object]) -> float:
    """bit/s at the receiver, without the first seconds if iperf3 omits them."""
    end = result["end"]
    assert isinstance(end, dict)
    total = end.get("sum_received") or end["sum"]
    return float(total["bits_per_second"])


def rates(bed: Bed) -> None:
    """Goodput at rates, of TCP and of UDP."""
    print("\n### iperf3 at a rate\n")
    print(
        "| configured, Mbit/s | maximum TCP payload | TCP measured "
        "| maximum UDP payload | UDP measured | verdicts |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for mbit in (1, 10, 100):
        links = f"{{near: {{up: {{rate: {mbit} Mbit/s, queue: 100}}}}}}"
        tcp, first = iperf(bed, links, ["-O", "3"], 15)
        udp, second = iperf(bed, links, ["-u", "-b", f"{1.2 * mbit}M", "-l", "1400"], 10)
        maximum, maximum_udp = mbit * MSS / 1514, mbit * 1400 / 1442
        print(
            f"| {mbit} | {maximum:.3f} | {received(tcp) / 1e6:.3f} | {maximum_udp:.3f} "
            f"| {received(udp) / 1e6:.3f} | {first}, {second} |"
        )


def losses(bed: Bed, repeats: int) -> None:
    """TCP Reno under random loss, compared with two formulas."""
    print("\n### TCP Reno under loss, 20 ms each way, no rate\n")
    print(
        "| loss, % | Mathis, Mbit/s | PFTK, Mbit/s | measured, median "
        "| measured / Mathis | measured / PFTK | verdicts |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for percent in (0.1, 0.3, 1.0, 3.0, 10.0):
        links = f"{{near: {{up: {{delay: 20 ms, loss: {percent} %}}, down: {{delay: 20 ms}}}}}}"
        measured, words = [], []
        for _ in range(repeats):
            result, word = iperf(bed, links, ["-O", "5", "-C", "reno"], 20)
            measured.append(received(result))
            words.append(word)
        loss, rtt = percent / 100, 0.04
        median, one, two = statistics.median(measured), mathis(rtt, loss), pftk(rtt, loss)
        print(
            f"| {percent} | {one / 1e6:.2f} | {two / 1e6:.2f} | {median / 1e6:.2f} "
            f"| {median / one:.2f} | {median / two:.2f} | {', '.join(words)} |"
        )


def multicast(bed: Bed) -> None:
    """A stream of numbered datagrams to a multicast group, sent by Python."""
    send = (
        "import socket,time\n"
        "s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"
        "s.setsockopt(socket.IPPROTO_IP,socket.IP_MULTICAST_IF,socket.inet_aton('10.0.0.1'))\n"
        "time.sleep(1)\n"
        "for i in range(2000):\n"
        "  s.sendto(i.to_bytes(4,'big')+bytes(96),('239.1.2.3',5000)); time.sleep(0.002)\n"
    )
    receiver = (
        "import socket,sys\n"
        "s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.bind(('',5000)); s.settimeout(4)\n"
        "m=socket.inet_aton('239.1.2.3')+socket.inet_aton(sys.argv[1])\n"
        "s.setsockopt(socket.IPPROTO_IP,socket.IP_ADD_MEMBERSHIP,m)\n"
        "n=set()\n"
        "try:\n"
        "  while True: n.add(s.recv(200)[:4])\n"
        "except TimeoutError: print(len(n))\n"
    )
    script = bed.folder / "receiver.py"
    script.write_text(receiver)
    (bed.folder / "send.py").write_text(send)
    text = (
        "experiment: programs\nnodes: {source: {}, sink: {count: 10}}\nnetworks:\n"
        "  field:\n    attach: [source, sink]\n    subnet: 10.0.0.0/24\n"
        "    links: {sink: {down: {loss: 10 %, delay: 5 ms}}}\nworkloads:\n"
    )
    for number in range(1, 11):
        words = json.dumps([sys.executable, str(script), f"10.0.0.{number + 1}"])
        text += f"  - command: {{on: sink-{number}, run: {words}}}\n"
    words = json.dumps([sys.executable, str(bed.folder / "send.py")])
    text += f"  - command: {{on: source, run: {words}}}\nduration: 1 s\n"
    output, summary = bed.run(text, "sink-1", 0)
    run = bed.folder / f"runs-{bed.count}"
    counts = [int(path.read_text()) for path in sorted(run.glob("programs/*/programs/sink-*.out"))]
    print("\n### A multicast stream of 2,000 datagrams to ten members, each losing 10 %\n")
    print(f"Received: {counts}, mean {statistics.mean(counts):.1f} of 1,800 expected; ", end="")
    print(f"verdict {verdict(summary)}. Four standard deviations of one member are 54.")
    del output


def main() -> None:
    """Runs all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", type=Path, default=Path("target/release/thingbed"))
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    for program in ("iperf3", "ping"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is missing: install it")
    bed = Bed(arguments.tool.resolve())
    pings(bed)
    rates(bed)
    losses(bed, arguments.repeats)
    multicast(bed)


if __name__ == "__main__":
    main()
