"""Python interface of Thingbed, a test bed for the Internet of Things on one Linux machine.

    import thingbed as tb

    experiment = tb.Experiment(
        experiment="first",
        nodes={"gateway": tb.Group(), "meter": tb.Group()},
        networks={
            "field": tb.Network(
                attach=["gateway", "meter"],
                subnet="10.0.0.0/24",
                links={"meter": tb.Link(up=tb.Impairment(delay="30 ms", loss="1 %"))},
            )
        },
        workloads=[tb.Command(on="meter", run=["ping", "-c", 10, "gateway"])],
        duration="20 s",
    )
    result = experiment.run(clock="virtual")
    with experiment.up() as lab:
        lab.link("meter").set(loss="10 %")
        print(lab.node("meter").exec("ping", "-c", 1, "gateway").stdout)

It uses the program `thingbed`: `THINGBED_BIN`, or the one in `PATH`. docs/python.md is the manual.
"""

from .asynchronous import AsyncLab, AsyncLink, AsyncNode, run_async, up_async
from .capacities import Capacity, TestedValue, capacity
from .comparison import Comparison, Difference, compare
from .errors import (
    FailedError,
    InputError,
    InterruptedRunError,
    NotTrustedError,
    ProgramError,
    RunError,
    ThingbedError,
    ToolError,
    ToolNotFoundError,
)
from .lab import Capture as LabCapture
from .lab import Lab, NodeState, labs, up
from .link import LabLink, LinkState
from .node import Completed, LabNode
from .part import Axis, Part, axis
from .result import Expectation, Result, Run, read
from .running import run
from .schema import *  # noqa: F403
from .schema import __all__ as _schema
from .two_nodes import two_nodes

__all__ = [
    "AsyncLab",
    "AsyncLink",
    "AsyncNode",
    "Axis",
    "Capacity",
    "Comparison",
    "Completed",
    "Difference",
    "Expectation",
    "FailedError",
    "InputError",
    "InterruptedRunError",
    "Lab",
    "LabCapture",
    "LabLink",
    "LabNode",
    "LinkState",
    "NodeState",
    "NotTrustedError",
    "Part",
    "ProgramError",
    "Result",
    "Run",
    "RunError",
    "TestedValue",
    "ThingbedError",
    "ToolError",
    "ToolNotFoundError",
    "axis",
    "capacity",
    "compare",
    "labs",
    "read",
    "run",
    "run_async",
    "two_nodes",
    "up",
    "up_async",
]
__all__ += _schema
