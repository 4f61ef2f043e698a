"""Announces false addresses for a name of a director's hub: `announcer.py NAME OWN...`.

Sends answers of multicast DNS without an end, over IPv4 and IPv6, and answers who comes to its
addresses.
"""

import socket
import struct
import sys
import threading
import time

SERVICE = ("_tb-director", "_udp", "local")
PORT = 5700
MDNS = 5353
CACHE_FLUSH_IN = 0x8001


def labels(*parts: str) -> bytes:
    """A name of DNS (RFC 1035, 3.1)."""
    return b"".join(bytes([len(part)]) + part.encode() for part in parts) + b"\0"


def record(name: bytes, kind: int, of_class: int, data: bytes) -> bytes:
    """A resource record that lasts for two minutes (RFC 1035, 3.2.1)."""
    return name + struct.pack("!HHIH", kind, of_class, 120, len(data)) + data


def family(address: str) -> socket.AddressFamily:
    """The family of a numeric address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def announcement(name: str, host: str, address: str) -> bytes:
    """The records PTR, SRV, TXT, and A or AAAA (RFC 6763)."""
    instance, at = labels(name, *SERVICE), labels(host, "local")
    kind = 28 if ":" in address else 1
    records = [
        record(labels(*SERVICE), 12, 1, instance),
        record(instance, 33, CACHE_FLUSH_IN, struct.pack("!HHH", 0, 0, PORT) + at),
        record(instance, 16, CACHE_FLUSH_IN, b"\0"),
        record(at, kind, CACHE_FLUSH_IN, socket.inet_pton(family(address), address)),
    ]
    return struct.pack("!HHHHHH", 0, 0x8400, 0, len(records), 0, 0) + b"".join(records)


def answer(own: str) -> None:
    """Prints who sends something, and sends it something all the time."""
    listener = socket.socket(family(own), socket.SOCK_DGRAM)
    listener.bind((own, PORT))
    listener.settimeout(0.5)
    known = set()
    while True:
        try:
            _, at = listener.recvfrom(2048)
            if at not in known:
                print("a member came to", own, flush=True)
            known.add(at)
        except TimeoutError:
            pass
        for at in known:
            listener.sendto(b"\x77 no hub", at)


name, *addresses = sys.argv[1:]
for own in addresses:
    threading.Thread(target=answer, args=[own], daemon=True).start()
interface = next(index for index, device in socket.if_nameindex() if device != "lo")
four, six = (socket.socket(kind, socket.SOCK_DGRAM) for kind in (socket.AF_INET, socket.AF_INET6))
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
for mdns in (four, six):
    mdns.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    mdns.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    mdns.bind(("", MDNS))
own = next(address for address in addresses if family(address) == socket.AF_INET)
four.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface)
while True:
    for n, address in enumerate(addresses):
        false = announcement(name, f"false-{n}", address)
        four.sendto(false, ("224.0.0.251", MDNS))
        six.sendto(false, ("ff02::fb", MDNS))
    time.sleep(0.2)
