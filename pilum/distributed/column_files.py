"""Column files: new columns, or new values of existing columns, for one fragment each.

    describe ──▶ the fields of the files                 once, when the work is planned
    write_column_file ──▶ ColumnFile                     for each fragment, on any machine
    committed as Merge or DataReplacement                once for all, or for some at a time

A finished file stays valid while its fragment keeps the files that the values were computed from.
More rows may be deleted in between, but no deleted row may be restored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pilum.arrays import chosen
from pilum.dataset.projection import bind_values, computed
from pilum.dataset.udf import BatchUDF, Function
from pilum.errors import ColumnNotFoundError, FilterError, InvalidInputError
from pilum.expressions import bind_projection
from pilum.format.meta_columns import ROW_ID
from pilum.format.schema import Schema
from pilum.table.changes.add_columns import (
    in_structs,
    new_files,
    require_addable,
    require_no_index,
    with_values,
)
from pilum.table.changes.schema_changes import first_free_id, with_new_columns
from pilum.table.model.fragment import DataFile, Fragment
from pilum.table.read.scan import ScanOptions, scan
from pilum.table.read.snapshot import Snapshot
from pilum.table.write.align import align

if TYPE_CHECKING:
    from pilum.expressions.filter import BoundProjection

__all__ = [
    "ColumnFile",
    "ColumnValues",
    "added_columns",
    "replaced_columns",
    "swapped_columns",
    "write_column_file",
]


@dataclass(frozen=True)
class ColumnValues:
    """The computation of column values: by expressions, or by a function of batches.

    Attributes:
        texts: Column names and SQL expressions; None if there is a function.
        function: Function of a record batch; None if there are expressions.
        schema: Schema of the function's results.
        reads: The columns that are passed to the function; None for all.
        batch_size: Rows per batch; None for 8,192.
        where: Rows for which this SQL condition is not true keep their values; None for no
            condition. Only valid for existing columns.
    """

    texts: Mapping[str, str] | None = None
    function: Function | None = None
    schema: pa.Schema | None = None
    reads: tuple[str, ...] | None = None
    batch_size: int | None = None
    where: str | None = None

    def facts(self) -> dict[str, object]:
        """Return the known facts about the values in JSON form, without the code of a function."""
        return {
            "texts": self.texts and dict(self.texts),
            "schema": self.schema and str(self.schema),
            "reads": self.reads,
            "where": self.where,
        }

    @property
    def udf(self) -> BatchUDF | None:
        """Return the function with its result schema; None if there is no function."""
        return None if self.function is None else BatchUDF(self.function, self.schema)


@dataclass(frozen=True)
class ColumnFile:
    """A finished column file, and the fragment as it was when the values were computed.

    `file` is None if all rows of the fragment are deleted.
    """

    fragment: Fragment
    file: DataFile | None

    def fits(self, fragment: Fragment) -> bool:
        """Return whether the file can be added to the current state of a fragment."""
        mine = self.fragment
        same = (mine.id, mine.all_files, mine.physical_rows)
        if same != (fragment.id, fragment.all_files, fragment.physical_rows):
            return False
        return mine.deletion_file in {None, fragment.deletion_file}

    def is_in(self, fragment: Fragment) -> bool:
        """Return whether a fragment contains the file."""
        return self.file is not None and self.file.path in {one.path for one in fragment.files}

    def to_json(self) -> str:
        """Return the file as JSON."""
        file = None if self.file is None else self.file.to_json()
        return json.dumps({"fragment": self.fragment.to_json(), "file": file})

    @classmethod
    def from_json(cls, text: str | bytes) -> ColumnFile:
        """Read what `to_json` wrote; raise InvalidInputError if the text has another form."""
        try:
            values = json.loads(text)
            fragment, file = values["fragment"], values["file"]
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidInputError(f"not a file of columns: {text!r:.200}") from error
        return cls(Fragment.from_json(fragment), file and DataFile.from_json(file))


def added_columns(snapshot: Snapshot, values: ColumnValues) -> tuple[Schema, Schema]:
    """Return the schema of the table to come, and the schema of the new column files."""
    if values.where is not None:
        raise InvalidInputError("where: only for columns that the table has")
    schema, new = with_new_columns(snapshot.manifest, _announced(snapshot, values))
    require_addable(snapshot, new)
    return schema, new


def swapped_columns(snapshot: Snapshot, values: ColumnValues) -> tuple[Schema, Schema]:
    """Return the schema of the table to come, and the new columns that replace columns by name."""
    announced, manifest = _announced(snapshot, values), snapshot.manifest
    old = manifest.schema
    if unknown := [name for name in announced.names if name not in old.by_name]:
        raise ColumnNotFoundError(f"no columns {unknown}; the columns are {old.names}")
    if keys := set(old.primary_key).intersection(announced.names):
        raise InvalidInputError(f"the columns {sorted(keys)} are part of the primary key")
    require_no_index(snapshot, [old.field(name).id for name in announced.names])
    # Ids of old columns are never reused: files and older versions may hold their values.
    left = replace(
        manifest,
        schema=Schema(tuple(one for one in old.fields if one.name not in announced.names)),
        max_allocated_field_id=first_free_id(manifest) - 1,
    )
    _, new = with_new_columns(left, announced)
    require_addable(snapshot, new)
    fields = (new.by_name.get(one.name, one) for one in old.fields)
    return Schema(tuple(fields), old.metadata), new


def replaced_columns(snapshot: Snapshot, values: ColumnValues) -> Schema:
    """Return the columns of the table that are stored in files with new values."""
    names = list(values.texts or values.schema.names if values.schema else values.texts or ())
    if not names:
        raise InvalidInputError("no columns to update")
    if unknown := [name for name in names if name not in snapshot.schema.by_name]:
        raise ColumnNotFoundError(f"no columns {unknown}; the columns are {snapshot.schema.names}")
    new = Schema(tuple(snapshot.schema.field(name) for name in names))
    require_addable(snapshot, new, replaces=True)
    if values.texts is not None:
        bind_values(values.texts, snapshot.schema, snapshot.described.arrow)
    else:
        align(_announced(snapshot, values), new)
    _condition(snapshot, values)
    return new


def write_column_file(
    snapshot: Snapshot,
    fragment: Fragment,
    new: Schema,
    values: ColumnValues,
    *,
    replaces: bool,
    file_name_prefix: str | None = None,
) -> ColumnFile:
    """Compute and write the columns of one fragment; the table does not change.

    `new` is the schema of the file, `values` how they are computed. `replaces` says whether the
    columns exist; `file_name_prefix` identifies the writer.
    """
    batches = (_replaced if replaces else _added)(snapshot, fragment, new, values)
    with new_files(snapshot.store) as written:
        grown = with_values(snapshot, fragment, new, batches, written, file_name_prefix)
    return ColumnFile(fragment, grown.files[-1] if written else None)


def _announced(snapshot: Snapshot, values: ColumnValues) -> pa.Schema:
    if values.texts is not None:
        return computed(snapshot, values.texts, None, ())[0]
    if values.schema is None or not callable(values.function):
        raise InvalidInputError("output_schema: needed for a function")
    return values.schema


def _added(
    snapshot: Snapshot, fragment: Fragment, new: Schema, values: ColumnValues
) -> Iterator[pa.RecordBatch]:
    ids = (fragment.id,)
    batches: Iterator[pa.RecordBatch]
    if values.texts is not None:
        _, batches = computed(snapshot, values.texts, values.batch_size, ids)
    else:
        batches = _results(snapshot, fragment, values)
    alignment = align(_announced(snapshot, values), new)
    return in_structs(snapshot, new, map(alignment.batch, batches), ids)


def _results(
    snapshot: Snapshot, fragment: Fragment, values: ColumnValues
) -> Iterator[pa.RecordBatch]:
    udf = values.udf
    assert udf is not None
    options = ScanOptions(values.reads, batch_size=values.batch_size, fragment_ids=(fragment.id,))
    return map(udf.apply, scan(snapshot, options))


def _condition(snapshot: Snapshot, values: ColumnValues) -> BoundProjection | None:
    if values.where is None:
        return None
    found = bind_projection(values.where, snapshot.described.arrow)
    if found.field.type != pa.bool_():
        raise FilterError(f"where: expected a condition, found {found.field.type}")
    return found


def _replaced(
    snapshot: Snapshot, fragment: Fragment, new: Schema, values: ColumnValues
) -> Iterator[pa.RecordBatch]:
    where = _condition(snapshot, values)
    texts = values.texts or {}
    bound = bind_values(texts, snapshot.schema, snapshot.described.arrow)
    everything = tuple(snapshot.schema.names)
    reads = () if values.function is None else values.reads or everything
    for one in (*bound.values(), *([where] if where else [])):
        reads += one.columns
    wanted = (*reads, *(new.names if where else ())) or (ROW_ID,)
    columns = _without_covered(tuple(dict.fromkeys(wanted)))
    options = ScanOptions(columns, batch_size=values.batch_size, fragment_ids=(fragment.id,))
    arrow = new.arrow if values.schema is None else values.schema
    alignment = align(arrow, new)
    udf = values.udf
    for batch in scan(snapshot, options):
        if udf is None:
            arrays = [one.evaluate(batch) for one in bound.values()]
            fresh = pa.RecordBatch.from_arrays(arrays, list(bound))
        else:
            fresh = udf.apply(batch.select(values.reads or everything))
        fresh = alignment.batch(fresh).select(new.names)
        yield fresh if where is None else _chosen(where.evaluate(batch), fresh, batch)


def _without_covered(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names, without members of structs that are named as a whole."""
    parts = [name.split(".") for name in names]
    above = [{".".join(part[:depth]) for depth in range(1, len(part))} for part in parts]
    return tuple(name for name, path in zip(names, above, strict=True) if path.isdisjoint(names))


def _chosen(mask: pa.Array, fresh: pa.RecordBatch, old: pa.RecordBatch) -> pa.RecordBatch:
    """Return new values where the mask is true, and old values elsewhere."""
    mask = pc.fill_null(mask, False)
    columns = [
        chosen(mask, fresh.column(name), old.column(name), f"column {name!r}")
        for name in fresh.schema.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=fresh.schema)
