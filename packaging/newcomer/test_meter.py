"""Two tests of a client on a lossy link; in the second it never repeats a reading: a fault."""

import sys

import pytest
from thingbed import Ready
from thingbed.pytest_plugin import Testbed


@pytest.mark.parametrize("tries", ["8", "1"])
def test_all_readings_arrive(testbed: Testbed, tries: str) -> None:
    """The server confirms all readings."""
    server, client = [sys.executable, "server.py"], [sys.executable, "client.py", "server", tries]
    result = testbed.two_nodes(server, client, ready=Ready(udp=5000), loss="20 %", delay="30 ms")
    assert result.output("client") == "confirmed 20\n"
