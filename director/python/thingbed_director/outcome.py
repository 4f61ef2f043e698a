"""How messages end, and the errors of this package."""

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


class NotAnswered(DirectorError):
    """A request has ended without an answer; `outcome` is FAILED or UNKNOWN."""

    def __init__(self, outcome: Outcome, why: str) -> None:
        super().__init__(why)
        self.outcome = outcome
