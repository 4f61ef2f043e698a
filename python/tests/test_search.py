"""Capacity, and two builds compared, in virtual time."""

from pathlib import Path

import pytest

import thingbed as tb


def sizes(folder: Path) -> tb.Experiment:
    """A link of 1 Mbit/s carries 250 B in 2 ms: nine times 20 B, and 54 B of headers.

    With ten times 20 B its queue grows, but is not full before the end.
    """
    for n in range(1, 17):
        (folder / f"message-{n}").write_text("x" * 20 * n)
    return tb.Experiment(
        experiment="size",
        folder=folder,
        nodes={"source": tb.Group(), "sink": tb.Group()},
        networks={
            "net": tb.Network(
                attach=["source", "sink"],
                subnet="10.0.0.0/24",
                links={"source": tb.Link(up=tb.Impairment(rate="1 Mbit/s", queue=20))},
            )
        },
        models={
            "udp": tb.Model(down="udp/request-response", up="udp/request-response", every="2 ms")
        },
        workloads=[
            tb.Interaction(source="source", sinks="sink", model="udp", payload="message-${size}")
        ],
        matrix={"size": [4]},
        duration="1500 ms",
        drain="500 ms",
    )


def test_the_largest_message_that_a_link_carries(tmp_path: Path) -> None:
    lines: list[str] = []
    [found] = tb.capacity(
        sizes(tmp_path),
        "size",
        ["loss < 1 %", "p99 < 100 ms"],
        to=16,
        repeat=1,
        resolution="0 %",
        clock="virtual",
        progress=lines.append,
    )
    assert (found.axis, found.best, found.limit, found.limited_by) == ("size", "9", "10", "system")
    assert found.cell == {} and lines
    assert (found.folder / "report.html").exists()
    first = found.tested[0]
    assert (first.value, first.outcome, first.runs, first.valid) == ("4", "met", 1, 1)
    assert first.figures["loss < 1 %"] == 0 and first.reasons == []
    missed = next(tested for tested in found.tested if tested.value == "10")
    assert missed.outcome == "missed" and "response times rise" in str(missed.overload)


def test_no_value_meets_the_target(tmp_path: Path) -> None:
    [found] = tb.capacity(
        sizes(tmp_path), "size", "p99 < 1 us", first=2, to=2, repeat=1, clock="virtual"
    )
    assert (found.best, found.limit, found.limited_by) == (None, "2", "system")
    with pytest.raises(tb.InputError, match="weight"):
        tb.capacity(sizes(tmp_path), "weight", ["loss < 1 %"], clock="virtual")


def program(folder: Path, name: str, size: int) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho bytes {size}\nexec ping -c 1 -s {size} b\n")
    path.chmod(0o755)
    return path


def test_two_programs_differ_by_what_they_send(tmp_path: Path) -> None:
    link = tb.Link(up=tb.Impairment(delay="5 ms"))
    experiment = tb.Experiment(
        experiment="builds",
        nodes={"a": tb.Group(), "b": tb.Group()},
        networks={"n": tb.Network(attach=["a", "b"], subnet="10.0.0.0/24", links={"a": link})},
        workloads=[
            tb.Command(
                name="client",
                on="a",
                run=["${env:PROGRAM}"],
                metrics={"bytes": tb.Metric(match="bytes ([0-9]+)")},
            )
        ],
        repeats=2,
        duration="5 s",
    )
    old, new = program(tmp_path, "old", 100), program(tmp_path, "new", 200)
    found = tb.compare(old, new, experiment, max_change="5 %")
    printed = found["programs.client.bytes.mean"]
    assert (printed.old, printed.new, printed.percent_interval) == (100, 200, (100, 100))
    assert found.exact and found["all.tx_bytes"].difference == 200
    assert any("programs.client.bytes.mean" in line for line in found.problems), found.problems
    assert found.newly_failed == []
    with pytest.raises(KeyError, match=r"all\.tx_bytes"):
        found["all.bytes"]
    assert len(found.frame()) == len(found.differences)

    one, two = sorted((tmp_path / "runs" / "builds").iterdir())[-2:]
    again = tb.compare(tb.read(one), two)
    assert again.problems == [] and len(again.differences) == len(found.differences)
    with pytest.raises(tb.ToolError):
        tb.compare(tmp_path, two)
