"""Columns of another type: their values are cast and written to one more file per fragment.

    schema     a int64 (0)   b (1)            a int32 (2)   b (1)
    files      f: 0, 1                ──▶     f: 0, 1       g: 2

The column keeps its place and gets a new id; what is below the old one stays in the old file, for
older versions. Source: docs/format/table.md, "Columns come and go".
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from pilum.arrays.retype import retyped
from pilum.errors import InvalidInputError
from pilum.format.schema import FieldId
from pilum.table.changes.add_columns import write_columns
from pilum.table.changes.cast import cast_field
from pilum.table.changes.schema_changes import Altered
from pilum.table.commit.operations.indices import related_fields
from pilum.table.commit.operations.merge import Merge
from pilum.table.model.index_segments import index_segments
from pilum.table.read.scan import ScanOptions, scan
from pilum.table.read.snapshot import Snapshot

__all__ = ["cast_columns", "require_no_index"]


def cast_columns(snapshot: Snapshot, wanted: Altered) -> Merge:
    """Writes values under their new types; the table stays until the result is committed.

    Raises:
        SchemaMismatchError: If a value does not fit its new type.
        InvalidInputError: If a column has an index.
        UnsupportedTypeError: If files of the table's version cannot hold a type.
        UnsupportedVersionError: If the table is of version 0.1, or of 2.0 and a member changes.
        OSError: If the store failed. Whatever is raised, no file is left.
    """
    require_no_index(snapshot, [field.id for field in wanted.origins.values()])
    new, old = wanted.new, {field.id: field for field in snapshot.schema.fields}
    sources = [wanted.origins.get(field.id) or old[field.id] for field in new.fields]

    def cast(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            retyped(cast_field(column, source, field, wanted.origins), field.arrow_type)
            for column, source, field in zip(batch.columns, sources, new.fields, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=new.arrow)

    batches = scan(snapshot, ScanOptions(columns=tuple(field.name for field in sources)))
    return write_columns(snapshot, wanted.schema, new, map(cast, batches))


def require_no_index(snapshot: Snapshot, field_ids: Collection[FieldId]) -> None:
    """Refuses fields that have an index: it would be of no use, and go; better to say so before.

    Raises:
        InvalidInputError: If there is an index of one, of what is above it, or of what is below.
    """
    changed = related_fields(snapshot.schema, field_ids)
    segments = index_segments(snapshot.manifest.index_section)
    names = sorted({one.name for one in segments if not changed.isdisjoint(one.field_ids)})
    if names:
        raise InvalidInputError(
            f"{snapshot.store.uri}: a column that gets another type has the indices {names}; "
            "drop them before (drop_index)"
        )
