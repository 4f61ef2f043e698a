"""A valve controlled over UDP, with the bug that `make evidence-planted` finds.

It answers a repeated request without executing it again, but remembers only the last request. A
retransmission of the previous request that arrives after the last one sets the valve back.
"""

import socket

inlet = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
inlet.bind(("", 5000))
last, step = None, 0
while True:
    request, peer = inlet.recvfrom(64)
    number, word = request.decode().split()
    if word != "get" and number != last:
        last, step = number, int(word)
    inlet.sendto(f"{number} {step}".encode(), peer)
