"""What an operation relies on and what it changes: the one rule for conflicts.

A commit that read version r meets everything that others committed after r. Each operation says,
in one vocabulary, what must stay as it was for its work to make sense and what it changes. Two
operations conflict where the first relies on what the second changed; how badly is a property of
the thing itself:

    A, then B committed   Append   Overwrite   Restore   UpdateConfig   Project   mem-WAL
    Append                  .         I           I           .            n         I
    Overwrite               .         R           .           k            .         I

    .  compatible     R  do the work again on the latest version     I  incompatible
    n  R unless B kept the columns that must not be null     k  I if they share a config key

Source: docs/format/table.md, "Conflicts".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

__all__ = ["Footprint", "Kind", "Resource", "Verdict", "verdict"]


class Verdict(IntEnum):
    """What a conflict means for the commit, from harmless to final."""

    COMPATIBLE = 0
    RETRYABLE = 1
    INCOMPATIBLE = 2


class Kind(Enum):
    """Things that operations rely on or change."""

    HISTORY = "the rows that the commit continues"
    REPLACEMENT = "the right to replace all rows"
    REQUIRED_COLUMNS = "the columns that must not be null"
    MEMTABLES = "the state of the write-ahead log"
    CONFIG_KEY = "a key of the config"


_VERDICTS = {
    Kind.HISTORY: Verdict.INCOMPATIBLE,
    Kind.REPLACEMENT: Verdict.RETRYABLE,
    Kind.REQUIRED_COLUMNS: Verdict.RETRYABLE,
    Kind.MEMTABLES: Verdict.INCOMPATIBLE,
    Kind.CONFIG_KEY: Verdict.INCOMPATIBLE,
}


@dataclass(frozen=True, slots=True)
class Resource:
    """One thing; `key` tells things of one kind apart."""

    kind: Kind
    key: str = ""

    def __str__(self) -> str:
        return f"{self.kind.value} ({self.key!r})" if self.key else self.kind.value


@dataclass(frozen=True, slots=True)
class Footprint:
    """What an operation relies on, and what it changes for others."""

    relies_on: frozenset[Resource] = frozenset()
    changes: frozenset[Resource] = frozenset()

    @classmethod
    def of(cls, *, relies_on: tuple[Kind, ...] = (), changes: tuple[Kind, ...] = ()) -> Footprint:
        """A footprint of things without keys."""
        return cls(frozenset(map(Resource, relies_on)), frozenset(map(Resource, changes)))


def verdict(first: Footprint, second: Footprint) -> tuple[Verdict, list[Resource]]:
    """Whether `first` may be committed after `second`, and over what they clash."""
    clash = sorted(first.relies_on & second.changes, key=str)
    worst = max((_VERDICTS[thing.kind] for thing in clash), default=Verdict.COMPATIBLE)
    return worst, clash
