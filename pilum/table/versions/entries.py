"""Manifest entries in databases: a row or item per version, which its primary key makes unique.

    SqliteEntries      a database file shared by the processes of one machine
    PostgresEntries    a database of a server
        lance_manifests    base_uri text, version bigint, path text, size bigint, committer text
                           primary key (base_uri, version)

    DynamoEntries      as the reference stores them: `s3+ddb://bucket/path?ddbTableName=T`
        base_uri   S  hash key     the location in its bucket: `path` of s3://bucket/path
        version    N  range key
        path       S               of the manifest, in the bucket
        size       N               of the manifest, bytes; 0 if unknown
        committer  S               "lancedb"

The SQL table is created on first use. Each call opens its own SQL connection, so that threads and
forked processes never share one. Reads of DynamoDB are strongly consistent. The reference also has
entries for detached versions, whose numbers are above all others; they are ignored when looking for
the newest version. Source: docs/format/table.md, "External manifest stores".
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any

from pilum.errors import CorruptFileError, InvalidInputError, MissingDependencyError
from pilum.table.model.names import DETACHED_BIT

__all__ = ["DynamoEntries", "PostgresEntries", "SqliteEntries"]

_BUSY_SECONDS = 30.0
_CREATE = """create table if not exists lance_manifests (
    base_uri text not null, version bigint not null, path text not null, size bigint,
    committer text, primary key (base_uri, version))"""
_LOCATION = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://[^/]*)?/*(.*?)/*")
_ENDPOINT_VARIABLE = "DYNAMODB_ENDPOINT"
_ARGUMENTS = {
    "aws_access_key_id": "aws_access_key_id",
    "access_key_id": "aws_access_key_id",
    "aws_secret_access_key": "aws_secret_access_key",
    "secret_access_key": "aws_secret_access_key",
    "aws_session_token": "aws_session_token",
    "aws_token": "aws_session_token",
    "session_token": "aws_session_token",
    "token": "aws_session_token",
    "aws_region": "region_name",
    "region": "region_name",
    "aws_default_region": "region_name",
    "dynamodb_endpoint": "endpoint_url",
}
"""Storage options, and the corresponding arguments of boto3."""


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
        """Execute SQL with question marks for values, in a new connection; return the cursor."""


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
        psycopg = _module("psycopg", "manifests in PostgreSQL need psycopg", "postgresql")
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


@dataclass(frozen=True, slots=True)
class DynamoEntries:
    """Manifest paths by version, in a DynamoDB table.

    Needs `boto3`: `pip install pilum[dynamodb]`.

    Attributes:
        table_name: Name of the DynamoDB table.
        arguments: Arguments of the boto3 client, as pairs; boto3 uses its own defaults for the
            others.
    """

    table_name: str
    arguments: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, table_name: str, storage_options: Mapping[str, str]) -> DynamoEntries:
        """Create entries that use the credentials of the object store.

        Args:
            table_name: Name of the DynamoDB table.
            storage_options: Options of the object store; `dynamodb_endpoint` is the server, if it
                is not that of the region. The environment variable `DYNAMODB_ENDPOINT` has the same
                effect.
        """
        found = {}
        if endpoint := os.environ.get(_ENDPOINT_VARIABLE):
            found["endpoint_url"] = endpoint
        for key, value in storage_options.items():
            if argument := _ARGUMENTS.get(key.lower()):
                found[argument] = value
        return cls(table_name, tuple(sorted(found.items())))

    def get(self, table: str, version: int) -> str | None:
        """Return the path of a version, None if there is no entry."""
        key = {"base_uri": {"S": _base(table)}, "version": {"N": str(version)}}
        item = self._call("get_item", Key=key, ConsistentRead=True).get("Item")
        return self._path(table, item) if item else None

    def get_latest(self, table: str) -> tuple[int, str] | None:
        """Return the highest version of a table and its path, None without entries."""
        items = self._call(
            "query",
            KeyConditionExpression="base_uri = :base AND version < :detached",
            ExpressionAttributeValues={
                ":base": {"S": _base(table)},
                ":detached": {"N": str(DETACHED_BIT)},
            },
            ConsistentRead=True,
            ScanIndexForward=False,
            Limit=1,
        )["Items"]
        return (int(items[0]["version"]["N"]), self._path(table, items[0])) if items else None

    def put_if_absent(self, table: str, version: int, path: str, size: int) -> bool:
        """Create the entry of a version unless there is one; exactly one caller succeeds."""
        condition = "attribute_not_exists(base_uri) AND attribute_not_exists(version)"
        return self._put(table, version, path, size, condition)

    def put_if_exists(self, table: str, version: int, path: str, size: int) -> None:
        """Replace the entry of a version; do nothing if there is none."""
        condition = "attribute_exists(base_uri) AND attribute_exists(version)"
        self._put(table, version, path, size, condition)

    def _put(self, table: str, version: int, path: str, size: int, condition: str) -> bool:
        base = _base(table)
        item = {
            "base_uri": {"S": base},
            "version": {"N": str(version)},
            "path": {"S": f"{base}/{path}"},
            "size": {"N": str(size)},
            "committer": {"S": "lancedb"},
        }
        return self._call("put_item", Item=item, ConditionExpression=condition) is not _REFUSED

    def _path(self, table: str, item: Mapping[str, Any]) -> str:
        path, base = item.get("path", {}).get("S", ""), _base(table)
        if not path.startswith(f"{base}/"):
            raise CorruptFileError(
                f"an entry for the path {path!r}, which is not below {base!r}",
                f"DynamoDB table {self.table_name}",
            )
        return str(path.removeprefix(f"{base}/"))

    def _call(self, method: str, **arguments: Any) -> Mapping[str, Any]:
        client, errors = _client(self.arguments)
        try:
            answer: Mapping[str, Any] = getattr(client, method)(
                TableName=self.table_name, **arguments
            )
        except errors.ClientError as error:
            code = error.response["Error"]["Code"]
            if code == "ConditionalCheckFailedException":
                return _REFUSED
            if code in {"ResourceNotFoundException", "ValidationException"}:
                raise InvalidInputError(
                    f"DynamoDB table {self.table_name!r}: {error}; expected a table with hash key "
                    "base_uri (S) and range key version (N)"
                ) from error
            raise OSError(f"DynamoDB table {self.table_name!r}: {error}") from error
        except errors.BotoCoreError as error:
            raise OSError(f"DynamoDB table {self.table_name!r}: {error}") from error
        return answer


_REFUSED: Mapping[str, Any] = {}


@lru_cache(maxsize=16)
def _client(arguments: tuple[tuple[str, str], ...]) -> tuple[Any, Any]:
    needed = "manifests in DynamoDB need boto3"
    boto3 = _module("boto3", needed, "dynamodb")
    exceptions = _module("botocore.exceptions", needed, "dynamodb")
    return boto3.session.Session().client("dynamodb", **dict(arguments)), exceptions


def _base(table: str) -> str:
    """Return the path of a location within its bucket."""
    match = _LOCATION.fullmatch(table)
    return match[1] if match else table


def _module(name: str, needed: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingDependencyError(f"{needed}: pip install 'pilum[{extra}]'") from error
