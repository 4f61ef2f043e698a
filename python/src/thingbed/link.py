"""Links of a running lab."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .part import Part, Time, plain

if TYPE_CHECKING:
    from .lab import Lab
    from .schema import Impairment


@dataclass(frozen=True)
class LinkState:
    """One direction of a link.

    Attributes:
        way: `up` (from the node) or `down` (to the node).
        settings: its impairments now, by the keys of the experiment file.
        target: the settings at the end of a ramp; None without a ramp.
        down: whether it was taken down.
        rejected: frames that were too long or had another node's source address.
    """

    node: str
    network: str
    way: str
    settings: Mapping[str, Any]
    target: Mapping[str, Any] | None
    down: bool
    rejected: int


def link_states(text: str) -> list[LinkState]:
    """Read the output of `thingbed link show --json`."""
    return [
        LinkState(
            node=one["node"],
            network=one["network"],
            way=str(one["way"]).lower(),
            settings=one["now"],
            target=one["target"],
            down=one["down"],
            rejected=one["rejected"],
        )
        for one in json.loads(text)
    ]


class LabLink:
    """The links of a node, a group or a pattern."""

    def __init__(
        self, lab: Lab, node: str, network: str | None, way: Literal["up", "down"] | None
    ) -> None:
        self._lab, self._node, self._network, self._way = lab, node, network, way

    def set(
        self, impairment: Impairment | None = None, over: Time | None = None, **settings: object
    ) -> None:
        """Change impairments: `set(loss="10 %", delay="30 ms")`. None removes a key.

        Args:
            impairment: the keys to change, as an object.
            over: change quantities linearly over this time.
            settings: the keys to change.

        Raises:
            InputError: a setting is wrong; nothing has changed.
            ToolError: there is no such link.
        """
        self._lab.command(*self.set_words(impairment, over, settings))

    def set_words(
        self, impairment: Impairment | None, over: Time | None, settings: Mapping[str, object]
    ) -> list[str]:
        """Return the command of `set`."""
        wanted = {**(impairment.to_data() if impairment is not None else {}), **settings}
        pairs = [f"{key}={_text(value)}" for key, value in wanted.items()]
        ramp = ["--over", str(plain(over))] if over is not None else []
        return ["link", "set", *self._selection(), *ramp, self._node, *pairs]

    def down(self) -> None:
        """Take the links down: they drop all frames."""
        self._lab.command(*self.switch_words("down"))

    def up(self) -> None:
        """Bring the links up again."""
        self._lab.command(*self.switch_words("up"))

    def switch_words(self, what: str) -> list[str]:
        """Return the command of `down` or `up`."""
        return ["link", what, *self._selection(), self._node]

    def show(self) -> list[LinkState]:
        """Return the current settings, one entry per link and direction."""
        return self.chosen(self._lab.links(self._node))

    def chosen(self, states: list[LinkState]) -> list[LinkState]:
        """Return the states of this network and direction."""
        network, way = self._network, self._way
        return [one for one in states if network in (None, one.network) and way in (None, one.way)]

    def _selection(self) -> list[str]:
        network = ["--network", self._network] if self._network else []
        return network + (["--way", self._way] if self._way else [])


def _text(value: object) -> str:
    """A value as the command line takes it: YAML in one line."""
    if value is None:
        return ""
    data = plain(value)
    if isinstance(value, Part) or not isinstance(data, str):
        return json.dumps(data)
    return data
