"""User-defined functions that compute new columns, batch by batch, and can continue later.

A checkpoint file contains the finished results of a long computation:

    results      key                                     the columns of the first batch
    batches      fragment, number of the batch, key      the values, as an Arrow stream
    fragments    fragment, key                           the finished data file

All three are preceded by their SHA-256, as SQLite does not notice damaged bytes.
The file is a SQLite database: a process that is killed while writing leaves the previous content
intact. A key covers everything that the values depend on, as far as it is known: the table, the
fragment with its files and deleted rows, the columns that are read, and the batch size. Results
with another key are computed again. Values stay in the file until their data file is finished.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from pilum.dataset.inputs import batch_of, in_form_of
from pilum.errors import CorruptFileError, InvalidInputError, NotFoundError
from pilum.format.schema import Schema
from pilum.storage.base import Store
from pilum.storage.open import location_text
from pilum.table.changes.add_columns import (
    in_structs,
    merge_of,
    new_files,
    require_addable,
    with_values,
)
from pilum.table.changes.schema_changes import with_new_columns
from pilum.table.commit.operations.merge import Merge
from pilum.table.model.fragment import DataFile, Fragment
from pilum.table.read.scan import ScanOptions, scan
from pilum.table.read.snapshot import Snapshot
from pilum.table.write.align import Alignment, align

if TYPE_CHECKING:
    import sqlite3

__all__ = ["BatchUDF", "Checkpoint", "Computation", "batch_udf"]

Function: TypeAlias = Callable[[pa.RecordBatch], Any]

_TABLES = """
CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, data BLOB);
CREATE TABLE IF NOT EXISTS batches
    (fragment INTEGER, number INTEGER, key TEXT, data BLOB, PRIMARY KEY (fragment, number));
CREATE TABLE IF NOT EXISTS fragments (fragment INTEGER PRIMARY KEY, key TEXT, data BLOB);
"""
_LAYOUT = 2
"""Is part of every key, so that results of another layout are computed again."""

_CHECKSUM_BYTES = 32


class BatchUDF:
    """A function for `LanceDataset.add_columns` with its options; see `batch_udf`."""

    def __init__(
        self,
        func: Function,
        output_schema: pa.Schema | None = None,
        checkpoint_file: str | os.PathLike[str] | None = None,
    ) -> None:
        """Store the arguments of `batch_udf`; raise InvalidInputError if one has the wrong type."""
        if not callable(func):
            raise InvalidInputError(f"expected a function of record batches, found {func!r}")
        if not isinstance(output_schema, pa.Schema | None):
            raise InvalidInputError(f"output_schema: expected a schema, found {output_schema!r}")
        self.func = func
        self.output_schema = output_schema
        self.checkpoint_file = None if checkpoint_file is None else location_text(checkpoint_file)

    def __call__(self, batch: pa.RecordBatch) -> Any:
        """Call the function on a batch."""
        return self.func(batch)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Call the function and return its result as a record batch with the declared columns.

        Raises:
            InvalidInputError: If the result is not a batch, or has another number of rows.
            SchemaMismatchError: If the result has other columns.
        """
        given = self.func(batch)
        result = batch_of(given)
        if result is None:
            raise InvalidInputError(
                f"the function returned {type(given).__name__}, not a RecordBatch or DataFrame"
            )
        if result.num_rows != batch.num_rows:
            raise InvalidInputError(
                f"the function returned {result.num_rows} rows for {batch.num_rows}"
            )
        if self.output_schema is None:
            return result
        return in_form_of(result, self.output_schema, "the function returned other columns")


def batch_udf(
    output_schema: pa.Schema | None = None,
    checkpoint_file: str | os.PathLike[str] | None = None,
) -> Callable[[Function], BatchUDF]:
    """Decorate a function that computes new columns from batches of existing ones.

    Args:
        output_schema: Schema of the new columns; None for the schema of the first result.
        checkpoint_file: File that stores results until they are committed. After an interruption,
            the next call with this file resumes the computation. It may grow to the size of the new
            columns of one fragment, and is deleted at the end.

    Returns:
        A decorator. The function receives a `pyarrow.RecordBatch` of rows that are not deleted, and
        returns a RecordBatch, a Table or a DataFrame of pandas or polars with as many rows.
    """
    return lambda function: BatchUDF(function, output_schema, checkpoint_file)


@dataclass
class Computation:
    """The application of a function to a version of a table.

    `reads` are the columns that are passed to it (None for all), in batches of `batch_size` rows
    (None for 8,192); `only` is the only fragment to compute (None for all).
    """

    snapshot: Snapshot
    function: BatchUDF
    reads: tuple[str, ...] | None = None
    batch_size: int | None = None
    only: Fragment | None = None
    _first: tuple[Fragment, pa.RecordBatch] | None = field(default=None, init=False)
    _coming: Iterator[pa.RecordBatch] | None = field(default=None, init=False)

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        function: BatchUDF | Function,
        columns: Iterable[str] | None,
        batch_size: int | None,
        only: Fragment | None = None,
    ) -> Computation:
        """Describe the application of a function as it was passed by the caller."""
        udf = function if isinstance(function, BatchUDF) else BatchUDF(function)
        return cls(snapshot, udf, None if columns is None else tuple(columns), batch_size, only)

    def __post_init__(self) -> None:
        path = self.function.checkpoint_file
        facts = repr((self.reads, self.batch_size))
        self.checkpoint = None if path is None else Checkpoint(path, self.snapshot.store, facts)

    def merge(self) -> Merge:
        """Write the columns of all fragments; the table does not change before a commit."""
        schema, new, alignment = self._columns()
        if self.checkpoint is None:  # otherwise, fragments may be done already
            self._coming = self._scan([int(one.id) for one in self._fragments])
        with new_files(self.snapshot.store) as written:
            fragments = [
                self._grown(fragment, new, alignment, written) for fragment in self._fragments
            ]
        return merge_of(self.snapshot, schema, new, fragments, written)

    def _columns(self) -> tuple[Schema, Schema, Alignment]:
        """Return the resulting schema, the new columns, and the alignment of results to them."""
        wanted = self.function.output_schema or self._first_schema()
        schema, new = with_new_columns(self.snapshot.manifest, wanted)
        require_addable(self.snapshot, new)
        return schema, new, align(wanted, new)

    def _grown(
        self, fragment: Fragment, new: Schema, alignment: Alignment, written: list[str]
    ) -> Fragment:
        """Return the fragment with one more file, which is computed now or was computed before."""
        if self.checkpoint is not None and (kept := self.checkpoint.file(fragment, new)):
            return fragment.with_file(kept)
        batches = map(alignment.batch, self._results(fragment))
        placed = in_structs(self.snapshot, new, batches, (fragment.id,))
        paths: list[str] = []
        grown = with_values(self.snapshot, fragment, new, placed, paths)
        if self.checkpoint is not None and paths:
            self.checkpoint.keep_file(fragment, new, grown.files[-1])
        else:
            written += paths
        return grown

    def finish(self) -> None:
        """Delete the checkpoint once everything is committed."""
        if self.checkpoint is not None:
            self.checkpoint.remove()

    @property
    def _fragments(self) -> tuple[Fragment, ...]:
        return self.snapshot.manifest.fragments.all() if self.only is None else (self.only,)

    def _first_schema(self) -> pa.Schema:
        """Return the schema of the first result, which is computed once."""
        if self.checkpoint is not None and (known := self.checkpoint.schema()) is not None:
            return known
        for fragment in self._fragments:
            first = next(self._results(fragment), None)
            if first is not None:
                self._first = fragment, first
                if self.checkpoint is not None:
                    self.checkpoint.keep_schema(first.schema)
                return first.schema
        raise InvalidInputError("output_schema: needed for a table without rows")

    def _results(self, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(self._rows(fragment)):
            yield self._result(fragment, number, batch)

    def _rows(self, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a fragment, of a scan of all fragments if there is one."""
        if self._coming is None:
            yield from self._scan([int(fragment.id)])
            return
        left = fragment.num_rows
        while left:
            batch = next(self._coming)
            left -= batch.num_rows
            yield batch

    def _scan(self, fragment_ids: Sequence[int]) -> Iterator[pa.RecordBatch]:
        options = ScanOptions(
            self.reads, batch_size=self.batch_size, fragment_ids=tuple(fragment_ids)
        )
        return scan(self.snapshot, options)

    def _result(self, fragment: Fragment, number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._first and number == 0 and self._first[0] is fragment:
            return self._first[1]
        found = None if self.checkpoint is None else self.checkpoint.batch(fragment, number)
        if found is not None and found.num_rows == batch.num_rows:
            return found
        result = self.function.apply(batch)
        if self.checkpoint is not None:
            self.checkpoint.keep_batch(fragment, number, result)
        return result


@dataclass(frozen=True)
class Checkpoint:
    """An open checkpoint file of a table.

    `reads` describes what the values depend on besides the fragment.
    """

    path: str
    store: Store
    reads: str

    def __post_init__(self) -> None:
        with self._open() as database:
            database.executescript(_TABLES)

    def schema(self) -> pa.Schema | None:
        """Return the schema of the results; None if there are no results yet."""
        data = self._find("SELECT data FROM results WHERE key = ?", self._key())
        return None if data is None else _table(data).schema

    def keep_schema(self, schema: pa.Schema) -> None:
        """Store the schema of the results."""
        self._keep("results", self._key(), _sealed(_stream(schema.empty_table())))

    def batch(self, fragment: Fragment, number: int) -> pa.RecordBatch | None:
        """Return the stored values of a batch; None if there are none."""
        data = self._find(
            "SELECT data FROM batches WHERE fragment = ? AND number = ? AND key = ?",
            *(fragment.id, number, self._key(fragment)),
        )
        if data is None:
            return None
        (batch,) = _table(data).combine_chunks().to_batches() or [None]
        return batch

    def keep_batch(self, fragment: Fragment, number: int, batch: pa.RecordBatch) -> None:
        """Store the values of a batch."""
        data = _stream(pa.Table.from_batches([batch]))
        self._keep("batches", fragment.id, number, self._key(fragment), _sealed(data))

    def file(self, fragment: Fragment, new: Schema) -> DataFile | None:
        """Return the finished data file of a fragment, if it still exists."""
        data = self._find(
            "SELECT data FROM fragments WHERE fragment = ? AND key = ?",
            *(fragment.id, self._key(fragment, new)),
        )
        if data is None:
            return None
        file = DataFile.from_json(json.loads(data))
        try:
            with closing(self.store.source(file.path_in_table)) as source:
                return file if source.size == file.size_bytes else None
        except NotFoundError:
            return None

    def keep_file(self, fragment: Fragment, new: Schema, file: DataFile) -> None:
        """Record a finished data file and drop its values, which are no longer needed."""
        data = json.dumps(file.to_json()).encode()
        row = (fragment.id, self._key(fragment, new), _sealed(data))
        with self._open() as database:
            database.execute("INSERT OR REPLACE INTO fragments VALUES (?, ?, ?)", row)
            database.execute("DELETE FROM batches WHERE fragment = ?", (fragment.id,))

    def remove(self) -> None:
        """Delete the checkpoint file once everything is committed."""
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    def _find(self, query: str, *values: Any) -> bytes | None:
        """Return the data of the row that a query selects; None if there is none."""
        with self._open() as database:
            (stored,) = database.execute(query, values).fetchone() or (None,)
        if stored is None:
            return None
        data = stored[_CHECKSUM_BYTES:] if isinstance(stored, bytes) else b""
        if stored != _sealed(data):
            raise CorruptFileError("results whose checksum differs", self.path)
        return data

    def _keep(self, table: str, *row: Any) -> None:
        marks = ", ".join("?" * len(row))
        with self._open() as database:
            database.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction on its own connection, because connections cannot change threads."""
        import sqlite3  # rarely needed, and slow to import

        try:
            with closing(sqlite3.connect(self.path)) as database, database:
                yield database
        except (sqlite3.DatabaseError, OSError, UnicodeDecodeError) as error:
            raise InvalidInputError(
                f"checkpoint_file: {self.path!r} cannot be used ({error}); name another one"
            ) from error

    def _key(self, fragment: Fragment | None = None, new: Schema | None = None) -> str:
        columns = [message.SerializeToString().hex() for message in new.to_proto()] if new else []
        facts = [_LAYOUT, self.store.uri, self.reads, fragment and fragment.to_json(), columns]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _sealed(data: bytes) -> bytes:
    """Return data after their checksum."""
    return hashlib.sha256(data).digest() + data


def _table(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data
