"""How messages end, and the errors of this package."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class DirectorError(Exception):
    """The session cannot start, or a message cannot be sent."""


class Outcome(Enum):
    """How a message of a member ends, or a stored one of the hub at a member."""

    ACKNOWLEDGED = 1
    """The application at the other end has it."""
    FAILED = 2
    """The application at the other end will never have it."""
    UNKNOWN = 3
    """Neither is known."""


@dataclass(frozen=True, eq=False)
class DeliveryReport:
    """How a message of a member has ended, and why. It equals its outcome: use
    `report == Outcome.FAILED`, not `is`."""

    outcome: Outcome
    reason: str = ""
    """For FAILED and UNKNOWN; empty for ACKNOWLEDGED."""

    def __eq__(self, other: object) -> bool:
        """Compares outcomes, not reasons."""
        if isinstance(other, DeliveryReport):
            return self.outcome is other.outcome
        return self.outcome is other if isinstance(other, Outcome) else NotImplemented

    def __hash__(self) -> int:
        """That of the outcome, which it equals."""
        return hash(self.outcome)

    def __str__(self) -> str:
        """The outcome and its reason."""
        return f"{self.outcome}: {self.reason}" if self.reason else str(self.outcome)


class NotAnswered(DirectorError):
    """A request has ended without an answer; `outcome` is FAILED or UNKNOWN."""

    def __init__(self, outcome: Outcome, why: str) -> None:
        super().__init__(why)
        self.outcome = outcome
