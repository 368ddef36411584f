"""What a check of a table can find."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Fault", "FaultKind", "Findings"]


class FaultKind(Enum):
    """What is wrong with a file."""

    MISSING = "missing"
    DAMAGED = "damaged"
    ORPHANED = "orphaned"
    MISREAD = "misread"


@dataclass(frozen=True, slots=True)
class Fault:
    """One file that is not as it should be.

    Attributes:
        kind: What is wrong.
        path: Below the root of the table.
        size: Bytes that it has; 0 if it is missing.
        version: A version that refers to it; None for orphans.
        what: In words.
    """

    kind: FaultKind
    path: str
    size: int
    version: int | None
    what: str


@dataclass
class Findings:
    """What a check saw.

    Attributes:
        versions: Number of versions that were looked at.
        files: Number of files that they refer to.
        size: Bytes of those that are there.
        faults: What is wrong.
    """

    versions: int = 0
    files: int = 0
    size: int = 0
    faults: list[Fault] = field(default_factory=list)
