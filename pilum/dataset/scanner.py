"""One scan of one version: nothing is read until its rows are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from pilum.dataset.options import ScanRequest, require_count
from pilum.table.scanning.json_columns import given_batches, given_schema, given_table
from pilum.table.scanning.scan import count_rows, scan, scan_table
from pilum.table.snapshot import Snapshot

__all__ = ["LanceScanner"]


class LanceScanner:
    """Rows of a version, as asked for; made by `LanceDataset.scanner`.

    It can be read more than once and always gives the same rows. It exports itself to other
    libraries as an Arrow stream.
    """

    def __init__(self, snapshot: Snapshot, request: ScanRequest) -> None:
        self._snapshot = snapshot
        self._request = request
        self._stored = request.schema(snapshot)
        self._schema = given_schema(self._stored)

    @property
    def projected_schema(self) -> pa.Schema:
        """Of the rows that are given."""
        return self._schema

    @property
    def schema(self) -> pa.Schema:
        """The same as `projected_schema`."""
        return self._schema

    @property
    def dataset_schema(self) -> pa.Schema:
        """Of the table."""
        return given_schema(self._snapshot.schema.arrow)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Gives the rows batch by batch, with bounded memory.

        Raises:
            FilterError: If a filter or computed column fails on a value.
            CorruptFileError: If a data file contradicts the format.
        """
        projection = self._request.projection
        batches = scan(self._snapshot, self._request.options)
        stored = map(projection.apply, batches) if projection else batches
        yield from given_batches(self._stored, stored)

    def to_reader(self) -> pa.RecordBatchReader:
        """Gives the rows as a stream of batches."""
        return pa.RecordBatchReader.from_batches(self._schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """Reads all rows."""
        if self._request.projection is None:
            return given_table(scan_table(self._snapshot, self._request.options))
        return pa.Table.from_batches(self.to_batches(), self._schema)

    def to_pandas(self, **kwargs: Any) -> Any:
        """Reads all rows into a pandas.DataFrame.

        Args:
            **kwargs: For `pyarrow.Table.to_pandas`.
        """
        return self.to_table().to_pandas(**kwargs)

    def head(self, num_rows: int) -> pa.Table:
        """Reads the first rows and no more of the files than these need."""
        number = require_count("num_rows", num_rows)
        return LanceScanner(self._snapshot, self._request.limited(number)).to_table()

    def count_rows(self) -> int:
        """Counts the rows that the scan gives, reading only what the filter needs."""
        options = self._request.options
        if options.fragment_ids is not None:
            return sum(batch.num_rows for batch in scan(self._snapshot, options))
        found = max(0, count_rows(self._snapshot, options.filter) - options.offset)
        return found if options.limit is None else min(found, options.limit)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)
