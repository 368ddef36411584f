"""The columns of a file of a segment as arrays, of which some rows are read, or later all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.errors import CorruptFileError
from pilum.format.rows import RowRanges
from pilum.index.files import IndexFile
from pilum.index.scalar.read_costs import ReadCosts

__all__ = ["StoredRows"]

Columns: TypeAlias = tuple[NDArray[Any], NDArray[Any]]


class StoredRows:
    """Two columns without nulls, of numbers, or of lists or structs of numbers of one size.

    Args:
        file: The file.
        schema: The columns that it must have.
        check: Function that is called with what is read: the arrays and the rows.

    Attributes:
        whole: The whole columns, if they are kept.
    """

    def __init__(
        self, file: IndexFile, schema: pa.Schema, check: Callable[[Columns, RowRanges], None]
    ) -> None:
        """Check the types of the columns.

        Raises:
            CorruptFileError: If they are others.
        """
        self.whole: Columns | None = None
        self._file = file
        self._names = schema.names
        self._check = check
        self._costs = ReadCosts(file)
        found = [_kind(field.type) for field in file.schema]
        if file.schema.names != self._names or found != [_kind(field.type) for field in schema]:
            raise CorruptFileError(
                f"expected the columns {_shown(schema)}, found {_shown(file.schema)}", file.path
            )

    @property
    def size_bytes(self) -> int:
        """The memory that is kept."""
        return 0 if self.whole is None else self.whole[0].nbytes + self.whole[1].nbytes

    def load(self) -> Columns:
        """Read all rows, keep them and return them.

        Raises:
            CorruptFileError: If the file is damaged.
        """
        self.whole = self.read(RowRanges.of((0, self._file.num_rows)))
        return self.whole

    def at(self, rows: RowRanges) -> Columns:
        """Return rows; from memory, if they are kept.

        Raises:
            CorruptFileError: If the file is damaged.
        """
        whole = self.whole
        if whole is None:
            if not self._costs.reads_whole(rows):
                return self.read(rows)
            whole = self.load()
        places = rows.rows()
        return whole[0][places], whole[1][places]

    def read(self, rows: RowRanges) -> Columns:
        """Read rows, without keeping them.

        Raises:
            CorruptFileError: If the file is damaged.
        """
        table = self._file.read(self._names, rows)
        first, second = (self._array(column.combine_chunks()) for column in table.columns)
        self._check((first, second), rows)
        return first, second

    def _array(self, column: pa.Array) -> NDArray[Any]:
        if pa.types.is_struct(column.type):
            members = [self._array(member) for member in column.flatten()]
            return np.stack(members).T  # each member in one piece
        is_list = pa.types.is_fixed_size_list(column.type)
        items = column.flatten() if is_list else column
        width = column.type.list_size if is_list else 1
        if column.null_count or items.null_count or len(items) != width * len(column):
            raise CorruptFileError("rows that are null", self._file.path)
        values: NDArray[Any] = items.to_numpy()
        return values.reshape(-1, width) if is_list else values


def _kind(type: pa.DataType) -> tuple[pa.DataType, int]:
    """Return what matters about a type: whether items can be null is not always stored."""
    if pa.types.is_struct(type):
        return pa.struct([(member.name, member.type) for member in type]), 0
    is_list = pa.types.is_fixed_size_list(type)
    return (type.value_type, type.list_size) if is_list else (type, 0)


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
