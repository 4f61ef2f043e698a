"""The one type that DDS carries for peers.py. It looks annotations up, and so has them as they
are, without `from __future__ import annotations`."""

from dataclasses import dataclass

from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import sequence, uint8


@dataclass
class Note(IdlStruct, typename="Note"):
    """Some bytes."""

    data: sequence[uint8]
