"""The rows of a table that training reads: all of them, or those that match a filter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.dataset.base import options_of
from pilum.dataset.lance_dataset import LanceDataset, dataset
from pilum.dataset.projection import Columns
from pilum.dataset.scan import Filter
from pilum.errors import InvalidInputError
from pilum.format.meta_columns import ROW_ID, ROW_OFFSET
from pilum.lazy import cached_property

__all__ = ["Table", "TableRows", "one_batch", "opened"]

Table: TypeAlias = LanceDataset | str | PathLike[str]
"""An open dataset, or the location of one."""


def opened(table: Table, options: Mapping[str, Any] | None = None) -> LanceDataset:
    """Open a table at one version; `options` are keywords of `pilum.dataset`, for a location.

    Changes that move the given dataset to another version do not move the result.
    """
    if isinstance(table, LanceDataset):
        return LanceDataset.pinned(table.uri, options_of(table, None), table.snapshot)
    return dataset(table, **(options or {}))


@dataclass(frozen=True)
class TableRows:
    """The rows of one version of a table, numbered from 0 in scan order.

    Pickled as location and version. The copy in another process opens its own files, and finds the
    rows that match the filter again.

    Attributes:
        table: The open dataset.
        columns: As in `LanceDataset.scanner`.
        filter: SQL; only rows for which it is true are counted. Their positions, 8 bytes for each,
            are kept in memory.
        with_row_id: Whether to add the column `_rowid`.
    """

    table: LanceDataset
    columns: Columns | None = None
    filter: Filter | None = None
    with_row_id: bool = False

    def __post_init__(self) -> None:
        if self.with_row_id and isinstance(self.columns, Mapping):
            raise InvalidInputError(f"with_row_id: add {ROW_ID!r} to the computed columns instead")
        if self.with_row_id:
            names = self.table.schema.names if self.columns is None else self.columns
            object.__setattr__(self, "columns", list(dict.fromkeys([*names, ROW_ID])))

    def __reduce__(self) -> tuple[Any, ...]:
        return TableRows, (self.table, self.columns, self.filter)

    def __len__(self) -> int:
        return self.table.count_rows() if self._matching is None else len(self._matching)

    @property
    def fragment_rows(self) -> tuple[int, ...]:
        """The number of these rows in each fragment."""
        bounds = self._bounds
        if self._matching is not None:
            bounds = np.searchsorted(self._matching, bounds)
        return tuple(np.diff(bounds).tolist())

    @property
    def _bounds(self) -> NDArray[np.int64]:
        """The number of rows of the table before each fragment, and in total."""
        fragments = self.table.get_fragments()
        return np.cumsum([0, *(one.count_rows() for one in fragments)], dtype=np.int64)

    @cached_property
    def _matching(self) -> NDArray[np.int64] | None:
        """The positions of the rows that match the filter; None if there is no filter."""
        if self.filter is None:
            return None
        found = self.table.to_table([ROW_OFFSET], filter=self.filter)
        offsets: NDArray[np.uint64] = found[ROW_OFFSET].to_numpy()
        return offsets.astype(np.int64)

    def take(self, rows: NDArray[np.int64]) -> pa.RecordBatch:
        """Read rows by their number, in the given order."""
        at = rows if self._matching is None else self._matching[rows]
        return one_batch(self.table.take(at, self.columns))


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table as one batch; nothing is copied if each column has one chunk."""
    if table.num_rows == 0:
        return pa.RecordBatch.from_pylist([], table.schema)
    (batch,) = table.combine_chunks().to_batches()
    return batch
