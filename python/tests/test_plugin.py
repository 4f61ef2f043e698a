"""The pytest plugin: passed, failed and error, by running pytest on tests."""

import os
import shutil
import stat
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from thingbed import pytest_plugin

EXAMPLES = ROOT / "python" / "examples"
LOSS_TEST = """
from thingbed import Ready
def test_all_readings_arrive(testbed):
    result = testbed.two_nodes(
        ["{python}", "server.py"], ["{python}", "client.py", "server"],
        ready=Ready(udp=5000), loss="20 %", delay="30 ms")
    assert result.output("client") == "confirmed 20\\n"
"""
OPTIONS = ("-p", "no:cacheprovider", "-p", "no:xdist")


@pytest.fixture
def examples(pytester: pytest.Pytester) -> Path:
    """A copy of the example, and its test in five lines."""
    for name in ("client.py", "server.py"):
        shutil.copy(EXAMPLES / name, pytester.path)
    pytester.makepyfile(test_loss=LOSS_TEST.format(python=sys.executable))
    return pytester.path


def test_the_example_passes(pytester: pytest.Pytester) -> None:
    for name in ("client.py", "server.py", "test_loss.py"):
        shutil.copy(EXAMPLES / name, pytester.path)
    result = pytester.runpytest_subprocess("--thingbed-clock=virtual", *OPTIONS)
    result.assert_outcomes(passed=1)


def test_a_planted_regression_fails_with_the_same_figures_each_time(
    examples: Path, pytester: pytest.Pytester
) -> None:
    client = examples / "client.py"
    assert "else 8" in client.read_text()
    # The regression: the client sends each reading once.
    client.write_text(client.read_text().replace("else 8", "else 1"))
    found = []
    for _ in range(2):
        result = pytester.runpytest_subprocess("--thingbed-clock=virtual", *OPTIONS)
        result.assert_outcomes(failed=1)
        found.append([line for line in result.outlines if line.startswith("E ")])
        result.stdout.no_fnmatch_line("*confirmed 20*confirmed 20*")
    assert found[0] == found[1] and any("confirmed" in line for line in found[0])


def test_a_failed_program_fails_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_program(testbed):
            testbed.two_nodes(["sleep", 100], ["sh", "-c", "echo out of order >&2; exit 7"])
        """
    )
    result = pytester.runpytest_subprocess("--thingbed-clock=virtual", "--thingbed-out=r", *OPTIONS)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ended with status 7: out of order*"])
    report = next(pytester.path.glob("r/two-nodes/*/report.html"))
    assert str(report) in result.stdout.str()


BUSY = """#!{python}
'''Runs the tool, then marks its run as disturbed, with the tool's exit status for that.'''
import json, pathlib, subprocess, sys
done = subprocess.run(["{tool}", *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
print(done.stdout)
if sys.argv[1] != "run":
    sys.exit(done.returncode)
assert sys.argv[sys.argv.index("--retry") + 1] == "3"
line = [line for line in done.stdout.splitlines() if line.startswith("report: ")][0]
folder = pathlib.Path(line[8:]).parent
verdict = {{"status": "invalid", "reasons": [
    {{"name": "CPU saturated", "detail": "99 %", "meaning": "", "status": "invalid"}}]}}
for path in folder.rglob("summary.json"):
    summary = json.loads(path.read_text())
    for one in summary if isinstance(summary, list) else [summary]:
        one["verdict"] = verdict
    path.write_text(json.dumps(summary))
sys.exit(3)
"""


def test_a_run_that_is_not_trusted_is_an_error(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = pytester.path / "busy-thingbed"
    tool.write_text(BUSY.format(python=sys.executable, tool=os.environ["THINGBED_BIN"]))
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("THINGBED_BIN", str(tool))
    pytester.makepyfile(
        """
        def test_program(testbed):
            testbed.two_nodes(["sleep", 100], ["true"])
        """
    )
    arguments = ("--thingbed-clock=real", "--junit-xml=junit.xml", *OPTIONS)
    result = pytester.runpytest_subprocess(*arguments)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*NotTrustedError: invalid (repeat 0): CPU saturated: 99 %*"])
    result.stdout.fnmatch_lines(["*report: *report.html*"])
    junit = (pytester.path / "junit.xml").read_text()
    assert 'errors="1"' in junit and 'failures="0"' in junit


def test_a_wrong_experiment_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_program(testbed):
            testbed.two_nodes(["true"], ["true"], delay="30")
        """
    )
    result = pytester.runpytest_subprocess("--thingbed-clock=real", *OPTIONS)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*`30` has no unit*"])


def test_labs_in_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import thingbed

        def test_lab(testbed):
            with testbed.up(thingbed.two_nodes(["sleep", 100], ["true"], name="tested")) as lab:
                assert "1 received" in lab.node("client").exec("ping", "-c", 1, "server").stdout
        """
    )
    pytester.runpytest_subprocess("--thingbed-clock=real", *OPTIONS).assert_outcomes(passed=1)


def test_a_machine_that_lacks_something_may_have_virtual_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What failed before, for example in a container: `doctor` ends with 1 there.
    real = os.environ["THINGBED_BIN"]
    expected = pytest_plugin.has_virtual_time()
    lacking = tmp_path / "thingbed"
    lacking.write_text(f'#!/bin/sh\n"{real}" "$@"\nexit 1\n')
    lacking.chmod(0o755)
    monkeypatch.setenv("THINGBED_BIN", str(lacking))
    assert pytest_plugin.has_virtual_time() == expected
