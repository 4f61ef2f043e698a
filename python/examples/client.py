"""A client that sends 20 readings over UDP to a server, and repeats one until it is confirmed.

    python3 client.py HOST [TRIES]

It prints the number of readings that the server confirmed. Its regression: TRIES of 1.
"""

import socket
import sys

READINGS = 20


def confirmed(link: socket.socket, address: tuple[str, int], reading: bytes, tries: int) -> bool:
    for _ in range(tries):
        link.sendto(reading, address)
        try:
            while link.recv(100) != reading:
                pass
            return True
        except TimeoutError:
            continue
    return False


def main() -> None:
    address = (socket.gethostbyname(sys.argv[1]), 5000)
    tries = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.settimeout(0.3)
    readings = [str(number).encode() for number in range(READINGS)]
    print("confirmed", sum(confirmed(link, address, reading, tries) for reading in readings))


if __name__ == "__main__":
    main()
