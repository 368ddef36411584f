"""Entries in a SQLite database: a file that the processes of one machine share.

    lance_manifests    base_uri text, version bigint, path text, size bigint, committer text
                       primary key (base_uri, version)

The table is created when it is first needed. A connection lives for one call, so that threads and
forked processes never share one; a write waits until the device has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["SqliteEntries"]

_BUSY_SECONDS = 30.0
_CREATE = """create table if not exists lance_manifests (
    base_uri text not null, version bigint not null, path text not null, size bigint,
    committer text, primary key (base_uri, version))"""


@dataclass(frozen=True, slots=True)
class SqliteEntries:
    """Which manifest is which version, in a SQLite database.

    Attributes:
        database: Path of the database file; it is created, its folder is not.
    """

    database: str

    def get(self, table: str, version: int) -> str | None:
        """The path of a version, None if there is no entry."""
        found = self._rows(
            "select path from lance_manifests where base_uri = ? and version = ?", table, version
        )
        return found[0][0] if found else None

    def get_latest(self, table: str) -> tuple[int, str] | None:
        """The highest version of a table and its path, None without entries."""
        found = self._rows(
            "select version, path from lance_manifests where base_uri = ? "
            "order by version desc limit 1",
            table,
        )
        return (found[0][0], found[0][1]) if found else None

    def put_if_absent(self, table: str, version: int, path: str, size: int) -> bool:
        """Creates the entry of a version unless there is one; exactly one caller wins."""
        changed = self._change(
            "insert into lance_manifests (path, size, base_uri, version, committer) "
            "values (?, ?, ?, ?, 'pilum') on conflict do nothing",
            (path, size, table, version),
        )
        return changed == 1

    def put_if_exists(self, table: str, version: int, path: str, size: int) -> None:
        """Replaces the entry of a version; nothing happens if there is none."""
        self._change(
            "update lance_manifests set path = ?, size = ? where base_uri = ? and version = ?",
            (path, size, table, version),
        )

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._connected() as connection:
            rows: list[tuple[Any, ...]] = connection.execute(query, values).fetchall()
            return rows

    def _change(self, statement: str, values: tuple[Any, ...]) -> int:
        with self._connected() as connection:
            return int(connection.execute(statement, values).rowcount)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        import sqlite3  # loads a library that few need

        try:
            with closing(
                sqlite3.connect(self.database, timeout=_BUSY_SECONDS, isolation_level=None)
            ) as connection:
                connection.execute(_CREATE)
                yield connection
        except sqlite3.Error as error:
            raise OSError(f"{self.database}: {error}") from error
