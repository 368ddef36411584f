"""Checkpoint files: the finished results of a long computation of new columns.

    results      key                                     the columns of the first batch
    batches      fragment, number of the batch, key      the values, as an Arrow stream
    fragments    fragment, key                           the finished data file

The file is a SQLite database: a process that is killed while writing leaves the previous content
intact. A key covers everything that the values depend on, as far as it is known: the table, the
fragment with its files and deleted rows, the columns that are read, and the batch size. Results
with another key are computed again. Values stay in the file until their data file is finished.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from pilum.errors import CorruptFileError, InvalidInputError, NotFoundError
from pilum.format.schema import Schema
from pilum.storage.base import Store
from pilum.table.model.fragment import DataFile, Fragment

if TYPE_CHECKING:
    import sqlite3

__all__ = ["Checkpoint"]

_TABLES = """
CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, data BLOB);
CREATE TABLE IF NOT EXISTS batches
    (fragment INTEGER, number INTEGER, key TEXT, data BLOB, PRIMARY KEY (fragment, number));
CREATE TABLE IF NOT EXISTS fragments (fragment INTEGER PRIMARY KEY, key TEXT, data TEXT);
"""


@dataclass(frozen=True)
class Checkpoint:
    """An open checkpoint file.

    Attributes:
        path: Path of the checkpoint file.
        store: Store of the table.
        reads: Description of what the values depend on besides the fragment.
    """

    path: str
    store: Store
    reads: str

    def __post_init__(self) -> None:
        with self._open() as database:
            database.executescript(_TABLES)

    def schema(self) -> pa.Schema | None:
        """Return the schema of the results; None if there are no results yet.

        Raises:
            InvalidInputError: If the file is not a checkpoint.
            CorruptFileError: If it is damaged.
        """
        with self._open() as database:
            found = database.execute("SELECT data FROM results WHERE key = ?", (self._key(),))
            row = found.fetchone()
        return None if row is None else self._read(row[0]).schema

    def keep_schema(self, schema: pa.Schema) -> None:
        """Store the schema of the results."""
        row = (self._key(), _stream(schema.empty_table()))
        with self._open() as database:
            database.execute("INSERT OR REPLACE INTO results VALUES (?, ?)", row)

    def batch(self, fragment: Fragment, number: int) -> pa.RecordBatch | None:
        """Return the stored values of a batch; None if there are none.

        Raises:
            InvalidInputError: If the file is not a checkpoint.
            CorruptFileError: If the values are damaged.
        """
        with self._open() as database:
            found = database.execute(
                "SELECT data FROM batches WHERE fragment = ? AND number = ? AND key = ?",
                (fragment.id, number, self._key(fragment)),
            ).fetchone()
        if found is None:
            return None
        (batch,) = self._read(found[0]).combine_chunks().to_batches() or [None]
        return batch

    def keep_batch(self, fragment: Fragment, number: int, batch: pa.RecordBatch) -> None:
        """Store the values of a batch."""
        row = (fragment.id, number, self._key(fragment), _stream(pa.Table.from_batches([batch])))
        with self._open() as database:
            database.execute("INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?)", row)

    def file(self, fragment: Fragment, new: Schema) -> DataFile | None:
        """Return the finished data file of a fragment, if it still exists.

        Raises:
            InvalidInputError: If the file is not a checkpoint.
        """
        with self._open() as database:
            found = database.execute(
                "SELECT data FROM fragments WHERE fragment = ? AND key = ?",
                (fragment.id, self._key(fragment, new)),
            ).fetchone()
        if found is None:
            return None
        file = DataFile.from_json(json.loads(found[0]))
        try:
            with closing(self.store.source(file.path_in_table)) as source:
                return file if source.size == file.size_bytes else None
        except NotFoundError:
            return None

    def keep_file(self, fragment: Fragment, new: Schema, file: DataFile) -> None:
        """Record a finished data file and drop its values, which are no longer needed."""
        row = (fragment.id, self._key(fragment, new), json.dumps(file.to_json()))
        with self._open() as database:
            database.execute("INSERT OR REPLACE INTO fragments VALUES (?, ?, ?)", row)
            database.execute("DELETE FROM batches WHERE fragment = ?", (fragment.id,))

    def remove(self) -> None:
        """Delete the checkpoint file once everything is committed."""
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction on its own connection, because connections cannot change threads."""
        import sqlite3  # rarely needed, and slow to import

        try:
            with closing(sqlite3.connect(self.path)) as database, database:
                yield database
        except (sqlite3.DatabaseError, OSError) as error:
            raise InvalidInputError(
                f"checkpoint_file: {self.path!r} cannot be used ({error}); name another one"
            ) from error

    def _read(self, data: bytes) -> pa.Table:
        try:
            return pa.ipc.open_stream(data).read_all()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise CorruptFileError(f"no values: {error}", self.path) from error

    def _key(self, fragment: Fragment | None = None, new: Schema | None = None) -> str:
        columns = [message.SerializeToString().hex() for message in new.to_proto()] if new else []
        facts = [self.store.uri, self.reads, fragment and fragment.to_json(), columns]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data
