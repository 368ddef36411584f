"""Footprints: what an operation relies on and what it changes, the one rule for conflicts.

A commit that read version r is compared with everything that others committed after r. Each
operation declares, in one vocabulary, what must not change for its result to stay valid and what it
changes. Two operations conflict where the first relies on what the second changed. The severity is
a property of the resource itself:

    A, then B   Append  Delete  Update  Rewrite  Replace  Overwrite  Restore  Merge  Project  Config
    Append        .       .       .        .        .         I         I       n       n       .
    Delete        .       f       f        F        F         I         I       R       .       .
    Update        i       f       f,i      F        F         I         I       R       n       .
    Overwrite     .       .       .        .        .         R         .       .       .       k
    Merge         R       R       R        R        R         I         I       R       I       s
    Project       n       .       n        .        n         I         I       R       R       m
    Restore       .       .       .        .        .         .         .       .       .       t
    Config        .       .       .        .        .         t         t       s       .       c

    .  compatible     R  repeat the work on the latest version     I  incompatible
    n  R unless the operation that changes columns requires no values where nulls were allowed
    F  R if both touch a fragment
    f  if both touch a fragment, A is rebased where B only deleted other rows; else R
    i  R if A inserts rows because their keys were not there
    k  I if both are about one key of the config, which one of them sets
    t  I if the Config is about metadata of the schema or of fields; after an overwrite also as k
    s  R if the Config is about metadata of the schema or of fields
    m  if the Config is about metadata of fields that are left, A adopts these where it changes
       none itself; else R
    c  as k; I if both are about one key of the table's metadata, one field, or the schema

After a change of the write-ahead log all but a Config are I. After an overlay, a merge, a
projection that requires values, and an update or rewrite of its fragments are R. After any other
operation, none conflicts. Config is `UpdateConfig`; Replace is `DataReplacement`, and an `Update`
that rewrites columns.

A `DataReplacement` is I after a delete or update of all rows of one of its fragments, an overwrite
or a restore. It is R after what moved rows of one, after other new values for a field of one, after
a merge, after a new index on one of its fields, and as n after a projection.

A `CreateIndex` is I after an overwrite or a restore. It is R after another that adds an index of
the name, or removes one that it adds to; after a rewrite of a fragment that it covers (of any, if
its coverage is unknown); and after new files with values of a field that it indexes.

A `DataOverlay` is I after an overwrite or a restore, R after what moved or removed the rows of one
of its fragments and after a merge, and as n after a projection.

An `UpdateBases` is I after another that takes an id, a name or a path of its own.

Source: docs/format/table.md, "Conflicts".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum

__all__ = [
    "Footprint",
    "Kind",
    "Resource",
    "Verdict",
    "cells_of",
    "fragment_ids_of",
    "resources",
    "verdict",
]


class Verdict(IntEnum):
    """The severity of a conflict, from harmless to final.

    A mergeable conflict is one that an operation may resolve by adopting the changes of others
    (`Operation.rebase`). If it cannot, the work has to be repeated.
    """

    COMPATIBLE = 0
    MERGEABLE = 1
    RETRYABLE = 2
    INCOMPATIBLE = 3


class Kind(Enum):
    """The kinds of resources that operations rely on or change.

    Attributes:
        text: What it is, for messages.
        verdict: Severity of a conflict over it.
    """

    HISTORY = "the rows that the commit continues", Verdict.INCOMPATIBLE
    REPLACEMENT = "the right to replace all rows", Verdict.RETRYABLE
    REQUIRED_COLUMNS = "the columns that must not be null", Verdict.RETRYABLE
    MEMTABLES = "the state of the write-ahead log", Verdict.INCOMPATIBLE
    CONFIG_KEY = "a key of the config", Verdict.INCOMPATIBLE
    REMOVED_CONFIG_KEY = "a removed key of the config", Verdict.INCOMPATIBLE
    TABLE_METADATA_KEY = "a key of the table's metadata", Verdict.INCOMPATIBLE
    SCHEMA_METADATA = "the metadata of the schema", Verdict.INCOMPATIBLE
    FIELD_METADATA = "the metadata of field", Verdict.INCOMPATIBLE
    COLUMNS = "the list of columns", Verdict.RETRYABLE
    METADATA = "the metadata of the schema and of fields", Verdict.INCOMPATIBLE
    FRAGMENT_LIST = "the list of fragments", Verdict.RETRYABLE
    FRAGMENT = "the data files of fragment", Verdict.RETRYABLE
    DELETED_ROWS = "the deleted rows of fragment", Verdict.MERGEABLE
    ROWS = "the rows", Verdict.RETRYABLE
    WRITTEN_VALUES = "the values that were written", Verdict.RETRYABLE
    NEW_ROWS = "the keys of new rows", Verdict.RETRYABLE
    SCHEMA = "the columns", Verdict.RETRYABLE
    PROJECTION = "the columns that are left", Verdict.INCOMPATIBLE
    DESCRIPTIONS = "what the columns are said to be", Verdict.RETRYABLE
    FIELD_DESCRIPTION = "what is said of field", Verdict.MERGEABLE
    BASE_PATH = "a base path", Verdict.INCOMPATIBLE
    NEW_INDEX = "the index", Verdict.RETRYABLE
    REMOVED_INDEX = "the removed index", Verdict.RETRYABLE
    INDEXED_FIELD = "the index on field", Verdict.RETRYABLE
    INDEXED_FRAGMENT = "the index of fragment", Verdict.RETRYABLE
    ROW_ADDRESSES = "where the rows are of fragment", Verdict.RETRYABLE
    REPLACED_FIELD = "the values of field", Verdict.RETRYABLE
    WHOLE_FRAGMENT = "fragment", Verdict.INCOMPATIBLE
    PLACES = "the places of the rows of fragment", Verdict.RETRYABLE
    OVERLAYS = "the overlays of fragment", Verdict.RETRYABLE
    CELLS = "the values of fragment and field", Verdict.RETRYABLE

    def __init__(self, text: str, verdict: Verdict) -> None:
        self.text = text
        self.verdict = verdict


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource; `key` distinguishes resources of one kind."""

    kind: Kind
    key: str = ""

    def __str__(self) -> str:
        return f"{self.kind.text} ({self.key!r})" if self.key else self.kind.text


@dataclass(frozen=True, slots=True)
class Footprint:
    """The resources that an operation relies on, and those that it changes."""

    relies_on: frozenset[Resource] = frozenset()
    changes: frozenset[Resource] = frozenset()

    @classmethod
    def of(
        cls, *, relies_on: Iterable[Kind | Resource] = (), changes: Iterable[Kind | Resource] = ()
    ) -> Footprint:
        """Return a footprint; a kind alone is its resource without a key."""
        return cls(frozenset(map(_resource, relies_on)), frozenset(map(_resource, changes)))


def _resource(given: Kind | Resource) -> Resource:
    return given if isinstance(given, Resource) else Resource(given)


def resources(kind: Kind, keys: Iterable[object]) -> frozenset[Resource]:
    """Return one resource for each key, such as the number of a fragment or field."""
    return frozenset(Resource(kind, str(key)) for key in keys)


def fragment_ids_of(things: Iterable[Resource]) -> tuple[int, ...]:
    """Return the fragments that resources refer to, ascending."""
    kinds = (Kind.FRAGMENT, Kind.DELETED_ROWS)
    return tuple(sorted({int(thing.key) for thing in things if thing.kind in kinds}))


def cells_of(fragments: Iterable[tuple[int, Iterable[int]]]) -> frozenset[Resource]:
    """Return one resource for each field of each fragment."""
    cells = (f"{number}, {field}" for number, fields in fragments for field in fields)
    return resources(Kind.CELLS, cells)


def verdict(first: Footprint, second: Footprint) -> tuple[Verdict, list[Resource]]:
    """Return whether `first` may be committed after `second`, and the resources that conflict."""
    clash = sorted(first.relies_on & second.changes, key=str)
    worst = max((thing.kind.verdict for thing in clash), default=Verdict.COMPATIBLE)
    return worst, clash
