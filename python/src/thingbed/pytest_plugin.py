"""Pytest plugin: the fixture `testbed`, which runs experiments in tests.

In virtual time where its guest kernel is installed, so that a busy machine cannot change a result;
else in real time, and runs that the machine disturbed are repeated.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

import pytest

from . import running, tool
from .errors import NotTrustedError, RunError, ThingbedError
from .experiment import BaseExperiment
from .lab import Lab, UpOptions, up
from .part import Text, Time
from .result import Result
from .running import RunOptions, Source
from .schema import Impairment, Metric, Ready
from .two_nodes import two_nodes

Clock = Literal["real", "virtual"]

_CLOCK = pytest.StashKey[Clock]()
#: How often a run in real time is repeated if the machine disturbed it.
RETRIES = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("thingbed")
    group.addoption(
        "--thingbed-clock",
        choices=["auto", "real", "virtual"],
        default="auto",
        help="clock of the fixture `testbed`; auto: virtual if its guest kernel is installed",
    )
    group.addoption(
        "--thingbed-out",
        metavar="FOLDER",
        help="folder for results of the fixture `testbed`, default: the test's tmp_path",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Show which program the tests use."""
    try:
        return f"thingbed: {tool.find()}"
    except ThingbedError:
        return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a test as an error, not as failed, if the test bed is at fault.

    That is a run that the machine disturbed, a wrong experiment, or a runtime error of the tool.
    """
    report = yield
    error = call.excinfo.value if call.excinfo is not None else None
    if report.when == "call" and report.failed and _is_at_fault(error):
        # Pytest counts what fails outside of the call as an error.
        report.when = "setup"
    return report


def _is_at_fault(error: BaseException | None) -> bool:
    if isinstance(error, RunError):
        return isinstance(error, NotTrustedError)
    return isinstance(error, ThingbedError) and not hasattr(error, "stderr")


def clock_of(config: pytest.Config) -> Clock:
    """Return the clock of the tests: from the option, else virtual if it works here."""
    if _CLOCK not in config.stash:
        chosen: str = config.getoption("--thingbed-clock")
        clock: Clock = "real"
        if chosen == "virtual" or (chosen == "auto" and has_virtual_time()):
            clock = "virtual"
        config.stash[_CLOCK] = clock
    return config.stash[_CLOCK]


def has_virtual_time() -> bool:
    """Return whether `thingbed doctor` finds the guest kernel for an infinite CPU."""
    # It ends with 1 if anything is missing that real time needs.
    findings = json.loads(tool.call(["doctor", "--json"], accepted=(0, 1)))
    return any(one["what"] == "virtual time" and one["grade"] == "good" for one in findings)


class Testbed:
    """Runs experiments for a test.

    Attributes:
        clock: `virtual` or `real`.
        out: the folder for results.
        folder: the folder to which paths in experiments are relative: the test's.
    """

    __test__ = False

    def __init__(self, clock: Clock, out: Path, folder: Path) -> None:
        self.clock, self.out, self.folder = clock, out, folder

    def run(self, experiment: Source, **options: Unpack[RunOptions]) -> Result:
        """Run an experiment.

        Raises:
            NotTrustedError: the machine disturbed the runs; pytest reports an error.
            FailedError: a program failed or an expectation does not hold; the test fails.
        """
        if isinstance(experiment, BaseExperiment) and experiment.folder is None:
            experiment.folder = self.folder
        chosen: RunOptions = {"out": self.out, "progress": False}
        if "cpu" not in options:
            chosen["clock"] = self.clock
        if self.clock == "real":
            chosen["retry"] = RETRIES
        chosen.update(options)
        return running.run(experiment, **chosen)

    def two_nodes(
        self,
        server: Sequence[Text],
        client: Sequence[Text],
        *,
        ready: Ready | int | None = None,
        metrics: dict[str, Metric] | None = None,
        duration: Time = "1 min",
        impairment: Impairment | None = None,
        seed: int = 1,
        **settings: Any,
    ) -> Result:
        """Run a server and a client with one link between them; see `thingbed.two_nodes`."""
        experiment = two_nodes(
            server,
            client,
            ready=ready,
            metrics=metrics,
            duration=duration,
            impairment=impairment,
            **settings,
        )
        return self.run(experiment, seed=seed)

    def up(self, experiment: Source, **options: Unpack[UpOptions]) -> Lab:
        """Start a lab, in real time; use it with `with`."""
        if isinstance(experiment, BaseExperiment) and experiment.folder is None:
            experiment.folder = self.folder
        chosen: UpOptions = {"out": self.out}
        chosen.update(options)
        return up(experiment, **chosen)


@pytest.fixture
def testbed(request: pytest.FixtureRequest, tmp_path: Path) -> Testbed:
    """Run experiments: `testbed.two_nodes(...)`, `testbed.run(...)`, `testbed.up(...)`."""
    out = request.config.getoption("--thingbed-out")
    folder = Path(out).absolute() if out else tmp_path / "runs"
    return Testbed(clock_of(request.config), folder, request.path.parent)
