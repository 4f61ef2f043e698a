"""The DDS message type of peers.py. Cyclone DDS evaluates annotations, so this file must not use
`from __future__ import annotations`."""

from dataclasses import dataclass

from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import sequence, uint8


@dataclass
class Note(IdlStruct, typename="Note"):
    """A message."""

    data: sequence[uint8]
