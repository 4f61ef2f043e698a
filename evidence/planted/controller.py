"""Sets the valve step by step, repeats each request until its answer, and checks the final step."""

import socket
import sys
import time

STEPS, TIMEOUT = 6, 0.185


def ask(valve: socket.socket, number: int, word: str) -> str:
    """Sends a request, again after each timeout, and returns its answer."""
    while True:
        valve.send(f"{number} {word}".encode())
        until = time.monotonic() + TIMEOUT
        while (left := until - time.monotonic()) > 0:
            valve.settimeout(left)
            try:
                answer = valve.recv(64).decode().split()
            except TimeoutError:
                break
            if answer[0] == str(number):
                return answer[1]


valve = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
valve.connect(("valve", 5000))
for step in range(1, STEPS + 1):
    ask(valve, step, str(step))
    print(f"{time.monotonic():.6f} step {step}", flush=True)
time.sleep(0.4)
found = ask(valve, 0, "get")
print(f"the valve is at step {found} of {STEPS}")
sys.exit(found != str(STEPS))
