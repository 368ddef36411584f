"""`LanceScanner`: a lazy scan of one version."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pilum.arguments import require_count
from pilum.dataset.scan import Scan, ScanStatistics
from pilum.dataset.scan_steps import explained, key_text, window_text
from pilum.format.meta_columns import ROW_ID
from pilum.format.rows import BATCH_ROWS
from pilum.table.indices.index_use import ANY_INDEX, ANY_INDEX_TO_COUNT
from pilum.table.indices.use import with_selection
from pilum.table.read.columns import undeleted, with_nullable_ids, without_ids
from pilum.table.read.json_columns import given_batches, given_schema, given_table
from pilum.table.read.ordering import ordered
from pilum.table.read.scan import ScanOptions, count_rows, scan, scan_table
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.windows import batches, of_bytes, of_rows

__all__ = ["LanceScanner"]

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
        sort = f", sorted by {', '.join(map(key_text, order))}" if order else ""
        version = f"version {self._snapshot.manifest.version}"
        names = ", ".join(self._schema.names)
        window = window_text(self._scan.options)
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
        return explained(self._source, self._options, self._scan, verbose)

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
        steps = explained(
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
