"""The program under test: THINGBED_BIN, else the debug build of this clone."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import thingbed as tb

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "target" / "debug" / "thingbed"

if "THINGBED_BIN" not in os.environ and BUILT.exists():
    os.environ["THINGBED_BIN"] = str(BUILT)


@pytest.fixture
def pings() -> tb.Experiment:
    """Two nodes; one sends ten pings over a lossy link."""
    rtt = tb.Metric(match="time=([0-9.]+) ms", unit="ms")
    client = ["sh", "-c", "ping -c 10 -i 0.2 server || true"]
    return tb.two_nodes(
        ["sleep", 1000], client, metrics={"rtt": rtt}, delay="15 ms", loss="10 %", name="pings"
    )


@pytest.fixture
def two() -> tb.Experiment:
    """Two nodes with a link, without programs."""
    link = tb.Link(up=tb.Impairment(delay="5 ms"))
    return tb.Experiment(
        experiment=f"two-{os.getpid()}",
        nodes={"near": tb.Group(), "far": tb.Group()},
        networks={
            "field": tb.Network(attach=["near", "far"], subnet="10.0.0.0/24", links={"far": link})
        },
        duration="1 s",
    )


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run each test in its own folder; the tool's work needs no other."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not list(tmp_path.glob(".thingbed-*")), "a temporary experiment file is left"


def needs(program: str) -> pytest.MarkDecorator:
    """Skip a test without this program; `make test` installs all of them."""
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")
