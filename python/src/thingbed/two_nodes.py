"""The smallest experiment: a server and a client with one link between them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from .part import Text, Time
from .schema import Command, Experiment, Group, Impairment, Link, Metric, Network, Ready


def two_nodes(
    server: Sequence[Text],
    client: Sequence[Text],
    *,
    ready: Ready | int | None = None,
    metrics: Mapping[str, Metric] | None = None,
    duration: Time = "1 min",
    name: str = "two-nodes",
    impairment: Impairment | None = None,
    **settings: Any,
) -> Experiment:
    """Return an experiment with the nodes `server` and `client`.

    The link between them has the same impairments in both directions, such as `loss="10 %"` and
    `delay="30 ms"`. The run ends when the client does.

    Args:
        server: the program of the node `server`; it runs as long as the client.
        client: the program of the node `client`.
        ready: how to know that the server is ready: a TCP port, or `Ready(udp=5683)`.
        metrics: values that the client prints, as figures.
        duration: the longest time for the client.
        name: the experiment's name.
        impairment: the link's impairments as an object.
        settings: keys of the impairments.

    Raises:
        TypeError: there is no such key.
    """
    link = dataclasses.replace(impairment or Impairment(), **settings)
    return Experiment(
        experiment=name,
        nodes={
            "server": Group(
                run=server, ready=Ready(tcp=ready) if isinstance(ready, int) else ready
            ),
            "client": Group(),
        },
        networks={
            "link": Network(
                attach=["server", "client"],
                subnet="10.0.0.0/24",
                links={"client": Link(up=link, down=link)},
            )
        },
        workloads=[Command(name="client", on="client", run=client, metrics=metrics)],
        duration=duration,
        drain="0 s",
    )
