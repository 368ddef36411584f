"""`LanceScanner`: a lazy scan of one version, and its steps as text, the last one first.

Projection: twice
  Sort: a, limit 3
    Scan: memory://t, version 2, columns a, filter on a (on pages: a), 2 of 2 fragments, 5 rows
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Self

import pyarrow as pa

from pilum.arguments import require_count
from pilum.dataset.projection import Columns
from pilum.dataset.scan import (
    BlobHandling,
    ColumnOrdering,
    HasFragmentId,
    Scan,
    ScanStatistics,
)
from pilum.dataset.search_filters import ScanFilter
from pilum.errors import InvalidInputError
from pilum.format.meta_columns import ROW_ID
from pilum.format.rows import BATCH_ROWS
from pilum.format.text_forms import TextForm
from pilum.index.minhash.queries import MinHashQuery
from pilum.table.indices.index_use import ANY_INDEX, ANY_INDEX_TO_COUNT
from pilum.table.indices.use import with_selection
from pilum.table.model.fragment import Fragment
from pilum.table.read.columns import undeleted, with_nullable_ids, without_ids
from pilum.table.read.json_columns import given_batches, given_schema, given_table
from pilum.table.read.ordering import ordered
from pilum.table.read.scan import ScanOptions, count_rows, scan, scan_table
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.windows import batches, of_bytes, of_rows

if TYPE_CHECKING:
    from pilum.expressions.filter import BoundFilter

__all__ = ["LanceScanner", "ScannerBuilder"]

_log = logging.getLogger(__name__)


class LanceScanner:
    """A lazy scan of a version; created by `LanceDataset.scanner`.

    It can be read more than once and always returns the same rows. It can be exported to other
    libraries as an Arrow stream.
    """

    def __init__(self, snapshot: Snapshot, wanted: Scan, stored: pa.Schema | None = None) -> None:
        self._snapshot = snapshot
        self._scan = wanted
        self._source = undeleted(snapshot) if wanted.with_deleted else snapshot
        stored = wanted.schema(snapshot) if stored is None else stored
        self._stored = with_nullable_ids(stored) if wanted.with_deleted else stored
        self._schema = given_schema(self._stored) if snapshot.schema.has_marks else self._stored
        self._unformed = self._schema
        if wanted.form is not None:
            from pilum.table.read.text_forms import formed_schema  # few scans have a form

            self._schema = formed_schema(self._schema, wanted.form)
        self._options = self._read_options()
        if wanted.order_by:
            wanted.read_schema(snapshot, self._options)  # fails for keys that do not exist

    def __repr__(self) -> str:
        options, order = self._options, self._scan.order_by
        where = f", filter on {', '.join(options.filter.columns)}" if options.filter else ""
        sort = f", sorted by {', '.join(map(_key, order))}" if order else ""
        version = f"version {self._snapshot.manifest.version}"
        names = ", ".join(self._schema.names)
        window = _window(self._scan.options)
        return f"LanceScanner({self._snapshot.store.uri}, {version}: {names}{where}{sort}{window})"

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the returned rows."""
        return self._schema

    @property
    def schema(self) -> pa.Schema:
        """The same schema as `projected_schema`."""
        return self._schema

    @property
    def dataset_schema(self) -> pa.Schema:
        """The schema of the table."""
        return given_schema(self._snapshot.schema.arrow)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Return the rows batch by batch, with bounded memory unless they are sorted.

        Raises:
            FilterError: If a filter or computed column cannot be evaluated on a value.
            CorruptFileError: If a data file contradicts the format.
        """
        wanted, rows = self._scan, self._rows()
        if wanted.batch_bytes is not None:
            rows = of_bytes(rows, wanted.batch_bytes)
        if wanted.is_strict:
            rows = of_rows(rows, self._options.batch_size or BATCH_ROWS)
        given = given_batches(self._stored, rows)
        if wanted.form is not None and wanted.form != wanted.options.form:
            from pilum.table.read.text_forms import formed_batches

            given = formed_batches(self._unformed, given, wanted.form)
        yield from given if wanted.callback is None else self._observed(given)

    def _rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the stored rows in the requested form."""
        wanted = self._scan
        rows = self._stored_rows()
        if wanted.order_by:
            rows = self._ordered(rows)
        if wanted.projection:
            return map(wanted.projection.apply, rows)
        if wanted.is_plain:
            return rows
        return (batch.select(self._stored.names) for batch in rows)

    def _stored_rows(self) -> Iterator[pa.RecordBatch]:
        """Yield what is read, before rows are sorted and anything is computed."""
        wanted = self._scan
        if wanted.search is not None:
            from pilum.table.indices.searches import search_rows  # few processes search

            found = search_rows(self._snapshot, self._options, wanted.search, wanted.indices)
            return batches([found], self._options.batch_size or BATCH_ROWS)
        rows = scan(self._source, self._first_rows())
        return without_ids(self._snapshot, rows) if wanted.with_deleted else rows

    def _first_rows(self) -> ScanOptions:
        """Return the options without most rows that a limit leaves out after sorting."""
        wanted, limit = self._scan, self._scan.options.limit
        if not wanted.order_by or limit is None or wanted.with_deleted:
            return self._selected(self._options)
        if wanted.indices.only_covered:  # an index of a sort key would leave out rows, too
            return self._selected(self._options)
        from pilum.table.read.top_rows import only_first, with_bound  # few scans are sorted

        num_rows = limit + wanted.options.offset
        bounded = with_bound(self._snapshot, self._options, wanted.order_by, num_rows)
        if bounded is None:
            return self._selected(self._options)
        return only_first(self._snapshot, self._selected(bounded), wanted.order_by, num_rows)

    def _selected(self, options: ScanOptions, only_counts: bool = False) -> ScanOptions:
        """Return the options with the rows that indices found; they do not list deleted rows."""
        if options.filter is None or self._scan.with_deleted:
            return options
        use = self._scan.indices
        if only_counts:
            use = ANY_INDEX_TO_COUNT if use is ANY_INDEX else replace(use, only_counts=True)
        return with_selection(self._snapshot, options, use)

    def _ordered(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted, options = self._scan, self._scan.options
        read = wanted.read_schema(self._source, self._options)
        schema = with_nullable_ids(read) if wanted.with_deleted else read
        # A search has applied them, to the order of scores.
        first, most = (0, None) if wanted.search else (options.offset, options.limit)
        rows = ordered(batches, schema, wanted.order_by, first, most)
        size = options.batch_size or BATCH_ROWS
        for start in range(0, rows.num_rows, size):
            yield rows.slice(start, size)

    def _read_options(self) -> ScanOptions:
        """Return the options to read with, including the columns that rows are sorted by."""
        options, order_by = self._scan.options, self._scan.order_by
        if self._scan.with_deleted:
            options = replace(options, with_row_address=True)
        if not order_by:
            return options
        names = self._snapshot.schema.names if options.columns is None else options.columns
        keys = (key.column_name for key in order_by)
        options = replace(options, columns=tuple(dict.fromkeys((*names, *keys))))
        return options if self._scan.search else replace(options, limit=None, offset=0)

    def _observed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the same batches, and report the scan statistics at the end."""
        counter, num_rows = self._snapshot.store.io, 0
        before, start = counter.snapshot(), time.perf_counter_ns()
        for batch in batches:
            num_rows += batch.num_rows
            yield batch
        after, elapsed = counter.snapshot(), time.perf_counter_ns() - start
        iops = max(after.read_iops - before.read_iops, 0)
        num_bytes = max(after.read_bytes - before.read_bytes, 0)
        statistics = ScanStatistics(
            iops,
            iops,
            num_bytes,
            all_counts={"rows_given": num_rows},
            all_times={"elapsed": elapsed},
        )
        assert self._scan.callback is not None
        try:
            self._scan.callback(statistics)
        except Exception:
            _log.exception("the callback of a scan failed")

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of batches."""
        return pa.RecordBatchReader.from_batches(self._schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """Read all rows."""
        if self._scan.is_plain:
            table = scan_table(self._snapshot, self._selected(self._scan.options))
            return given_table(table) if self._snapshot.schema.has_marks else table
        wanted = self._scan
        if wanted.search is not None and wanted.is_plain_search:
            from pilum.table.indices.searches import found_rows

            found = wanted.search.found(self._snapshot, self._options, wanted.indices)
            table = found_rows(self._snapshot, found, self._stored, wanted.search)
            return given_table(table) if self._snapshot.schema.has_marks else table
        return pa.Table.from_batches(self.to_batches(), self._schema)

    def to_pandas(self, **kwargs: Any) -> Any:
        """Read all rows into a pandas.DataFrame.

        Args:
            **kwargs: Arguments of `pyarrow.Table.to_pandas`.
        """
        return self.to_table().to_pandas(**kwargs)

    def head(self, num_rows: int) -> pa.Table:
        """Read the first rows, and only the parts of the files that they need."""
        number = require_count("num_rows", num_rows)
        return LanceScanner(self._snapshot, self._scan.limited(number)).to_table()

    def count_rows(self) -> int:
        """Count the rows of the scan, reading only what the filter needs."""
        options = self._scan.options
        if self._scan.search is not None:
            from pilum.table.indices.searches import count_found

            return count_found(self._snapshot, options, self._scan.search, self._scan.indices)
        found = max(0, count_rows(self._source, self._selected(options, True)) - options.offset)
        return found if options.limit is None else min(found, options.limit)

    def explain_plan(self, verbose: bool = False) -> str:
        """Describe what the scan will do: one line per step, the last step first.

        Args:
            verbose: Whether to also list the files, and to open them to report what zone maps
                decide.
        """
        return _explained(self._source, self._options, self._scan, verbose)

    def analyze_plan(self, count_rows: bool = False) -> str:
        """Run the scan and report its costs, followed by the steps of `explain_plan`.

        Args:
            count_rows: Whether to only count rows.
        """
        found: list[ScanStatistics] = []
        wanted = replace(self._scan, callback=found.append)
        if count_rows and not wanted.with_deleted:
            options = replace(wanted.options, columns=(ROW_ID,))
            wanted = replace(wanted, options=options, projection=None)
        scanner = LanceScanner(self._snapshot, wanted)
        num_batches = sum(1 for _ in scanner.to_batches())
        [cost] = found
        counts, times = cost.all_counts or {}, cost.all_times or {}
        head = (
            f"Analyzed: rows={counts['rows_given']}, batches={num_batches}, "
            f"elapsed={times['elapsed'] / 1e6:.3f}ms, requests={cost.requests}, "
            f"bytes_read={cost.bytes_read}"
        )
        steps = _explained(
            self._source, self._options, self._scan, verbose=False, analyzed=True
        ).splitlines()
        return "\n".join([head, *(f"  {step}" for step in steps)])

    def _repr_html_(self) -> str:
        from pilum.pictures.html import card, facts, table

        *later, source = self.explain_plan().splitlines()
        steps = [
            (f"step {number}", step.strip())
            for number, step in enumerate((source, *reversed(later)), 1)
        ]
        columns = [(field.name, field.type) for field in self.projected_schema]
        return card("Scan", facts(steps), table(("column", "type"), columns))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)


class Scannable(Protocol):
    """A dataset, which creates scanners."""

    @property
    def scanner(self) -> Callable[..., LanceScanner]:
        """The method that creates a scanner."""
        ...


class ScannerBuilder:
    """Collects the arguments of `LanceDataset.scanner`; each method sets one of them.

    Args:
        ds: The dataset to scan.
    """

    def __init__(self, ds: Scannable) -> None:
        self._dataset = ds
        self._arguments: dict[str, Any] = {}

    def apply_defaults(self, default_opts: dict[str, Any]) -> Self:
        """Set several arguments at once, by the names of the methods.

        Raises:
            InvalidInputError: If an argument does not exist.
        """
        for name, value in default_opts.items():
            if name not in _NAMES:
                raise InvalidInputError(f"scans have no argument {name!r}")
            self._set(_NAMES[name], value)
        return self

    def columns(self, cols: Columns | None = None) -> Self:
        """Set the columns: names, or a dict of names and SQL; None for all columns."""
        return self._set("columns", cols)

    def filter(self, filter: ScanFilter) -> Self:
        """Set the filter; see the argument of `LanceDataset.scanner`."""
        return self._set("filter", filter)

    def limit(self, n: int | None = None) -> Self:
        """Set the maximum number of rows."""
        return self._set("limit", n)

    def offset(self, n: int | None = None) -> Self:
        """Set the number of rows to skip."""
        return self._set("offset", n)

    def batch_size(self, batch_size: int) -> Self:
        """Set the maximum number of rows in a batch."""
        return self._set("batch_size", batch_size)

    def batch_size_bytes(self, batch_size_bytes: int) -> Self:
        """Set the approximate maximum size of a batch in bytes."""
        return self._set("batch_size_bytes", batch_size_bytes)

    def strict_batch_size(self, strict_batch_size: bool = False) -> Self:
        """Set whether all batches except the last have exactly `batch_size` rows."""
        return self._set("strict_batch_size", strict_batch_size)

    def order_by(self, orderings: Iterable[ColumnOrdering | str] | None) -> Self:
        """Set the sort keys."""
        return self._set("order_by", orderings)

    def with_fragments(self, fragments: Iterable[HasFragmentId] | None) -> Self:
        """Set the fragments to scan; None for all."""
        return self._set("fragments", fragments)

    def with_row_id(self, with_row_id: bool = True) -> Self:
        """Set whether to add `_rowid`."""
        return self._set("with_row_id", with_row_id)

    def with_row_address(self, with_row_address: bool = True) -> Self:
        """Set whether to add `_rowaddr`."""
        return self._set("with_row_address", with_row_address)

    def include_deleted_rows(self, flag: bool) -> Self:
        """Set whether to include deleted rows that are still stored."""
        return self._set("include_deleted_rows", flag)

    def blob_handling(self, blob_handling: BlobHandling | None) -> Self:
        """Set the form in which blobs are returned."""
        return self._set("blob_handling", blob_handling)

    def strings_as(self, strings_as: TextForm | None) -> Self:
        """Set the form in which strings and bytes are returned."""
        return self._set("strings_as", strings_as)

    def scan_stats_callback(self, callback: Callable[[ScanStatistics], None]) -> Self:
        """Set a function that is called with the statistics at the end of the scan."""
        return self._set("scan_stats_callback", callback)

    def scan_in_order(self, scan_in_order: bool = True) -> Self:
        """Accept a hint without effect; rows are in order in either case."""
        return self._set("scan_in_order", scan_in_order)

    def batch_readahead(self, nbatches: int | None = None) -> Self:
        """Accept a hint without effect."""
        return self._set("batch_readahead", nbatches)

    def fragment_readahead(self, nfragments: int | None = None) -> Self:
        """Accept a hint without effect."""
        return self._set("fragment_readahead", nfragments)

    def io_buffer_size(self, io_buffer_size: int) -> Self:
        """Accept a hint without effect."""
        return self._set("io_buffer_size", io_buffer_size)

    def late_materialization(self, late_materialization: bool | list[str]) -> Self:
        """Accept a hint without effect."""
        return self._set("late_materialization", late_materialization)

    def use_stats(self, use_stats: bool = True) -> Self:
        """Accept a hint without effect."""
        return self._set("use_stats", use_stats)

    def use_scalar_index(self, use_scalar_index: bool = True) -> Self:
        """Set whether indices may be used for the filter."""
        return self._set("use_scalar_index", use_scalar_index)

    def prefilter(self, prefilter: bool) -> Self:
        """Set whether a search looks only at rows that match the filter."""
        return self._set("prefilter", prefilter)

    def disable_scoring_autoprojection(self, disable: bool = True) -> Self:
        """Set whether a search leaves its score or distance out unless it is requested."""
        return self._set("disable_scoring_autoprojection", disable)

    def nearest(self, column: str, q: Any, k: int | None = None, **more: Any) -> Self:
        """Set the vectors that are searched for.

        Args:
            column: Name of the column of vectors, or dotted path of a member of a struct.
            q: The query, or a batch of queries.
            k: Maximum number of rows for each query; 10 if None.
            **more: The other keys of the argument `nearest` of `LanceDataset.scanner`.
        """
        return self._set("nearest", {"column": column, "q": q, "k": k, **more})

    def full_text_search(self, query: Any, columns: list[str] | None = None) -> Self:
        """Set the full-text query: text, or one of `pilum.query`; text may name its columns."""
        return self._set("full_text_query", (query, columns))

    def minhash_search(self, query: MinHashQuery) -> Self:
        """Set the search of the rows whose texts are nearly the same as a text."""
        return self._set("nearest", query)

    def fast_search(self, flag: bool) -> Self:
        """Set whether to leave out rows of fragments that the used indices do not cover."""
        return self._set("fast_search", flag)

    def with_index_segments(self, index_segments: Any) -> Self:
        """Set the uuids of the segments of indices that may be used."""
        return self._set("index_segments", index_segments)

    def row_addr_prefilter(
        self, allowlist: bytes | None = None, blocklist: bytes | None = None
    ) -> Self:
        """Request a row filter for a search, which `to_scanner` rejects."""
        self._set("row_addr_allowlist", allowlist)
        return self._set("row_addr_blocklist", blocklist)

    def to_scanner(self) -> LanceScanner:
        """Create the scanner.

        Raises:
            As `LanceDataset.scanner`.
        """
        return self._dataset.scanner(**self._arguments)

    def _set(self, name: str, value: Any) -> Self:
        self._arguments[name] = value
        return self


_RENAMED = {
    "with_fragments": "fragments",
    "full_text_search": "full_text_query",
    "with_index_segments": "index_segments",
}
_OTHERS = {"apply_defaults", "to_scanner", "minhash_search", "row_addr_prefilter"}
_METHODS = [name for name in vars(ScannerBuilder) if not name.startswith("_")]
_NAMES = {name: _RENAMED.get(name, name) for name in _METHODS if name not in _OTHERS}
_NAMES |= {name: name for name in _RENAMED.values()}
"""The names that `apply_defaults` accepts, and the scan arguments that they set."""


def _explained(
    snapshot: Snapshot,
    options: ScanOptions,
    wanted: Scan,
    verbose: bool,
    analyzed: bool = False,
) -> str:
    """Return the steps of a scan that reads with `options` as text."""
    searches = list(_searches(snapshot, options, wanted, analyzed))
    steps = [*_steps(snapshot, options, wanted), *searches]
    if (verbose or analyzed) and not searches and wanted.search is None:
        steps += _zone_maps(snapshot, options)
    if verbose:
        steps += [
            f"File: {file.path} of fragment {fragment.id}, {fragment.num_rows} rows"
            for fragment in _fragments(snapshot, options)
            for file in fragment.files
        ]
    depths = [min(depth, _depth(steps)) for depth in range(len(steps))]
    return "\n".join("  " * depth + step for depth, step in zip(depths, steps, strict=True))


def _depth(steps: list[str]) -> int:
    """Return the indentation of the files of a scan."""
    return next(depth for depth, step in enumerate(steps) if step.startswith("Scan")) + 1


def _steps(snapshot: Snapshot, options: ScanOptions, wanted: Scan) -> Iterator[str]:
    if wanted.projection:
        yield f"Projection: {', '.join(name for name, _ in wanted.projection.items)}"
    order = wanted.order_by
    if order:
        yield f"Sort: {', '.join(map(_key, order))}{_window(wanted.options)}"
    if wanted.search is not None:
        yield from wanted.search.steps(snapshot, options, wanted.indices)
    manifest, fragments = snapshot.manifest, _fragments(snapshot, options)
    names = ", ".join(wanted.read_schema(snapshot, options).names)
    filter = "" if options.filter is None else _filter(snapshot, options.filter)
    yield (
        f"Scan: {snapshot.store.uri}, version {manifest.version}, columns {names}{filter}"
        f"{'' if order else _window(options)}, {len(fragments)} of {len(manifest.fragments)} "
        f"fragments, {sum(one.num_rows for one in fragments)} rows"
    )


def _filter(snapshot: Snapshot, filter: BoundFilter) -> str:
    """Return the columns of a filter, and which conditions are tested on pages or by Arrow."""
    from pilum.table.read.masks import Masks

    masks = Masks.of(snapshot, filter, ())
    rest = filter if masks is None else masks.rest
    parts = [
        f"{place}: {', '.join(names)}"
        for place, names in (
            ("on pages", masks.names if masks else ()),
            ("by Arrow", rest.columns if rest else ()),
        )
        if names
    ]
    return f", filter on {', '.join(filter.columns)} ({'; '.join(parts)})"


def _zone_maps(snapshot: Snapshot, options: ScanOptions) -> Iterator[str]:
    """Yield the rows that zone maps decide, if there are any; this opens the files."""
    if options.filter is None:
        return
    from pilum.table.read.matching import runs_to_read

    num_rows = num_sure = num_tested = 0
    for fragment in _fragments(snapshot, options):
        reader, rows = snapshot.reader(fragment), fragment.physical_rows
        num_rows += rows
        for run, left in runs_to_read(reader, snapshot.described, options.filter, 0, rows):
            num_sure += run.num_rows if left is None else 0
            num_tested += 0 if left is None else run.num_rows
    if num_tested < num_rows:
        skipped = num_rows - num_sure - num_tested
        yield f"ZoneMaps: {skipped} rows skipped, {num_sure} match, {num_tested} tested"


def _searches(
    snapshot: Snapshot, options: ScanOptions, wanted: Scan, analyzed: bool
) -> Iterator[str]:
    """Yield the step that searches indices, if there is one."""
    if options.filter is None or wanted.with_deleted or not snapshot.manifest.index_section:
        return
    if wanted.search is not None and not wanted.search.is_prefilter:
        return
    from pilum.table.indices.describing import described_coverage, described_plan, described_search
    from pilum.table.indices.selecting import plan_of

    plan = plan_of(snapshot, options, wanted.indices) if wanted.indices.is_allowed else None
    if plan is not None:
        counts = described_search(snapshot, plan) if analyzed else ""
        yield f"ScalarIndexQuery: query={described_plan(plan)}, {described_coverage(plan)}{counts}"


def _fragments(snapshot: Snapshot, options: ScanOptions) -> list[Fragment]:
    wanted = options.fragment_ids
    return [one for one in snapshot.manifest.fragments if wanted is None or one.id in wanted]


def _key(key: ColumnOrdering) -> str:
    direction = "" if key.ascending else " descending"
    return f"{key.column_name}{direction}{' nulls first' if key.nulls_first else ''}"


def _window(options: ScanOptions) -> str:
    limit = "" if options.limit is None else f", limit {options.limit}"
    return limit + (f", offset {options.offset}" if options.offset else "")
