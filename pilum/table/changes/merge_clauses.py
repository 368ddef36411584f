"""The clauses of a merge, and the columns of the source that it writes to the table.

Source: docs/format/table.md, "Updates".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import pyarrow as pa

from pilum.errors import InvalidInputError, SchemaMismatchError, UnsupportedFeatureError
from pilum.format.blobs import has_blobs
from pilum.format.schema import Schema
from pilum.table.changes.join import require_joinable
from pilum.table.read.snapshot import Snapshot
from pilum.table.write.align import Alignment, align

if TYPE_CHECKING:
    from pilum.expressions.filter import BoundFilter, BoundProjection

__all__ = ["SOURCE", "TARGET", "Clauses", "Matched", "merged_columns"]

SOURCE, TARGET = "source", "target"


class Matched(Enum):
    """The action for rows of the table whose key is in the source."""

    LEFT = "left"
    UPDATED = "updated"
    DELETED = "deleted"
    REFUSED = "refused"


@dataclass(frozen=True)
class Clauses:
    """The actions of a merge and their conditions.

    Attributes:
        keys: Key columns that are compared; at least one.
        matched: The action for rows that match.
        condition: Only pairs for which it is true are updated; it refers to `source.x` and
            `target.x`.
        deletes: Pairs for which it is true are deleted, before others are updated; it refers to the
            same columns.
        values: Expressions for the new values of columns, with the columns' types; they refer to
            `source.x` and `target.x`. None to use all columns of the source.
        inserts: Whether rows of the source that do not match are added.
        inserts_where: Only unmatched source rows for which it is true are added; it refers to
            `source.x`. None for all.
        deletes_others: Whether rows of the table that do not match are deleted.
        others: Only unmatched table rows for which it is true are deleted; None for all.
        columns: Source columns that are written to the table, the keys included; other columns
            serve conditions only. None for all.
        inserts_primary_keys: Whether the keys are the primary key of the table, so that no rows may
            be added concurrently.
    """

    keys: tuple[str, ...]
    matched: Matched = Matched.LEFT
    condition: BoundFilter | None = None
    values: Mapping[str, BoundProjection] | None = None
    inserts: bool = False
    deletes_others: bool = False
    others: BoundFilter | None = None
    inserts_primary_keys: bool = False
    deletes: BoundFilter | None = None
    inserts_where: BoundFilter | None = None
    columns: tuple[str, ...] | None = None

    @property
    def takes_all(self) -> bool:
        """Return whether columns of the source become columns of the table."""
        return self.inserts or (self.matched is Matched.UPDATED and self.values is None)

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the columns that conditions and values use, each with its side.

        For example `source.x`, `target.x` and `target.x.y`.
        """
        conditions = [one for one in (self.condition, self.deletes) if one is not None]
        columns = [one.columns for one in conditions]
        columns += [one.columns for one in (self.values or {}).values()]
        return tuple(name for names in columns for name in names)


def merged_columns(snapshot: Snapshot, incoming: pa.Schema, clauses: Clauses) -> Alignment:
    """Align the columns of a source with those of the table; only its keys, if no others are used.

    Raises:
        SchemaMismatchError: If the source does not fit the table.
        InvalidInputError: If keys have a type that cannot be looked up.
        UnsupportedFeatureError: If blobs are nested in other columns.
    """
    schema, keys = snapshot.schema, list(clauses.keys)
    if missing := [name for name in keys if name not in incoming.names]:
        raise SchemaMismatchError(f"the source lacks the key columns {missing}")
    names = list(clauses.columns or incoming.names) if clauses.takes_all else keys
    incoming = pa.schema([incoming.field(name) for name in names])
    if not clauses.inserts:  # no column of the table is missing in a row
        present = (one for one in schema.fields if one.name in incoming.names)
        schema = Schema(tuple(present), schema.metadata)
    alignment = align(incoming, schema)
    inner = [one for one in alignment.schema.fields if has_blobs(one) and not one.blob_version]
    if inner and snapshot.manifest.data_version.has_blobs_v2:
        raise UnsupportedFeatureError(
            f"columns with blobs inside of them cannot be merged: {[one.name for one in inner]}; "
            "leave them out, or delete and insert"
        )
    if blobs := [name for name in keys if has_blobs(alignment.schema.by_name[name])]:
        raise InvalidInputError(f"columns of blobs cannot be keys: {blobs}")
    require_joinable(alignment.schema.project(keys).arrow)
    if clauses.matched is Matched.UPDATED and clauses.values is None:
        for one in alignment.schema.fields:
            if not one.blob_version and one.ids != snapshot.schema.by_name[one.name].ids:
                raise SchemaMismatchError(
                    f"column {one.name!r} of the source lacks members that the table has"
                )
    return alignment
