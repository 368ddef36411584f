"""The model of a table's history: the number of rows after each commit, and its kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

__all__ = ["Change", "History", "Step"]


class Change(Enum):
    """A kind of commits, as legends name it."""

    ADDED = "rows added"
    CHANGED = "rows changed"
    REMOVED = "rows removed"
    REPLACED = "replaced"
    COLUMNS = "columns"
    INDEXED = "indexed"
    MAINTAINED = "compacted"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Step:
    """One version.

    Attributes:
        version: Its number.
        rows: Number of its rows.
        change: What its commit did.
        operation: Name of the operation.
        committed: When it was committed.
        tag: Names of its tags; empty without any.
        message: The message of the commit.
    """

    version: int
    rows: int
    change: Change
    operation: str
    committed: datetime
    tag: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class History:
    """The versions of a table, oldest first, and a title."""

    title: str
    steps: Sequence[Step]

    @property
    def most_rows(self) -> int:
        """Return the largest number of rows of any version."""
        return max((step.rows for step in self.steps), default=0)

    @property
    def changes(self) -> list[Change]:
        """Return the kinds of changes that occur, in the order of the legend."""
        found = {step.change for step in self.steps}
        return [kind for kind in Change if kind in found]
