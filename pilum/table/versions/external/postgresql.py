"""Manifest entries in PostgreSQL: one row per version, which the primary key makes unique.

The table is that of `sqlite.py`. It is created on first use, by a user with the permission to do
so. Each call opens its own connection, so that threads and forked processes never share one.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from pilum.errors import MissingDependencyError

__all__ = ["PostgresEntries"]

_CREATE = """create table if not exists lance_manifests (
    base_uri text not null, version bigint not null, path text not null, size bigint,
    committer text, primary key (base_uri, version))"""


@dataclass(frozen=True, slots=True)
class PostgresEntries:
    """Manifest paths by version, in a PostgreSQL database.

    Needs `psycopg`: `pip install pilum[postgresql]`.

    Attributes:
        location: Connection URI for `psycopg.connect`: `postgresql://user@host/database`.
    """

    location: str = field(repr=False)  # it may contain a password

    def get(self, table: str, version: int) -> str | None:
        """Return the path of a version, None if there is no entry."""
        found = self._run(
            "select path from lance_manifests where base_uri = %s and version = %s", table, version
        )
        return found[0][0] if found else None

    def get_latest(self, table: str) -> tuple[int, str] | None:
        """Return the highest version of a table and its path, None without entries."""
        found = self._run(
            "select version, path from lance_manifests where base_uri = %s "
            "order by version desc limit 1",
            table,
        )
        return (found[0][0], found[0][1]) if found else None

    def put_if_absent(self, table: str, version: int, path: str, size: int) -> bool:
        """Create the entry of a version unless there is one; exactly one caller succeeds."""
        created = self._run(
            "insert into lance_manifests (path, size, base_uri, version, committer) "
            "values (%s, %s, %s, %s, 'pilum') on conflict do nothing returning version",
            path,
            size,
            table,
            version,
        )
        return bool(created)

    def put_if_exists(self, table: str, version: int, path: str, size: int) -> None:
        """Replace the entry of a version; do nothing if there is none."""
        self._run(
            "update lance_manifests set path = %s, size = %s "
            "where base_uri = %s and version = %s returning version",
            path,
            size,
            table,
            version,
        )

    def _run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        psycopg = _driver()
        try:
            with psycopg.connect(self.location, autocommit=True) as connection:
                try:
                    return _rows(connection, statement, values)
                except psycopg.errors.UndefinedTable:
                    # Of two processes that create it concurrently, the second fails and finds it.
                    with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
                        connection.execute(_CREATE)
                    return _rows(connection, statement, values)
        except psycopg.Error as error:
            raise OSError(f"the PostgreSQL database of the manifests failed: {error}") from error


def _rows(connection: Any, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = connection.execute(statement, values).fetchall()
    return rows


def _driver() -> Any:
    try:
        return import_module("psycopg")
    except ImportError as error:
        raise MissingDependencyError(
            "manifests in PostgreSQL need psycopg: pip install 'pilum[postgresql]'"
        ) from error
