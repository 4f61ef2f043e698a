"""A meter that sends 200 readings over UDP and repeats each every 0.2 s until it is confirmed.

    python3 meter.py HOST

It prints the 99th percentile of the times until a reading was confirmed.
"""

import socket
import statistics
import sys
import time

READINGS = 200

link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.connect((sys.argv[1], 5000))
link.settimeout(0.2)
times = []
for number in range(READINGS):
    reading = f"reading {number}".encode()
    start = time.monotonic()
    while True:
        link.send(reading)
        try:
            while link.recv(100) != reading:
                pass
            break
        except TimeoutError:
            continue
    times.append(1000 * (time.monotonic() - start))
    time.sleep(0.05)
print(f"p99 {statistics.quantiles(times, n=100)[98]:.1f} ms")
