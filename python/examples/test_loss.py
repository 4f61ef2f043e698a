"""The client must deliver all its readings on a lossy link."""

import sys

from thingbed import Ready
from thingbed.pytest_plugin import Testbed

SERVER = [sys.executable, "server.py"]
CLIENT = [sys.executable, "client.py", "server"]


def test_all_readings_arrive(testbed: Testbed) -> None:
    result = testbed.two_nodes(SERVER, CLIENT, ready=Ready(udp=5000), loss="20 %", delay="30 ms")
    assert result.output("client") == "confirmed 20\n"
