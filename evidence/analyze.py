#!/usr/bin/env python3
"""Compares packets per second of `thingbed analyze` and `tshark -T fields`.

Creates a capture of a million packets from MQTT publishers and a broker that
acknowledges; each publish carries 717 B, as in the paper. Both tools read it, one
after the other, three times. Prints Markdown. Needs tshark and the built tool.
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import tempfile
import time
from pathlib import Path

CLIENTS = 350
PACKETS = 1_000_000
ROUNDS = 3
FIELDS = ["frame.len", "ip.src", "tcp.stream", "tcp.analysis.retransmission", "mqtt.msgtype"]


def segment(client: int, up: bool, numbers: list[int], flags: int, data: bytes) -> bytes:
    """A segment between a client and the broker; advances the sender's sequence number."""
    ends = [bytes([10, 0, 1 + client // 250, 1 + client % 250]), bytes([10, 0, 0, 1])]
    ports = [40_000 + client, 1883]
    macs = [bytes([2, 0, 0, 0, client >> 8, client & 255]), bytes([2, 0, 0, 0, 255, 255])]
    a, b = (0, 1) if up else (1, 0)
    ack = numbers[b] if flags & 16 else 0
    tcp = struct.pack(">HHIIBBHHH", ports[a], ports[b], numbers[a], ack, 80, flags, 500, 0, 0)
    ip = struct.pack(">BBHHHBBH", 69, 0, 40 + len(data), 0, 16384, 64, 6, 0) + ends[a] + ends[b]
    numbers[a] += len(data) + (1 if flags & 3 else 0)
    return macs[b] + macs[a] + b"\x08\x00" + ip + tcp + data


def write(path: Path) -> None:
    """Handshakes and CONNECTs of all clients, then publishes and their acknowledgements."""
    connect = b"\x10\x10\0\x04MQTT\x04\x02\0\x3c\0\x04abcd"
    publish = b"\x32\xd2\x05\0\x01a\0\x07" + b"x" * 717
    count = 0
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))

        def put(frame: bytes) -> None:
            nonlocal count
            at = count * 250
            out.write(struct.pack("<IIII", at // 10**6, at % 10**6, len(frame), len(frame)))
            out.write(frame)
            count += 1

        numbers = [[1000, 9000] for _ in range(CLIENTS)]
        for client, own in enumerate(numbers):
            put(segment(client, True, own, 2, b""))
            put(segment(client, False, own, 18, b""))
            put(segment(client, True, own, 24, connect))
            put(segment(client, False, own, 24, b"\x20\x02\0\0"))
        while count + 3 <= PACKETS:
            client = count // 3 % CLIENTS
            put(segment(client, True, numbers[client], 24, publish))
            put(segment(client, False, numbers[client], 24, b"\x40\x02\0\x07"))
            put(segment(client, True, numbers[client], 16, b""))


def timed(command: list[str]) -> tuple[float, str]:
    """Duration of a command in s, and its output."""
    began = time.monotonic()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.monotonic() - began, done.stdout


def main() -> None:
    """Prints both rates and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", default="target/release/thingbed")
    tool = parser.parse_args().tool
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder, "million.pcap")
        write(capture)
        print("| round | tshark -T fields, packets/s | thingbed analyze, packets/s | ratio |")
        print("| --- | --- | --- | --- |")
        fields = [part for field in FIELDS for part in ("-e", field)]
        for number in range(1, ROUNDS + 1):
            tshark_s, text = timed(["tshark", "-n", "-r", str(capture), "-T", "fields", *fields])
            analyze_s, output = timed(["/usr/bin/env", tool, "analyze", str(capture), "--json"])
            counted = json.loads(output)
            packets = counted["packets"]
            assert text.count("\n") == packets, "both read all packets"
            published = sum(line.endswith("\t3") for line in text.splitlines())
            assert counted["messages"]["mqtt"]["PUBLISH"] == published, "both count the same"
            print(
                f"| {number} | {packets / tshark_s:,.0f} | {packets / analyze_s:,.0f} "
                f"| {tshark_s / analyze_s:.0f} |"
            )


if __name__ == "__main__":
    main()
