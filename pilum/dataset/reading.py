"""Reading a dataset: scans, takes by position or id, samples, blobs and counts."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arguments import (
    integer_of,
    positions,
    require_choice,
    require_count,
    require_list,
    require_row_ids,
    with_keywords,
)
from pilum.blob import DEFAULT_BLOB_BUFFER_SIZE, BlobFile
from pilum.dataset.base import DatasetBase
from pilum.dataset.checked_scans import checked_scan
from pilum.dataset.explain import LanceStats
from pilum.dataset.fragment import LanceFragment
from pilum.dataset.projection import Columns, taken
from pilum.dataset.scan import Filter, MoreScanKeywords, ScanKeywords
from pilum.dataset.scanner import LanceScanner
from pilum.dataset.search_filters import ScanFilter
from pilum.dataset.sql import SqlQueryBuilder, TableQuery
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.table.read.blobs import BlobPlace, blob_places, read_places
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import addresses_of, addresses_of_ids, take, take_row_ids

if TYPE_CHECKING:
    from pilum.dataset.arrow_dataset import ArrowDataset
    from pilum.dataset.prepared import PreparedNearest

__all__ = ["Reading"]

_SELECTORS = ("ids", "addresses", "indices")


class Reading(DatasetBase):
    """Methods of `LanceDataset` for reading."""

    @with_keywords(MoreScanKeywords)
    def scanner(
        self,
        columns: Columns | None = None,
        filter: ScanFilter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        **more: Unpack[MoreScanKeywords],
    ) -> LanceScanner:
        """Create a scanner; nothing is read yet.

        Args:
            columns: Names and dotted paths in the requested order, or a dict of new names and SQL
                expressions; all columns if None. `_rowid`, `_rowaddr`, `_rowoffset`,
                `_row_created_at_version` and `_row_last_updated_at_version` may be named, here and
                in the filter.
            filter: SQL such as "a > 1 AND s LIKE 'x%'", or a `pyarrow.compute` expression. Rows for
                which it is false or null are excluded. For `nearest`, it may also be a full-text
                query of `pilum.query`; for `full_text_query`, a `VectorSearchQuery`; or for both,
                a dict with the keys "expr_filter" and "search_filter".
            limit: Maximum number of rows to return, counted after the filter.
            offset: Number of rows to skip, counted after the filter.
            batch_size: Maximum number of rows in a batch.
            scan_in_order: Whether rows must be in order; they are in order in either case.
            fragments: Fragments to scan; all if None.
            with_row_id: Whether to add the column `_rowid`, uint64.
            with_row_address: Whether to add the column `_rowaddr`, uint64.
            blob_handling: "all_binary" returns blobs as bytes. By default ("blobs_descriptions" or
                "all_descriptions") they are structs that describe where the bytes are.
            strings_as: "views" returns strings and bytes, at any depth, as Arrow views, and
                "dictionaries" as dictionaries of each page with int32 keys, which takes less where
                files store dictionaries. None for the types of the table.
            order_by: Names or `ColumnOrdering`s to sort rows by. With a `limit`, this needs memory
                for about twice as many rows, otherwise for all rows.
            strict_batch_size: Whether every batch except the last has exactly `batch_size` rows.
            batch_size_bytes: Approximate maximum size of a batch in bytes.
            include_deleted_rows: Whether to also return rows that are deleted but still stored;
                requires `with_row_id`, whose values are null for them.
            scan_stats_callback: Function that is called with `ScanStatistics` at the end of a scan.
            batch_readahead: A hint without effect.
            fragment_readahead: A hint without effect.
            io_buffer_size: A hint without effect.
            use_stats: A hint without effect.
            late_materialization: A hint without effect: a bool, or names of columns.
            prefilter: Whether a search looks only at rows that match the filter. Otherwise the
                filter is tested for the best rows, and fewer than `limit` may remain.
            disable_scoring_autoprojection: Whether a search leaves `_score` or `_distance` out
                unless `columns` has it.
            use_scalar_index: Whether indices may be used for the filter; True if None. They are
                used where this is estimated to be faster, and never change the result.
            index_segments: Uuids of the segments of indices that may be used; all if None.
            fast_search: Whether to leave out rows of fragments that the used indices do not cover.
            nearest: A search of the nearest vectors: a dict of "column", "q" (a query, or a batch
                of them) and "k" (10 by default), and of "metric", "nprobes", "minimum_nprobes",
                "maximum_nprobes", "search_effort", "ef", "refine_factor", "use_index",
                "distance_range", "query_parallelism" and "approx_mode"; or of near duplicates of a
                text: a `pilum.query.MinHashQuery`. The rows are returned with `_distance`, nearest
                first; of a batch, also with `query_index`.
            full_text_query: Text, a query of `pilum.query`, or a dict of "query" and "columns";
                the rows are returned with `_score`, best first.
            row_addr_allowlist: Is rejected.
            row_addr_blocklist: Is rejected.

        Raises:
            ColumnNotFoundError: If a named column does not exist.
            FilterError: If the filter or a computed column cannot be parsed or bound.
            UnsupportedFeatureError: If `row_addr_allowlist` or `row_addr_blocklist` is given.
            InvalidInputError: If any other argument is invalid.
        """
        keywords = self._keywords(columns, filter, limit, offset, more)
        return self._scanner(keywords)

    @property
    def schema(self) -> pa.Schema:
        """The schema of scans without arguments: that of the table, apart from scan defaults."""
        return self.scanner().projected_schema if self._scan_defaults else super().schema

    @property
    def stats(self) -> LanceStats:
        """Statistics of this version (counts and sizes), from metadata alone."""
        return LanceStats(self._snapshot)

    def _keywords(
        self,
        columns: Columns | None,
        filter: ScanFilter | None,
        limit: int | None,
        offset: int | None,
        more: MoreScanKeywords,
    ) -> ScanKeywords:
        """Return all keywords; those that are not given have the defaults of the dataset."""
        keywords: ScanKeywords = {
            "columns": columns,
            "filter": filter,
            "limit": limit,
            "offset": offset,
            **more,
        }
        return self._with_defaults(keywords) if self._scan_defaults else keywords

    def _scanner(self, keywords: ScanKeywords) -> LanceScanner:
        snapshot = self._snapshot
        wanted, schema = checked_scan(snapshot, keywords)
        if keywords.get("nearest") is not None:
            from pilum.dataset.prepared import remember  # few processes search

            remember(snapshot, keywords, wanted, schema)
        return LanceScanner(snapshot, wanted, schema)

    def _with_defaults(self, keywords: ScanKeywords) -> ScanKeywords:
        """Return keywords in which those that are not given have the defaults of the dataset."""
        if unknown := self._scan_defaults.keys() - ScanKeywords.__annotations__.keys():
            raise InvalidInputError(f"default_scan_options: scans have no {sorted(unknown)}")
        given = {name: value for name, value in keywords.items() if value is not None}
        return cast("ScanKeywords", {**self._scan_defaults, **given})

    @with_keywords(MoreScanKeywords)
    def to_table(
        self,
        columns: Columns | None = None,
        filter: ScanFilter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        **more: Unpack[MoreScanKeywords],
    ) -> pa.Table:
        """Read rows into memory. The arguments are those of `scanner`."""
        keywords = self._keywords(columns, filter, limit, offset, more)
        if keywords.get("nearest") is not None:
            from pilum.dataset.prepared import remembered  # few processes search

            found = remembered(self._snapshot, keywords)
            if found is not None:
                return found
        elif keywords.get("filter") is not None and self._snapshot.manifest.index_section:
            from pilum.dataset.quick_lookups import quick_table  # few processes use an index

            found = quick_table(self._snapshot, keywords)
            if found is not None:
                return found
        return self._scanner(keywords).to_table()

    @with_keywords(MoreScanKeywords)
    def to_batches(
        self,
        columns: Columns | None = None,
        filter: ScanFilter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        **more: Unpack[MoreScanKeywords],
    ) -> Iterator[pa.RecordBatch]:
        """Read rows batch by batch, with bounded memory. The arguments are those of `scanner`."""
        return self.scanner(columns, filter, limit, offset, **more).to_batches()

    @with_keywords(MoreScanKeywords)
    def to_pandas(
        self,
        columns: Columns | None = None,
        filter: ScanFilter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Read rows into a pandas.DataFrame.

        The arguments are those of `scanner`; others go to `pyarrow.Table.to_pandas`.
        """
        known = MoreScanKeywords.__annotations__.keys()
        more: Any = {name: kwargs.pop(name) for name in known & kwargs.keys()}
        return self.to_table(columns, filter, limit, offset, **more).to_pandas(**kwargs)

    def prepare_nearest(
        self, column: str, k: int | None = None, **keywords: Any
    ) -> PreparedNearest:
        """Prepare a search of the nearest vectors, to be run with many queries.

        What does not depend on the query is done once: checks, opening the index, and selecting
        the rows that match a prefilter.

        Args:
            column: Name of the column of vectors, or dotted path of a member of a struct.
            k: Maximum number of rows for each query; 10 if None.
            **keywords: Other keys of the argument `nearest` of `scanner`, except "q", and
                arguments of `scanner` such as `columns`, `filter` and `prefilter`.

        Returns:
            An object whose method `search` takes a query, or a batch of them, and returns a table.

        Raises:
            As `scanner`.
        """
        from pilum.dataset.prepared import prepared_nearest  # few processes search

        return prepared_nearest(self._snapshot, {**keywords, "column": column, "k": k})

    def head(self, num_rows: int, **scan: Unpack[ScanKeywords]) -> pa.Table:
        """Read the first rows. The other arguments are those of `scanner`."""
        return self.scanner(**scan).head(num_rows)

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
        return _taken_rows(self._snapshot, indices, columns)

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
        snapshot, ids = self._snapshot, require_row_ids("row_ids", row_ids)
        return taken(snapshot, columns, lambda names: take_row_ids(snapshot, ids, names))

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
        snapshot = self._snapshot
        total = snapshot.num_rows
        if require_count("num_rows", num_rows) > total:
            raise InvalidInputError(f"num_rows: cannot sample {num_rows} of {total} rows")
        rows = random.sample(range(total), int(num_rows))
        return _taken_rows(snapshot, rows if randomize_order else sorted(rows), columns)

    def take_blobs(
        self,
        blob_column: str,
        ids: Any = None,
        addresses: Any = None,
        indices: Any = None,
        *,
        buffer_size: int = DEFAULT_BLOB_BUFFER_SIZE,
    ) -> list[BlobFile | None]:
        """Open blobs as files; bytes are read on demand.

        Args:
            blob_column: Name of the column, or dotted path to a struct member.
            ids: Row ids. Exactly one of `ids`, `addresses` and `indices` must be given.
            addresses: Row addresses.
            indices: Row positions.
            buffer_size: Number of bytes that sequential reads prefetch; 0 to read only the
                requested bytes.

        Returns:
            One file per row, in the requested order; None for null.

        Raises:
            ColumnNotFoundError: If the column does not exist.
            InvalidInputError: If the column does not hold blobs, or a row does not exist.
            CorruptFileError: If a descriptor is invalid.
        """
        snapshot = self._snapshot
        rows = _addresses(snapshot, ids=ids, addresses=addresses, indices=indices)
        require_count("buffer_size", buffer_size)
        places = blob_places(snapshot, blob_column, rows)
        return [None if place is None else BlobFile(place, buffer_size) for place in places]

    def read_blobs(
        self,
        blob_column: str,
        ids: Any = None,
        addresses: Any = None,
        indices: Any = None,
        *,
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, bytes | None]]:
        """Read whole blobs, with one request per file that contains them.

        Args:
            blob_column: Name of the column, or dotted path to a struct member.
            ids: Row ids. Exactly one of `ids`, `addresses` and `indices` must be given.
            addresses: Row addresses.
            indices: Row positions.
            io_buffer_size: Accepted for compatibility; has no effect.
            preserve_order: Accepted for compatibility; the order is always preserved.

        Returns:
            Address and bytes of each row, in the requested order; None for null.

        Raises:
            As `take_blobs`.
        """
        del io_buffer_size, preserve_order
        snapshot = self._snapshot
        rows = _addresses(snapshot, ids=ids, addresses=addresses, indices=indices)
        found = read_places(blob_places(snapshot, blob_column, rows))
        return list(zip(rows.tolist(), found, strict=True))

    def read_blob_ranges(
        self,
        blob_column: str,
        requests: Sequence[tuple[int, int, int]],
        *,
        selector: Literal["ids", "addresses", "indices"],
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, int, bytes | None]]:
        """Read ranges of blobs, with one request per file that contains them.

        Args:
            blob_column: Name of the column, or dotted path to a struct member.
            requests: For each range: the row, the offset in its blob and the number of bytes.
            selector: Whether rows are given as ids, addresses or indices.
            io_buffer_size: Accepted for compatibility; has no effect.
            preserve_order: Accepted for compatibility; the order is always preserved.

        Returns:
            For each range: number of the request, address of the row, and bytes; None if the blob
            is null.

        Raises:
            As `take_blobs`; also InvalidInputError if a range exceeds its blob.
        """
        del io_buffer_size, preserve_order
        require_choice("selector", selector, *_SELECTORS)
        snapshot = self._snapshot
        wanted = [_blob_range(one) for one in require_list("requests", requests)]
        rows = _addresses(snapshot, **{selector: [row for row, _, _ in wanted]})
        places = blob_places(snapshot, blob_column, rows)
        parts = [
            _part(place, offset, length)
            for place, (_, offset, length) in zip(places, wanted, strict=True)
        ]
        found = read_places(parts)
        return list(zip(range(len(wanted)), rows.tolist(), found, strict=True))

    def count_rows(self, filter: Filter | None = None) -> int:
        """Count rows; without a filter no data is read."""
        if filter is not None and self._snapshot.manifest.index_section:
            from pilum.dataset.quick_lookups import quick_count  # few processes use an index

            found = quick_count(self._snapshot, filter)
            if found is not None:
                return found
        return self._scanner(ScanKeywords(filter=filter)).count_rows()

    def sql(self, sql: str) -> SqlQueryBuilder:
        """Return a builder of an SQL query over this table, which DuckDB runs.

        `ds.sql("SELECT count(*) FROM dataset").build().to_batch_records()`. Only the columns that
        the query needs are read; filters that DuckDB passes on are evaluated by the scan.
        """
        return SqlQueryBuilder(TableQuery(self, sql))

    def to_pyarrow_dataset(self) -> ArrowDataset:
        """Return this version as `pyarrow.dataset.Dataset`, for engines that recognise it.

        DuckDB and polars then read only the columns and rows that a query needs.
        """
        from pilum.dataset.arrow_dataset import ArrowDataset  # slow to import

        return ArrowDataset(self)

    def get_fragments(self, filter: Any = None) -> list[LanceFragment]:
        """Return the fragments, in scan order.

        Raises:
            UnsupportedFeatureError: If a filter is given.
        """
        if filter is not None:
            raise UnsupportedFeatureError("get_fragments takes no filter; scan with one")
        snapshot = self._snapshot
        return [LanceFragment._of(self, snapshot, item) for item in snapshot.manifest.fragments]

    def get_fragment(self, fragment_id: int) -> LanceFragment | None:
        """Return the fragment with this id; None if it does not exist.

        Raises:
            InvalidInputError: If the id is not an integer.
        """
        number = integer_of(fragment_id)
        if number is None:
            raise InvalidInputError(f"fragment_id: expected an integer, found {fragment_id!r:.80}")
        snapshot = self._snapshot
        found = (item for item in snapshot.manifest.fragments if item.id == number)
        one = next(found, None)
        return None if one is None else LanceFragment._of(self, snapshot, one)

    def fragment_ids(self) -> set[int]:
        """Return the ids of all fragments of the pinned version."""
        return {int(fragment.id) for fragment in self._snapshot.manifest.fragments}

    def __len__(self) -> int:
        return self.count_rows()

    def __bool__(self) -> bool:
        return True

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.scanner().__arrow_c_stream__(requested_schema)


def _taken_rows(snapshot: Snapshot, indices: Any, columns: Columns | None) -> pa.Table:
    rows = positions(indices, snapshot.num_rows)
    return taken(snapshot, columns, lambda names: take(snapshot, rows, names))


def _addresses(
    snapshot: Snapshot, *, ids: Any = None, addresses: Any = None, indices: Any = None
) -> NDArray[np.uint64]:
    given = [item for item in (ids, addresses, indices) if item is not None]
    if len(given) != 1:
        raise InvalidInputError("pass exactly one of ids, addresses and indices")
    if indices is not None:
        rows = positions(indices, snapshot.num_rows)
        return addresses_of(snapshot, rows) if len(rows) else rows.astype(np.uint64)
    if addresses is not None:
        return require_row_ids("addresses", addresses)
    wanted = require_row_ids("ids", ids)
    found, is_there = addresses_of_ids(snapshot, wanted)
    if not is_there.all():
        raise InvalidInputError(f"ids: there is no row {wanted[is_there.argmin()]}")
    return found


def _blob_range(request: Any) -> tuple[Any, int, int]:
    try:
        row, offset, length = request
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"requests: expected (row, offset, length), found {request!r:.80}"
        ) from None
    return row, require_count("offset", offset), require_count("length", length)


def _part(place: BlobPlace | None, offset: int, length: int) -> BlobPlace | None:
    if place is None:
        return None
    if offset + length > place.size:
        raise InvalidInputError(f"{length} bytes from {offset} of a blob of {place.size}")
    return BlobPlace(place.store, place.path, place.position + offset, length)
