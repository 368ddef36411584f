"""Look up values from another table for the rows of this one, by equal keys.

    rows of the table    1  2  3  4         keys of the source    2  4  4
    matched              –  x  –  x         its rows              –  0  –  2      the last of two

The source may be larger than memory (`Spool`), and so may the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arrays import join_arrays, taken
from pilum.errors import InvalidInputError, SchemaMismatchError
from pilum.format.fields import FieldId
from pilum.format.meta_columns import ROW_ADDRESS
from pilum.format.rows import rows_of
from pilum.format.schema import Schema
from pilum.table.changes.add_columns import new_files, require_addable, with_values
from pilum.table.changes.join import Spool, join_keys, require_joinable
from pilum.table.model.fragment import Fragment
from pilum.table.read.scan import ScanOptions, scan, scan_schema
from pilum.table.read.snapshot import Snapshot
from pilum.table.write.align import align
from pilum.table.write.forms import converted, table_form

__all__ = ["Join", "Updated", "updated_columns"]


@dataclass(frozen=True)
class Join:
    """A version of a table and a source, a spool, whose rows are looked up by a key.

    The key column of the table can be `_rowid` or `_rowaddr`; `fragment_ids` is None for all.
    """

    snapshot: Snapshot
    spool: Spool
    left_on: str
    right_on: str
    fragment_ids: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.right_on not in self.spool.schema.names:
            raise SchemaMismatchError(
                f"the data has no column {self.right_on!r}; it has {self.spool.schema.names}"
            )
        key = scan_schema(self.snapshot, ScanOptions(columns=(self.left_on,))).field(0)
        require_joinable(pa.schema([key]))
        found = self.spool.schema.field(self.right_on).type
        if table_form(found, key.type) != key.type:
            raise SchemaMismatchError(
                f"the keys differ: {self.left_on!r} of the table is of type {key.type}, "
                f"{self.right_on!r} of the data of type {found}"
            )

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the values: the source without its key."""
        return pa.schema([one for one in self.spool.schema if one.name != self.right_on])

    def values(self) -> Iterator[pa.RecordBatch]:
        """Yield values for the live rows, in scan order; null without a match."""
        for _, _, rows in self._rows(()):
            matched = rows >= 0
            found = self._taken(rows[matched])
            places = pa.array(np.cumsum(matched) - 1, mask=~matched)
            columns = [
                taken(column, places) if len(column) else pa.nulls(len(rows), column.type)
                for column in found.columns
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def replaced(self, new: Schema) -> Iterator[tuple[NDArray[np.uint64], pa.RecordBatch]]:
        """Yield the addresses of matched rows, and columns of all rows, batch by batch.

        They are the columns `new` of the table, with the values of the source where a row matches.
        SchemaMismatchError is raised if the source does not fit them.
        """
        alignment = align(self.schema, new)
        for field in alignment.schema.fields:
            if field.ids != new.by_name[field.name].ids:
                raise SchemaMismatchError(
                    f"column {field.name!r} of the data lacks members that the table has, or has "
                    "them in another order"
                )
        for addresses, mine, rows in self._rows(tuple(new.names)):
            matched = rows >= 0
            theirs = alignment.batch(self._taken(rows[matched])).select(new.names)
            places = np.arange(len(rows))
            places[matched] = len(rows) + np.arange(len(theirs))
            columns = [
                taken(join_arrays([old, other], f"column {name!r}"), pa.array(places))
                for name, old, other in zip(new.names, mine, theirs.columns, strict=True)
            ]
            yield addresses[matched], pa.RecordBatch.from_arrays(columns, schema=new.arrow)

    def _taken(self, rows: NDArray[np.int64]) -> pa.RecordBatch:
        names = self.schema.names
        if not len(rows):
            return pa.RecordBatch.from_arrays(
                [pa.nulls(0, one.type) for one in self.schema], schema=self.schema
            )
        return self.spool.take(rows, names)

    def _rows(
        self, names: tuple[str, ...]
    ) -> Iterator[tuple[NDArray[np.uint64], list[pa.Array], NDArray[np.int64]]]:
        """Yield addresses and columns of rows, and their source rows, -1 where none matches."""
        kind = scan_schema(self.snapshot, ScanOptions(columns=(self.left_on,))).field(0).type
        columns = (batch.column(self.right_on) for batch in self.spool.batches)
        keys = (
            pa.RecordBatch.from_arrays([converted(one, kind, self.right_on)], [self.right_on])
            for one in columns
        )
        matches = join_keys(self.snapshot, [self.left_on], keys, self.fragment_ids)
        options = ScanOptions(columns=(*names, ROW_ADDRESS), fragment_ids=self.fragment_ids)
        for batch in scan(self.snapshot, options):
            *columns, column = batch.columns
            addresses = column.to_numpy()
            rows = np.full(len(addresses), -1, np.int64)
            if len(matches):
                last = np.searchsorted(matches.addresses, addresses, side="right") - 1
                found = (last >= 0) & (matches.addresses[last] == addresses)
                rows[found] = matches.rows[last[found]]
            yield addresses, columns, rows


@dataclass(frozen=True)
class Updated:
    """A fragment with new values in some columns.

    Attributes:
        fragment: The fragment with one more file; replaced fields are marked in the other files.
        fields: The fields in the new file.
        offsets: The physical rows with new values, uint64.
    """

    fragment: Fragment
    fields: tuple[FieldId, ...]
    offsets: NDArray[np.uint64]


def updated_columns(join: Join, fragment: Fragment) -> Updated:
    """Rewrite columns of one fragment; the table changes only when the result is committed.

    The `fragment_ids` of the join contain only this fragment. The errors are those of
    `LanceFragment.update_columns`; after any exception, no file is left.
    """
    schema = join.snapshot.schema
    if not join.schema.names:
        raise InvalidInputError("the data has no column but the key")
    new = Schema(tuple(schema.field(name) for name in join.schema.names))
    require_addable(join.snapshot, Schema(new.fields), replaces=True)
    changed = [np.empty(0, np.uint64)]

    def batches() -> Iterator[pa.RecordBatch]:
        for addresses, batch in join.replaced(new):
            changed.append(rows_of(addresses).view(np.uint64))
            yield batch

    with new_files(join.snapshot.store) as written:
        grown = with_values(join.snapshot, fragment, new, batches(), written)
    fields = tuple(one for one in grown.files[-1].fields) if written else ()
    old = tuple(file.without(fields) for file in fragment.files)
    files = (*old, *grown.files[len(fragment.files) :])
    result = replace(grown.with_other_values(fields), files=files)
    return Updated(result, fields, np.concatenate(changed))
