"""Change the types of columns: cast their values to one more file for each fragment.

    schema     a int64 (0)   b (1)            a int32 (2)   b (1)
    files      f: 0, 1                ──▶     f: 0, 1       g: 2

The column keeps its place and gets a new id; the values of the old id stay in the old file, for
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
    """Write values with their new types; the table changes only when the result is committed.

    Raises:
        SchemaMismatchError: If a value does not fit its new type.
        InvalidInputError: If a column has an index.
        UnsupportedTypeError: If files of the table's version cannot hold a type.
        UnsupportedVersionError: If the table is of version 0.1, or of 2.0 and a member changes.
        OSError: If the store fails. After any exception, no file is left.
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
    """Check that no field has an index.

    A cast would drop the index, so the user is asked to do that first.

    Raises:
        InvalidInputError: If a field, a parent or a child of it has an index.
    """
    changed = related_fields(snapshot.schema, field_ids)
    segments = index_segments(snapshot.manifest.index_section)
    names = sorted({one.name for one in segments if not changed.isdisjoint(one.field_ids)})
    if names:
        raise InvalidInputError(
            f"{snapshot.store.uri}: a column that gets another type has the indices {names}; "
            "drop them before (drop_index)"
        )
