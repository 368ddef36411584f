"""Manifest entries in SQL databases: one row per version, which the primary key makes unique.

    lance_manifests    base_uri text, version bigint, path text, size bigint, committer text
                       primary key (base_uri, version)

    SqliteEntries      a database file shared by the processes of one machine
    PostgresEntries    a database of a server

The table is created on first use. Each call opens its own connection, so that threads and forked
processes never share one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from pilum.errors import MissingDependencyError

__all__ = ["PostgresEntries", "SqliteEntries"]

_BUSY_SECONDS = 30.0
_CREATE = """create table if not exists lance_manifests (
    base_uri text not null, version bigint not null, path text not null, size bigint,
    committer text, primary key (base_uri, version))"""


class _SqlEntries(ABC):
    """Manifest paths by version, in a database."""

    __slots__ = ()

    def get(self, table: str, version: int) -> str | None:
        """Return the path of a version, None if there is no entry."""
        statement = "select path from lance_manifests where base_uri = ? and version = ?"
        with self._executed(statement, table, version) as cursor:
            found = cursor.fetchone()
        return found[0] if found else None

    def get_latest(self, table: str) -> tuple[int, str] | None:
        """Return the highest version of a table and its path, None without entries."""
        statement = (
            "select version, path from lance_manifests where base_uri = ? "
            "order by version desc limit 1"
        )
        with self._executed(statement, table) as cursor:
            found = cursor.fetchone()
        return (found[0], found[1]) if found else None

    def put_if_absent(self, table: str, version: int, path: str, size: int) -> bool:
        """Create the entry of a version unless there is one; exactly one caller succeeds."""
        statement = (
            "insert into lance_manifests (path, size, base_uri, version, committer) "
            "values (?, ?, ?, ?, 'pilum') on conflict do nothing"
        )
        with self._executed(statement, path, size, table, version) as cursor:
            return int(cursor.rowcount) == 1

    def put_if_exists(self, table: str, version: int, path: str, size: int) -> None:
        """Replace the entry of a version; do nothing if there is none."""
        statement = (
            "update lance_manifests set path = ?, size = ? where base_uri = ? and version = ?"
        )
        with self._executed(statement, path, size, table, version):
            pass

    @abstractmethod
    def _executed(self, statement: str, *values: Any) -> AbstractContextManager[Any]:
        """Execute a statement in a connection of its own, and return the cursor.

        Args:
            statement: SQL with a question mark for each value.
            *values: The values.
        """


@dataclass(frozen=True, slots=True)
class SqliteEntries(_SqlEntries):
    """Manifest paths by version, in a SQLite database. A write waits until it is on the device.

    Attributes:
        database: Path of the database file. The file is created if missing, but its folder is not.
    """

    database: str

    @contextmanager
    def _executed(self, statement: str, *values: Any) -> Iterator[Any]:
        import sqlite3  # a library that is seldom needed

        try:
            with closing(
                sqlite3.connect(self.database, timeout=_BUSY_SECONDS, isolation_level=None)
            ) as connection:
                connection.execute(_CREATE)
                yield connection.execute(statement, values)
        except sqlite3.Error as error:
            raise OSError(f"{self.database}: {error}") from error


@dataclass(frozen=True, slots=True)
class PostgresEntries(_SqlEntries):
    """Manifest paths by version, in a PostgreSQL database.

    Needs `psycopg`: `pip install pilum[postgresql]`. The table is created by the first user with
    the permission to do so.

    Attributes:
        location: Connection URI for `psycopg.connect`: `postgresql://user@host/database`.
    """

    location: str = field(repr=False)  # it may contain a password

    @contextmanager
    def _executed(self, statement: str, *values: Any) -> Iterator[Any]:
        psycopg = _postgresql_driver()
        statement = statement.replace("?", "%s")
        try:
            with psycopg.connect(self.location, autocommit=True) as connection:
                try:
                    cursor = connection.execute(statement, values)
                except psycopg.errors.UndefinedTable:
                    # Of two processes that create it concurrently, the second fails and finds it.
                    with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
                        connection.execute(_CREATE)
                    cursor = connection.execute(statement, values)
                yield cursor
        except psycopg.Error as error:
            raise OSError(f"the PostgreSQL database of the manifests failed: {error}") from error


def _postgresql_driver() -> Any:
    try:
        return import_module("psycopg")
    except ImportError as error:
        raise MissingDependencyError(
            "manifests in PostgreSQL need psycopg: pip install 'pilum[postgresql]'"
        ) from error
