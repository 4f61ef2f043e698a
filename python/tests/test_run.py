"""Runs, their errors, and Ctrl-C."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import thingbed as tb
from thingbed import running


def test_a_failed_program_and_expectation_are_errors_with_results(pings: tb.Experiment) -> None:
    assert isinstance(pings.workloads, list)
    pings.workloads[0].run = ["sh", "-c", "ping -c 3 server; echo '<out of order>' >&2; exit 7"]
    pings.expect = [
        tb.Expect(say="few bytes", metric="groups.client.tx_bytes", is_="below", value=1)
    ]
    with pytest.raises(tb.FailedError) as error:
        pings.run(clock="virtual", progress=False)
    result = error.value.result
    text = str(error.value)
    assert "ended with status 7: <out of order>" in text and str(result.report) in text
    assert "expectation: few bytes" in text
    assert result.output("client", stream="err") == "<out of order>\n"
    assert "&lt;out of order&gt;" in result._repr_html_()
    assert [one.status for one in result.expectations] != ["pass"]


def test_a_sweep_is_resumed(pings: tb.Experiment) -> None:
    first = pings.run(clock="virtual", repeat=2, progress=False)
    summary = first.runs[1].summary
    shutil.rmtree(first.runs[1].folder)
    again = pings.run(clock="virtual", repeat=2, resume=first.folder, progress=False)
    assert again.folder == first.folder
    assert [run.summary for run in again.runs] == [first.runs[0].summary, summary]


def test_the_same_experiment_gives_the_same_figures(pings: tb.Experiment) -> None:
    first, second = (pings.run(clock="virtual", progress=False) for _ in range(2))
    assert first.runs[0].summary == second.runs[0].summary
    assert first["programs.client.rtt.mean"] == pytest.approx(30, abs=0.5)
    assert first.folder != second.folder


PROGRAM = """
import thingbed as tb
tb.two_nodes(["sleep", "1000"], ["sleep", "60"], name="long").run(
    progress=lambda line: print(line, flush=True), out="runs"
)
"""


def test_ctrl_c_stops_a_run() -> None:
    python = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    # Before the measurement, an interrupted run has no results.
    assert python.stdout is not None
    assert any("  running: " in line for line in python.stdout)
    pids = tools_of(python.pid)
    assert pids
    os.kill(python.pid, signal.SIGINT)
    _, errors = python.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    run = json.loads(next(Path("runs").glob("long/*/run.json")).read_text())
    assert run["interrupted"] is True


def tools_of(parent: int) -> list[int]:
    done = subprocess.run(["pgrep", "-P", str(parent)], capture_output=True, text=True)
    return [int(pid) for pid in done.stdout.split()]


def test_values_with_separators_are_quoted_in_selections() -> None:
    mixes = ["GET=9,POST=1", "a|b", 'say "x" \\', '"q"', " x", "", "5 %", 7, True]
    assert running.selection({"mix": mixes, "a=b": "c"}) == [
        "--only",
        r"""mix="GET=9,POST=1"|"a|b"|say "x" \|"\"q\""|" x"|""|5 %|7|true""",
        "--only",
        '"a=b"=c',
    ]
