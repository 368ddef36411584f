"""Manifest entries in SQLite: a database file shared by the processes of one machine.

    lance_manifests    base_uri text, version bigint, path text, size bigint, committer text
                       primary key (base_uri, version)

The table is created on first use. Each call opens its own connection, so that threads and forked
processes never share one. A write waits until it is on the device.
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
    """Manifest paths by version, in a SQLite database.

    Attributes:
        database: Path of the database file. The file is created if missing, but its folder is not.
    """

    database: str

    def get(self, table: str, version: int) -> str | None:
        """Return the path of a version, None if there is no entry."""
        found = self._rows(
            "select path from lance_manifests where base_uri = ? and version = ?", table, version
        )
        return found[0][0] if found else None

    def get_latest(self, table: str) -> tuple[int, str] | None:
        """Return the highest version of a table and its path, None without entries."""
        found = self._rows(
            "select version, path from lance_manifests where base_uri = ? "
            "order by version desc limit 1",
            table,
        )
        return (found[0][0], found[0][1]) if found else None

    def put_if_absent(self, table: str, version: int, path: str, size: int) -> bool:
        """Create the entry of a version unless there is one; exactly one caller succeeds."""
        changed = self._change(
            "insert into lance_manifests (path, size, base_uri, version, committer) "
            "values (?, ?, ?, ?, 'pilum') on conflict do nothing",
            (path, size, table, version),
        )
        return changed == 1

    def put_if_exists(self, table: str, version: int, path: str, size: int) -> None:
        """Replace the entry of a version; do nothing if there is none."""
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
        import sqlite3  # a library that is seldom needed

        try:
            with closing(
                sqlite3.connect(self.database, timeout=_BUSY_SECONDS, isolation_level=None)
            ) as connection:
                connection.execute(_CREATE)
                yield connection
        except sqlite3.Error as error:
            raise OSError(f"{self.database}: {error}") from error
