"""A TCP stream of 55 s between `hub` and `other`: `tcp-beside.py NODE DIRECTION`.

The data leaves the hub (`down`) or arrives at it (`up`). The receiver counts, and `other` prints
the rate as JSON.
"""

import json
import socket
import sys
import time

SECONDS = 55
PORT = 5001


def send(stream: socket.socket) -> None:
    """Sends as much as the path takes, for SECONDS."""
    end = time.monotonic() + SECONDS
    try:
        while (left := end - time.monotonic()) > 0:
            stream.settimeout(left)
            stream.sendall(bytes(4096))
    except TimeoutError:
        pass


def receive(stream: socket.socket) -> dict[str, float]:
    """The rate of what arrives in SECONDS."""
    begin, count = time.monotonic(), 0
    try:
        while (left := begin + SECONDS - time.monotonic()) > 0:
            stream.settimeout(left)
            if not (data := stream.recv(65536)):
                break
            count += len(data)
    except TimeoutError:
        pass
    return {"kbit_s": count * 8 / SECONDS / 1e3}


def hub(direction: str) -> None:
    """Begins the stream, when the director has measured its path."""
    time.sleep(5)
    stream = socket.create_connection(("other", PORT))
    if direction == "down":
        send(stream)
    else:
        stream.sendall(json.dumps(receive(stream)).encode())


def other(direction: str) -> None:
    """Accepts the stream, and prints the receiver's result."""
    stream, _ = socket.create_server(("", PORT)).accept()
    if direction == "down":
        print(json.dumps(receive(stream)))
    else:
        send(stream)
        stream.settimeout(None)
        print(stream.recv(4096).decode())


{"hub": hub, "other": other}[sys.argv[1]](sys.argv[2])
