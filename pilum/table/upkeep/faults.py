"""The faults that a check of a table can find."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Fault", "FaultKind", "Findings"]


class FaultKind(Enum):
    """The kind of a fault in a file."""

    MISSING = "missing"
    DAMAGED = "damaged"
    ORPHANED = "orphaned"
    MISREAD = "misread"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one file.

    Attributes:
        kind: Kind of the fault.
        path: Path below the root of the table.
        size: Size of the file in bytes; 0 if it is missing.
        version: A version that refers to it; None for orphans.
        what: Description of the fault.
    """

    kind: FaultKind
    path: str
    size: int
    version: int | None
    what: str


@dataclass
class Findings:
    """The result of a check.

    Attributes:
        versions: Number of versions that were checked.
        files: Number of files that they refer to.
        size: Size in bytes of those that exist.
        faults: The faults that were found.
    """

    versions: int = 0
    files: int = 0
    size: int = 0
    faults: list[Fault] = field(default_factory=list)
