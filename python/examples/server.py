"""A server that confirms each reading that it gets over UDP."""

import socket

link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.bind(("", 5000))
while True:
    reading, client = link.recvfrom(100)
    link.sendto(reading, client)
