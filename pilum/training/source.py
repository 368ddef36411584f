"""`RowSource`: the rows of a table by number, for loaders that choose the order themselves.

    source[7]            one row: a dict of values
    source[[7, 3, 3]]    one read: a dict of arrays, of three rows each
    len(source)          the number of rows

This is what Grain calls a random-access source and PyTorch a map-style dataset, whose fetchers ask
for the rows of a batch at once by `__getitems__`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex, overload

from numpy.typing import NDArray

from pilum.arguments import positions
from pilum.dataset.projection import Columns
from pilum.dataset.scan import Filter
from pilum.training.arrays import numpy_columns
from pilum.training.rows import Table, TableRows, opened

__all__ = ["RowSource"]


class RowSource:
    """Random access to the rows of one version of a table, as values and arrays of NumPy.

    Pickled as location and version. A copy in a forked or spawned process opens its own files.
    """

    def __init__(
        self,
        dataset: Table,
        columns: Columns | None = None,
        filter: Filter | None = None,
        *,
        with_row_id: bool = False,
        dataset_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Open a table.

        Args:
            dataset: A dataset, or the location of one.
            columns: As in `LanceDataset.scanner`.
            filter: SQL; only rows for which it is true are counted and numbered.
            with_row_id: Whether to add the column `_rowid`.
            dataset_options: Keywords of `pilum.dataset`, for a location.

        Raises:
            InvalidInputError: If an argument is invalid.
            DatasetNotFoundError: If no table exists there.
        """
        self._rows = TableRows(opened(dataset, dataset_options), columns, filter, with_row_id)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: SupportsIndex) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: Sequence[int] | NDArray[Any]) -> dict[str, NDArray[Any]]: ...

    def __getitem__(self, index: Any) -> dict[str, Any]:
        """Return one row, or the arrays of several rows in the given order.

        Raises:
            IndexError: If there is no such row.
            InvalidInputError: If a column has nulls that no array can have.
        """
        if not hasattr(index, "__index__"):
            return self._columns(index)
        number = int(index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"row {number} of {len(self)} rows")
        return {name: values[0] for name, values in self._columns([number % len(self)]).items()}

    def __getitems__(self, indices: Any) -> list[dict[str, Any]]:
        """Return several rows, each as a dict, with one read for all of them."""
        columns = self._columns(indices)
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _columns(self, indices: Any) -> dict[str, NDArray[Any]]:
        rows = positions(indices, len(self))
        return numpy_columns(self._rows.take(rows))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._rows.table!r}, {len(self)} rows)"
