"""`LanceScanner`: a lazy scan of one version."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pilum.arguments import require_count
from pilum.dataset.options import ScanRequest
from pilum.dataset.scan_arguments import ScanStatistics
from pilum.dataset.scan_plan import explained_scan
from pilum.format.meta_columns import ROW_ID
from pilum.format.rows import BATCH_ROWS
from pilum.table.read.deleted_rows import undeleted, with_nullable_ids, without_ids
from pilum.table.read.json_columns import given_batches, given_schema, given_table
from pilum.table.read.ordering import ordered
from pilum.table.read.rebatch import of_bytes, of_rows
from pilum.table.read.scan import ScanOptions, count_rows, scan, scan_schema, scan_table
from pilum.table.read.snapshot import Snapshot

__all__ = ["LanceScanner"]

_log = logging.getLogger(__name__)


class LanceScanner:
    """A lazy scan of a version; created by `LanceDataset.scanner`.

    It can be read more than once and always returns the same rows. It can be exported to other
    libraries as an Arrow stream.
    """

    def __init__(self, snapshot: Snapshot, request: ScanRequest) -> None:
        self._snapshot = snapshot
        self._request = request
        self._shape = request.shape
        self._source = undeleted(snapshot) if self._shape.with_deleted else snapshot
        stored = request.schema(snapshot)
        self._stored = with_nullable_ids(stored) if self._shape.with_deleted else stored
        self._schema = given_schema(self._stored)
        self._options = self._read_options()
        if self._shape.order_by:
            scan_schema(snapshot, self._options)  # fails for keys that do not exist

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
        shape, batches = self._shape, self._rows()
        if shape.batch_bytes is not None:
            batches = of_bytes(batches, shape.batch_bytes)
        if shape.is_strict:
            batches = of_rows(batches, self._options.batch_size or BATCH_ROWS)
        given = given_batches(self._stored, batches)
        yield from given if shape.callback is None else self._observed(given)

    def _rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the stored rows in the requested form."""
        shape, options = self._shape, self._options
        batches = scan(self._source, options)
        if shape.with_deleted:
            batches = without_ids(self._snapshot, batches)
        if shape.order_by:
            batches = self._ordered(batches)
        if projection := self._request.projection:
            return map(projection.apply, batches)
        if shape.is_plain:
            return batches
        return (batch.select(self._stored.names) for batch in batches)

    def _ordered(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted = self._request.options
        read = scan_schema(self._source, self._options)
        schema = with_nullable_ids(read) if self._shape.with_deleted else read
        rows = ordered(batches, schema, self._shape.order_by, wanted.offset, wanted.limit)
        size = wanted.batch_size or BATCH_ROWS
        for start in range(0, rows.num_rows, size):
            yield rows.slice(start, size)

    def _read_options(self) -> ScanOptions:
        """Return the options to read with, including the columns that rows are sorted by."""
        options, shape = self._request.options, self._shape
        if shape.with_deleted:
            options = replace(options, with_row_address=True)
        if not shape.order_by:
            return options
        names = self._snapshot.schema.names if options.columns is None else options.columns
        keys = (key.column_name for key in shape.order_by)
        columns = tuple(dict.fromkeys((*names, *keys)))
        return replace(options, columns=columns, limit=None, offset=0)

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
        assert self._shape.callback is not None
        try:
            self._shape.callback(statistics)
        except Exception:
            _log.exception("the callback of a scan failed")

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of batches."""
        return pa.RecordBatchReader.from_batches(self._schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """Read all rows."""
        if self._request.projection is None and self._shape.is_plain:
            return given_table(scan_table(self._snapshot, self._request.options))
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
        return LanceScanner(self._snapshot, self._request.limited(number)).to_table()

    def count_rows(self) -> int:
        """Count the rows of the scan, reading only what the filter needs."""
        options = self._request.options
        if options.fragment_ids is not None:
            return sum(batch.num_rows for batch in scan(self._source, options))
        found = max(0, count_rows(self._source, options.filter) - options.offset)
        return found if options.limit is None else min(found, options.limit)

    def explain_plan(self, verbose: bool = False) -> str:
        """Describe what the scan will do: one line per step, the last step first.

        Args:
            verbose: Whether to also list the files.
        """
        return explained_scan(self._source, self._options, self._request, verbose)

    def analyze_plan(self, count_rows: bool = False) -> str:
        """Run the scan and report its costs, followed by the steps of `explain_plan`.

        Args:
            count_rows: Whether to only count rows.
        """
        found: list[ScanStatistics] = []
        shape = replace(self._shape, callback=found.append)
        request = replace(self._request, shape=shape)
        if count_rows and not self._shape.with_deleted:
            wanted = replace(request.options, columns=(ROW_ID,))
            request = replace(request, options=wanted, projection=None)
        scanner = LanceScanner(self._snapshot, request)
        num_batches = sum(1 for _ in scanner.to_batches())
        [cost] = found
        counts, times = cost.all_counts or {}, cost.all_times or {}
        head = (
            f"Analyzed: rows={counts['rows_given']}, batches={num_batches}, "
            f"elapsed={times['elapsed'] / 1e6:.3f}ms, requests={cost.requests}, "
            f"bytes_read={cost.bytes_read}"
        )
        steps = self.explain_plan().splitlines()
        return "\n".join([head, *(f"  {step}" for step in steps)])

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)
