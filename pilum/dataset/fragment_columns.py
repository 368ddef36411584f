"""Columns of one fragment: new columns and new values, written on many machines and committed once.

grown = [fragment.merge_columns(function) for fragment in dataset.get_fragments()]
operation = LanceOperation.Merge([metadata for metadata, _ in grown], grown[0][1])
LanceDataset.commit(uri, operation, read_version=dataset.version)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, overload

import pyarrow as pa

from pilum.arguments import optional_count
from pilum.bitmap import roaring
from pilum.dataset.inputs import to_reader
from pilum.dataset.metadata import FragmentMetadata
from pilum.dataset.projection import computed
from pilum.dataset.udf import BatchUDF, Computation, Function
from pilum.errors import InvalidInputError
from pilum.schema import LanceSchema
from pilum.table.changes.add_columns import add_columns
from pilum.table.changes.join import Spool
from pilum.table.changes.joined_columns import Join, updated_columns
from pilum.table.commit.operations.merge import Merge
from pilum.table.model.fragment import Fragment
from pilum.table.read.snapshot import Snapshot

__all__ = ["FragmentColumns"]


class FragmentColumns:
    """Methods of `LanceFragment` for its columns."""

    _snapshot: Snapshot
    _fragment: Fragment

    def merge_columns(
        self,
        value_func: Mapping[str, str] | BatchUDF | Function | Any,
        columns: list[str] | None = None,
        batch_size: int | None = None,
        reader_schema: pa.Schema | None = None,
    ) -> tuple[FragmentMetadata, LanceSchema]:
        """Write new columns for this fragment.

        The table does not change until `LanceOperation.Merge` is committed.

        Args:
            value_func: The new columns, as in `LanceDataset.add_columns`, but always with values:
                expressions, a function, or values for the rows of the fragment. The committing
                process deletes the checkpoint file of a function.
            columns: The columns that are passed to a function; None for all columns.
            batch_size: Rows per batch when expressions or functions are evaluated.
            reader_schema: Schema that values are cast to.

        Returns:
            The fragment with one more file, and the schema of the table after the commit.

        Raises:
            SchemaMismatchError: If the table already has a column of that name, or values do not
                fit.
            FilterError: If an expression cannot be parsed, bound or evaluated.
            UnsupportedTypeError: If the file version of the table cannot store a type.
            UnsupportedVersionError: If the table has version 0.1, or struct members are added to a
                table of version 2.0.
            InvalidInputError: If the number of values differs from the number of rows, or if
                another argument is invalid.
        """
        optional_count("batch_size", batch_size, 1)
        if callable(value_func):
            computation = Computation.of(
                self._snapshot, value_func, columns, batch_size, self._fragment
            )
            return _grown(computation.merge())
        if columns is not None and not isinstance(value_func, Mapping):
            raise InvalidInputError("columns: only for functions")
        if isinstance(value_func, Mapping):
            ids = (self._fragment.id,)
            schema, batches = computed(self._snapshot, value_func, batch_size, ids)
            return self._with_columns(schema, batches)
        reader = to_reader(value_func, reader_schema)
        return self._with_columns(reader.schema, reader)

    def merge(
        self, data_obj: Any, left_on: str, right_on: str | None = None, schema: Any = None
    ) -> tuple[FragmentMetadata, LanceSchema]:
        """Write new columns by joining data on a key column (a left join).

        The table does not change until `LanceOperation.Merge` is committed; see
        `LanceDataset.merge`.

        Args:
            data_obj: The key column and the new columns; anything that `write_dataset` accepts.
            left_on: Key column of the table, or `_rowid` or `_rowaddr`.
            right_on: Key column of the data; None if it has the same name.
            schema: Schema that the data is cast to.

        Returns:
            The fragment with one more file, and the schema of the table after the commit.

        Raises:
            SchemaMismatchError: If the table already has a column of that name, or the data does
                not fit.
            ColumnNotFoundError: If the table does not have the key column.
            UnsupportedTypeError: If the file version of the table cannot store a type.
            UnsupportedVersionError: If the table has version 0.1.
            InvalidInputError: If the keys cannot be compared.
        """
        with Spool(to_reader(data_obj, schema)) as spool:
            join = self._join(spool, left_on, right_on)
            return self._with_columns(join.schema, join.values())

    @overload
    def update_columns(
        self,
        data_obj: Any,
        left_on: str = "_rowid",
        right_on: str | None = None,
        schema: pa.Schema | None = None,
        *,
        with_offsets: Literal[False] = False,
    ) -> tuple[FragmentMetadata, list[int]]: ...

    @overload
    def update_columns(
        self,
        data_obj: Any,
        left_on: str = "_rowid",
        right_on: str | None = None,
        schema: pa.Schema | None = None,
        *,
        with_offsets: Literal[True],
    ) -> tuple[FragmentMetadata, list[int], bytes]: ...

    def update_columns(
        self,
        data_obj: Any,
        left_on: str = "_rowid",
        right_on: str | None = None,
        schema: pa.Schema | None = None,
        *,
        with_offsets: bool = False,
    ) -> tuple[FragmentMetadata, list[int]] | tuple[FragmentMetadata, list[int], bytes]:
        """Rewrite columns with new values for the rows whose keys occur in the data.

        Rows are not moved, and other columns do not change. The table does not change until
        `LanceOperation.Update` with `update_mode="rewrite_columns"` is committed.

        Args:
            data_obj: The key column, and columns of the table. If several rows have the same key,
                the last one is used.
            left_on: Key column of the table, or `_rowid` or `_rowaddr`.
            right_on: Key column of the data; None if it has the same name.
            schema: Schema that the data is cast to.
            with_offsets: Whether to also return the rows that changed.

        Returns:
            The fragment with another file for these columns, and the ids of their fields; with
            `with_offsets` also the physical offsets of changed rows, as a Roaring bitmap.

        Raises:
            ColumnNotFoundError: If the table does not have a column of the data.
            SchemaMismatchError: If the data does not fit.
            UnsupportedTypeError: If a column contains blobs.
            UnsupportedVersionError: If the table has version 0.1.
            InvalidInputError: If the keys cannot be compared.
        """
        with Spool(to_reader(data_obj, schema)) as spool:
            updated = updated_columns(self._join(spool, left_on, right_on), self._fragment)
        metadata = FragmentMetadata.from_table(updated.fragment)
        fields = list(map(int, updated.fields))
        if not with_offsets:
            return metadata, fields
        return metadata, fields, roaring(updated.offsets.astype("uint32")).serialize()

    def _join(self, spool: Spool, left_on: str, right_on: str | None) -> Join:
        for name in (left_on, right_on):
            if not isinstance(name, str | None):
                raise InvalidInputError(f"expected the name of a key column, found {name!r}")
        return Join(self._snapshot, spool, left_on, right_on or left_on, (self._fragment.id,))

    def _with_columns(
        self, columns: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> tuple[FragmentMetadata, LanceSchema]:
        return _grown(add_columns(self._snapshot, columns, batches, self._fragment))


def _grown(merge: Merge) -> tuple[FragmentMetadata, LanceSchema]:
    (fragment,) = merge.fragments
    return FragmentMetadata.from_table(fragment), LanceSchema(merge.schema)
