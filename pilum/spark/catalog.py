"""Names of tables for SQL: single tables of a session, files of names, and namespaces.

    attach(spark, "orders", "/data/orders.lance")            orders
    attach(spark, "lake", NameFile("/data/names.json"))      lake.orders, lake.users, …
    attach(spark, "shop", DirectoryNamespace(root="…"))      shop.orders, shop.old.orders, …

A file of names, in JSON; locations without a leading slash are relative to its folder:

    {"tables": {"orders": {"location": "s3://bucket/orders.lance",
                           "storage_options": {"region": "eu-west-1"}},
                "users":  {"location": "users.lance", "managed": true}}}

A managed table was created by its name alone, and DROP TABLE deletes its files.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

import pilum
from pilum.distributed.files import exclusively
from pilum.errors import (
    CorruptFileError,
    DatasetAlreadyExistsError,
    DatasetNotFoundError,
    InvalidInputError,
    MissingDependencyError,
    UnsupportedFeatureError,
)
from pilum.spark.options import table_uri

__all__ = ["NameFile", "Names", "Place", "TableName", "attach", "detach"]

_FORMATS = frozenset({"lance", "pilum"})
_NAME = re.compile(r"\w[\w-]*")
_SUFFIX = ".lance"
_NO_OPTIONS: Mapping[str, str] = {}


@dataclass(frozen=True)
class Place:
    """The location of a table, and how its store is opened.

    Attributes:
        uri: Location of the table.
        storage_options: Settings of its store.
        is_managed: Whether the table is dropped with its name.
    """

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_managed: bool = False


class Collection(Protocol):
    """Names of tables that are kept together."""

    def find(self, names: Sequence[str]) -> Place | None:
        """Return the place of a table; None if there is no such name."""

    def tables(self, parents: Sequence[str]) -> list[str]:
        """Return the names of the tables, in the child namespace of the given names."""

    def reserve(self, names: Sequence[str]) -> Place:
        """Return the place for a new table that is to be created by its name."""

    def add(self, names: Sequence[str], place: Place) -> None:
        """Add the name of a table."""

    def drop(self, names: Sequence[str]) -> None:
        """Remove a name, and the table if it is managed."""

    def rename(self, names: Sequence[str], new: Sequence[str]) -> None:
        """Give a table another name."""


@dataclass(frozen=True)
class TableName:
    """A name in a statement that belongs to an attached collection, or to a single table.

    Attributes:
        names: The parts of the name within the collection.
        place: The place of the table; None if it does not exist.
        collection: The collection; None for a table that the call itself names.
    """

    names: tuple[str, ...]
    place: Place | None
    collection: Collection | None = None


class NameFile:
    """Names of tables in a local JSON file, which many sessions may share.

    New tables are created beside the file, as `<name>.lance`. Each change replaces the file as a
    whole, under a lock of the file system.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open a file of names; it may not exist yet.

        Args:
            path: Path of the file; its folder must exist.

        Raises:
            InvalidInputError: If the folder does not exist.
        """
        self._path = Path(path).absolute()
        if not self._path.parent.is_dir():
            raise InvalidInputError(f"{self._path}: the folder of the file does not exist")

    def __repr__(self) -> str:
        return f"NameFile({str(self._path)!r})"

    def find(self, names: Sequence[str]) -> Place | None:
        """Return the place of a table; None if there is no such name."""
        entry = self._read().get(_single(names))
        if entry is None:
            return None
        return Place(
            self._absolute(entry["location"]),
            entry.get("storage_options", _NO_OPTIONS),
            is_managed=entry.get("managed", False),
        )

    def tables(self, parents: Sequence[str]) -> list[str]:
        """Return all names, in lexical order."""
        return [] if parents else sorted(self._read())

    def reserve(self, names: Sequence[str]) -> Place:
        """Return the place of a new table, in the folder of the file."""
        name = _single(names)
        if not _NAME.fullmatch(name):
            raise InvalidInputError(
                f"{name!r}: a table that is created by its name is called by letters, digits, "
                "_ and -; pass a LOCATION for others"
            )
        return Place(self._absolute(name + _SUFFIX), is_managed=True)

    def add(self, names: Sequence[str], place: Place) -> None:
        """Write a name to the file."""
        folder, uri = f"{self._path.parent}/", place.uri
        location = uri.removeprefix(folder) if place.is_managed else uri
        entry: dict[str, Any] = {"location": location}
        if place.storage_options:
            entry["storage_options"] = dict(place.storage_options)
        if place.is_managed:
            entry["managed"] = True
        with self._changed() as tables:
            tables[_single(names)] = entry

    def drop(self, names: Sequence[str]) -> None:
        """Remove a name from the file, and delete the table if it is managed."""
        place = self.find(names)
        if place is not None and place.is_managed:
            pilum.LanceDataset.drop(place.uri, place.storage_options, ignore_not_found=True)
        with self._changed() as tables:
            tables.pop(_single(names), None)

    def rename(self, names: Sequence[str], new: Sequence[str]) -> None:
        """Change a name in the file; the files of the table stay where they are."""
        with self._changed() as tables:
            tables[_single(new)] = tables.pop(_single(names))

    @contextmanager
    def _changed(self) -> Iterator[dict[str, dict[str, Any]]]:
        """Read the names, and write them back, while no other process does."""
        with exclusively(self._path.with_name(f"{self._path.name}.lock")):
            tables = self._read()
            yield tables
            new = self._path.with_name(f"{self._path.name}.new")
            new.write_text(json.dumps({"tables": tables}, indent=2) + "\n")
            new.replace(self._path)

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            text = self._path.read_text()
        except FileNotFoundError:
            return {}
        try:
            tables = json.loads(text)["tables"]
            for entry in tables.values():
                _require_entry(entry)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise CorruptFileError(
                f"{self._path}: not a file of names; expected "
                '{"tables": {"name": {"location": "…"}}}'
            ) from error
        found: dict[str, dict[str, Any]] = tables
        return found

    def _absolute(self, location: str) -> str:
        is_absolute = location.startswith("/") or "://" in location
        return location if is_absolute else str(self._path.parent / location)


def _require_entry(entry: Any) -> None:
    options = entry.get("storage_options", {})
    texts = [entry["location"], *options, *options.values()]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("not a text")
    if not isinstance(entry.get("managed", False), bool):
        raise TypeError("not a truth value")


class _Namespace:
    """The tables of a `lance_namespace.LanceNamespace`, such as `DirectoryNamespace`."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._api = _namespace_package()

    def find(self, names: Sequence[str]) -> Place | None:
        missing = (self._api.TableNotFoundError, self._api.NamespaceNotFoundError)
        try:
            found = self._client.describe_table(self._api.DescribeTableRequest(id=[*names]))
        except missing:
            return None
        return self._place(found, names)

    def tables(self, parents: Sequence[str]) -> list[str]:
        found, token = list[str](), None
        while True:
            request = self._api.ListTablesRequest(id=[*parents], page_token=token)
            page = self._client.list_tables(request)
            found += page.tables
            token = page.page_token
            if not token:
                return sorted(found)

    def reserve(self, names: Sequence[str]) -> Place:
        try:
            found = self._client.declare_table(self._api.DeclareTableRequest(id=[*names]))
        except self._api.TableAlreadyExistsError as error:
            raise DatasetAlreadyExistsError(f"table {'.'.join(names)}: {error}") from error
        return self._place(found, names)

    def add(self, names: Sequence[str], place: Place) -> None:
        if not place.is_managed:
            request = self._api.RegisterTableRequest(id=[*names], location=place.uri)
            self._client.register_table(request)

    def drop(self, names: Sequence[str]) -> None:
        self._client.drop_table(self._api.DropTableRequest(id=[*names]))

    def rename(self, names: Sequence[str], new: Sequence[str]) -> None:
        raise UnsupportedFeatureError("tables of a namespace are not renamed")

    @staticmethod
    def _place(found: Any, names: Sequence[str]) -> Place:
        if not found.location:
            raise InvalidInputError(f"table {'.'.join(names)}: its namespace returns no location")
        if getattr(found, "managed_versioning", None):
            raise UnsupportedFeatureError(
                f"table {'.'.join(names)}: its namespace manages its versions itself, which is "
                "not supported"
            )
        return Place(found.location, found.storage_options or _NO_OPTIONS, is_managed=True)


class _SessionTables:
    """The single tables of a session."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}

    def find(self, names: Sequence[str]) -> Place | None:
        return self._places.get(names[0].lower()) if len(names) == 1 else None

    def tables(self, parents: Sequence[str]) -> list[str]:
        return [] if parents else sorted(self._places)

    def reserve(self, names: Sequence[str]) -> Place:
        raise InvalidInputError(
            f"CREATE TABLE {'.'.join(names)}: pass its LOCATION, or create it in an attached "
            "namespace or file of names"
        )

    def add(self, names: Sequence[str], place: Place) -> None:
        self._places[_single(names).lower()] = place

    def drop(self, names: Sequence[str]) -> None:
        self._places.pop(_single(names).lower(), None)

    def rename(self, names: Sequence[str], new: Sequence[str]) -> None:
        self._places[_single(new).lower()] = self._places.pop(_single(names).lower())


class Names:
    """The names that a session has attached, and those that one call adds."""

    def __init__(self) -> None:
        self.tables = _SessionTables()
        self.collections: dict[str, Collection] = {}
        self._given: Mapping[str, Place] = {}

    @classmethod
    def of(cls, spark: SparkSession | None, tables: Mapping[str, str]) -> Names:
        """Return the names of a session and those of a call, which come first."""
        attached = Names() if spark is None else _names_of(spark)
        found = cls()
        found.tables, found.collections = attached.tables, attached.collections
        found._given = {name.lower(): Place(table_uri(uri)) for name, uri in tables.items()}
        return found

    @property
    def words(self) -> set[str]:
        """The lower-case words with which names of tables begin."""
        return {*self._given, *self.tables.tables(()), *self.collections}

    def find(self, names: Sequence[str]) -> TableName | None:
        """Return what a name means; None if it is not one of these."""
        first, *rest = names
        if not rest:
            if first.lower() in self._given:
                return TableName((first,), self._given[first.lower()])
            place = self.tables.find(names)
            return None if place is None else TableName((first,), place, self.tables)
        collection = self.collections.get(first.lower())
        if collection is None:
            return None
        return TableName((*rest,), collection.find(rest), collection)


_ATTACHED: WeakKeyDictionary[SparkSession, Names] = WeakKeyDictionary()


def _names_of(spark: SparkSession) -> Names:
    return _ATTACHED.setdefault(spark, Names())


def attach(
    spark: SparkSession,
    name: str,
    target: str | os.PathLike[str] | NameFile | Any,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Give a table, or a collection of tables, a name in the SQL of a session.

    >>> pilum.spark.attach(spark, "orders", "/data/orders.lance")
    >>> pilum.spark.sql(spark, "SELECT count(*) FROM orders")

    Names ignore case and take precedence over views of Spark. A name that is attached again is
    replaced. Nothing is read or written, except that a dotted name is stored in its collection.

    Args:
        spark: The session that keeps the name.
        name: A name; `lake.orders` adds the table "orders" to the attached collection "lake".
        target: Location of a table; or a collection: a `NameFile`, or a namespace such as
            `pilum.namespace.DirectoryNamespace`, whose tables are `name.table`.
        storage_options: Settings of the store of the table.

    Raises:
        InvalidInputError: If the name is not allowed, or the target is neither of these.
        MissingDependencyError: If a namespace is passed and lance-namespace is not installed.
    """
    first, *rest = name.split(".")
    if not all(map(_NAME.fullmatch, (first, *rest))) or first.lower() in _FORMATS:
        raise InvalidInputError(
            f"attach: {name!r} is no name; expected letters, digits, _ and -, and neither "
            "lance nor pilum"
        )
    names = _names_of(spark)
    if isinstance(target, str | os.PathLike):
        collection = names.collections.get(first.lower()) if rest else names.tables
        if collection is None:
            raise InvalidInputError(f"attach: {first!r} is no attached collection")
        place = Place(table_uri(os.fspath(target)), dict(storage_options or {}))
        collection.add(rest or [first], place)
        return
    if rest or storage_options:
        raise InvalidInputError(
            "attach: a collection has a name without dots, and its own storage options"
        )
    if not isinstance(target, NameFile) and not hasattr(target, "describe_table"):
        raise InvalidInputError(
            f"attach: expected a location, a NameFile or a namespace, found {type(target).__name__}"
        )
    is_file = isinstance(target, NameFile)
    names.collections[first.lower()] = target if is_file else _Namespace(target)


def detach(spark: SparkSession, name: str) -> None:
    """Remove a name that `attach` gave; no table is deleted.

    Args:
        spark: The session.
        name: The name of a table or collection. To remove a name from a collection, use
            `DROP TABLE`.

    Raises:
        DatasetNotFoundError: If the session has no such name.
    """
    names, key = _names_of(spark), name.lower()
    if names.tables.find([key]) is None and key not in names.collections:
        raise DatasetNotFoundError(f"detach: no name {name!r} is attached")
    names.tables.drop([key])
    names.collections.pop(key, None)


def _single(names: Sequence[str]) -> str:
    if len(names) != 1:
        raise InvalidInputError(f"{'.'.join(names)}: expected one name, without dots")
    return names[0]


def _namespace_package() -> Any:
    try:
        import lance_namespace
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "namespaces need lance-namespace: pip install lance-namespace"
        ) from error
    return lance_namespace
