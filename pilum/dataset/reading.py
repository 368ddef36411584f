"""Reading a dataset: scans, takes by position or id, samples and counts."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any, Unpack

import pyarrow as pa

from pilum.arguments import positions, require_count
from pilum.arguments import row_ids as checked_row_ids
from pilum.dataset.base import DatasetBase
from pilum.dataset.fragment import LanceFragment
from pilum.dataset.options import BlobHandling, Columns, Filter, project, request
from pilum.dataset.scan_arguments import ScanArguments
from pilum.dataset.scanner import LanceScanner
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.expressions import bind
from pilum.table.read.json_columns import given_table
from pilum.table.read.scan import count_rows
from pilum.table.read.take import take, take_row_ids

__all__ = ["Reading"]


class Reading(DatasetBase):
    """Methods of `LanceDataset` for reading."""

    def scanner(
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        *,
        batch_size: int | None = None,
        scan_in_order: bool | None = None,
        fragments: Iterable[LanceFragment] | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        blob_handling: BlobHandling | None = None,
        **more: Unpack[ScanArguments],
    ) -> LanceScanner:
        """Create a scanner; nothing is read yet.

        Args:
            columns: Names and dotted paths in the requested order, or a dict of new names and SQL
                expressions; all columns if None. `_rowid`, `_rowaddr`, `_rowoffset`,
                `_row_created_at_version` and `_row_last_updated_at_version` may be named, here and
                in the filter.
            filter: SQL such as "a > 1 AND s LIKE 'x%'", or a `pyarrow.compute` expression. Rows for
                which it is false or null are excluded.
            limit: Maximum number of rows to return, counted after the filter.
            offset: Number of rows to skip, counted after the filter.
            batch_size: Maximum number of rows in a batch.
            scan_in_order: Whether rows must be in order; they are in order in either case.
            fragments: Fragments to scan; all if None.
            with_row_id: Whether to add the column `_rowid`, uint64.
            with_row_address: Whether to add the column `_rowaddr`, uint64.
            blob_handling: "all_binary" returns blobs as bytes. By default ("blobs_descriptions" or
                "all_descriptions") they are structs that describe where the bytes are.
            **more: `order_by`, `strict_batch_size`, `batch_size_bytes`, `include_deleted_rows`,
                `scan_stats_callback`, and hints without effect; see
                `pilum.dataset.scan_arguments.ScanArguments`.

        Raises:
            ColumnNotFoundError: If a named column does not exist.
            FilterError: If the filter or a computed column cannot be parsed or bound.
            UnsupportedFeatureError: If an index search is requested.
            InvalidInputError: If any other argument is invalid.
        """
        if self._scan_defaults:
            return self._scanner_with_defaults(
                columns=columns,
                filter=filter,
                limit=limit,
                offset=offset,
                batch_size=batch_size,
                scan_in_order=scan_in_order,
                fragments=fragments,
                with_row_id=with_row_id,
                with_row_address=with_row_address,
                blob_handling=blob_handling,
                **more,
            )
        wanted = request(
            self._snapshot,
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            batch_size=batch_size,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            blob_handling=blob_handling,
            more=more,
            fragment_ids=None if fragments is None else [item.fragment_id for item in fragments],
        )
        return LanceScanner(self._snapshot, wanted)

    @property
    def schema(self) -> pa.Schema:
        """The schema of scans without arguments: that of the table, apart from scan defaults."""
        return self.scanner().projected_schema if self._scan_defaults else super().schema

    def _scanner_with_defaults(self, **given: Any) -> LanceScanner:
        """Create a scanner; arguments that are not given take the defaults of the dataset."""
        known = given.keys() | ScanArguments.__annotations__.keys()
        if unknown := self._scan_defaults.keys() - known:
            raise InvalidInputError(f"default_scan_options: scans have no {sorted(unknown)}")
        wanted = {name: value for name, value in given.items() if value is not None}
        without = self.pinned(self._uri, self._storage_options, self._snapshot)
        return without.scanner(**{**self._scan_defaults, **wanted})

    def to_table(
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        *,
        batch_size: int | None = None,
        scan_in_order: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        blob_handling: BlobHandling | None = None,
        **more: Unpack[ScanArguments],
    ) -> pa.Table:
        """Read rows into memory. The arguments are those of `scanner`."""
        return self.scanner(
            columns,
            filter,
            limit,
            offset,
            batch_size=batch_size,
            scan_in_order=scan_in_order,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            blob_handling=blob_handling,
            **more,
        ).to_table()

    def to_batches(
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        *,
        batch_size: int | None = None,
        scan_in_order: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        blob_handling: BlobHandling | None = None,
        **more: Unpack[ScanArguments],
    ) -> Iterator[pa.RecordBatch]:
        """Read rows batch by batch, with bounded memory. The arguments are those of `scanner`."""
        return self.scanner(
            columns,
            filter,
            limit,
            offset,
            batch_size=batch_size,
            scan_in_order=scan_in_order,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            blob_handling=blob_handling,
            **more,
        ).to_batches()

    def to_pandas(
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        *,
        batch_size: int | None = None,
        scan_in_order: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        blob_handling: BlobHandling | None = None,
        **kwargs: Any,
    ) -> Any:
        """Read rows into a pandas.DataFrame.

        The arguments are those of `scanner`; others go to `pyarrow.Table.to_pandas`.
        """
        known = ScanArguments.__annotations__.keys()
        more: Any = {name: kwargs.pop(name) for name in known & kwargs.keys()}
        table = self.to_table(
            columns,
            filter,
            limit,
            offset,
            batch_size=batch_size,
            scan_in_order=scan_in_order,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            blob_handling=blob_handling,
            **more,
        )
        return table.to_pandas(**kwargs)

    def head(self, num_rows: int, **kwargs: Any) -> pa.Table:
        """Read the first rows. The other arguments are those of `scanner`."""
        return self.scanner(**kwargs).head(num_rows)

    def slice(self, start: int, end: int, columns: Columns | None = None) -> pa.Table:
        """Read the rows `start` to `end` (exclusive), by position.

        Raises:
            InvalidInputError: If `end` is before `start`.
        """
        first = require_count("start", start)
        last = require_count("end", end, first)
        return self.to_table(columns, limit=last - first, offset=first)

    def take(self, indices: Any, columns: Columns | None = None) -> pa.Table:
        """Read rows by position.

        Args:
            indices: Positions in scan order, in any order; repeated positions are allowed. A list,
                a numpy array or a pyarrow array.
            columns: As in `scanner`.

        Returns:
            One row per index, in the order of the indices.

        Raises:
            InvalidInputError: If an index is negative or beyond the last row.
        """
        rows = positions(indices, self._snapshot.num_rows)
        names, projection = project(columns, self._snapshot.described.arrow)
        table = take(self._snapshot, rows, names)
        return given_table(projection.table(table) if projection else table)

    def take_rows(self, row_ids: Any, columns: Columns | None = None) -> pa.Table:
        """Read rows by their `_rowid`.

        Stable row ids find rows even after updates and compactions have moved them. Without stable
        row ids, an id is an address, which is valid for one version only.

        Args:
            row_ids: Row ids in any order; repeated ids are allowed. A list, a numpy array or a
                pyarrow array.
            columns: As in `scanner`.

        Returns:
            The rows in the order of the ids. Ids that do not exist (any more) are skipped.

        Raises:
            InvalidInputError: If an id is not an unsigned 64-bit integer, or is an address outside
                all fragments.
            CorruptFileError: If row ids are damaged.
        """
        ids = checked_row_ids("row_ids", row_ids)
        names, projection = project(columns, self._snapshot.described.arrow)
        table = take_row_ids(self._snapshot, ids, names)
        return given_table(projection.table(table) if projection else table)

    def _take_rows(
        self, row_ids: Any, columns: Columns | None = None, *, ignore_deletions: bool = False
    ) -> pa.Table:
        """Read rows as `take_rows`, under the name that other libraries call; omit deleted rows."""
        del ignore_deletions
        return self.take_rows(row_ids, columns)

    def sample(
        self,
        num_rows: int,
        columns: Columns | None = None,
        randomize_order: bool = True,
    ) -> pa.Table:
        """Read rows at random, each at most once.

        Args:
            num_rows: Number of rows to read.
            columns: As in `scanner`.
            randomize_order: Whether to return them in random order; False for scan order.

        Raises:
            InvalidInputError: If the table has fewer rows.
        """
        total = self._snapshot.num_rows
        if require_count("num_rows", num_rows) > total:
            raise InvalidInputError(f"num_rows: cannot sample {num_rows} of {total} rows")
        rows = random.sample(range(total), int(num_rows))
        return self.take(rows if randomize_order else sorted(rows), columns)

    def count_rows(self, filter: Filter | None = None) -> int:
        """Count rows; without a filter no data is read."""
        return count_rows(
            self._snapshot, None if filter is None else bind(filter, self._snapshot.described.arrow)
        )

    def get_fragments(self, filter: Any = None) -> list[LanceFragment]:
        """Return the fragments, in scan order.

        Raises:
            UnsupportedFeatureError: If a filter is given.
        """
        if filter is not None:
            raise UnsupportedFeatureError("get_fragments takes no filter; scan with one")
        return [LanceFragment(self, item.id) for item in self._snapshot.manifest.fragments]

    def get_fragment(self, fragment_id: int) -> LanceFragment | None:
        """Return the fragment with this id; None if it does not exist."""
        ids = {fragment.id for fragment in self._snapshot.manifest.fragments}
        return LanceFragment(self, fragment_id) if fragment_id in ids else None

    def __len__(self) -> int:
        return self.count_rows()

    def __bool__(self) -> bool:
        return True

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.scanner().__arrow_c_stream__(requested_schema)
