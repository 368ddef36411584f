"""The columns of a streaming query, which must be the same fields in every version it reads.

    query reads   version 4       version 5           version 6, after a rename
    id, text      id:0  text:1    id:0  text:1  n:2   id:0  body:1  n:2     -> an error

A field of a table keeps its id when it is renamed. A column that is dropped and added again, or
that changes its type, gets another id. A version from before a column was added yields nulls for
it. Source: docs/spark.md, "Following a table".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from pilum.errors import SchemaMismatchError
from pilum.expressions import bind
from pilum.format.schema import Field
from pilum.spark.options import Options
from pilum.table.read.snapshot import Snapshot

__all__ = ["QueryColumns"]

_ITEM = "[]"


@dataclass(frozen=True, slots=True)
class QueryColumns:
    """The fields of a table that a query reads.

    Attributes:
        ids: Field ids by path, such as "a", "s.x" for a member and "l[]" for the items of a list.
        version: The version in which the ids were looked up. A later version must have all of them.
        are_replaced: Whether another column of the same name may replace a column. This holds for
            queries that continue after the rows of a table were replaced.
    """

    ids: Mapping[str, int]
    version: int
    are_replaced: bool = False

    @classmethod
    def of(cls, snapshot: Snapshot, schema: StructType, options: Options) -> QueryColumns:
        """Look up the fields that Spark and the filter read.

        Args:
            snapshot: The version that the query begins with.
            schema: The columns of the query.
            options: The options of the stream.

        Raises:
            FilterError: If the filter does not fit the table.
        """
        table = dict(_paths(snapshot.schema.fields))
        wanted = set(_wanted(schema))
        if options.filter is not None:
            wanted.update(bind(options.filter, snapshot.described.arrow).columns)
        ids = {path: number for path, number in table.items() if path in wanted}
        return cls(ids, snapshot.manifest.version, _goes_past_overwrites(options))

    @classmethod
    def logged(cls, ids: Mapping[str, int], options: Options) -> QueryColumns:
        """Return the fields in the last offset of a query, which any version must have."""
        return cls(ids, 0, _goes_past_overwrites(options))

    def require_in(self, snapshot: Snapshot) -> None:
        """Check that a version has the columns, or does not have them yet.

        Raises:
            SchemaMismatchError: If a column was renamed, dropped or replaced by another one.
        """
        table = dict(_paths(snapshot.schema.fields))
        if all(table.get(path) == number for path, number in self.ids.items()):
            return
        names = {number: path for path, number in table.items()}
        for path, number in self.ids.items():
            found = table.get(path)
            if found == number or (found is not None and self.are_replaced):
                continue
            if found is not None:
                self._refuse(snapshot, path, f"is another column of that name (field {found})")
            if number in names:
                self._refuse(snapshot, path, f"is called {names[number]!r}")
            if snapshot.manifest.version > self.version:
                self._refuse(snapshot, path, "is not there: it was dropped")

    def _refuse(self, snapshot: Snapshot, path: str, found: str) -> NoReturn:
        raise SchemaMismatchError(
            f"{snapshot.store.uri}: column {path!r} (field {self.ids[path]}), which the stream "
            f"reads, {found} in version {snapshot.manifest.version}. A stream does not go on "
            "across a change of its columns: begin with a new checkpoint, which gives all rows "
            'under the names and types of today, or those of later versions with "startingVersion"'
        )


def _goes_past_overwrites(options: Options) -> bool:
    return options.on_change != "fail" or options.read_change_feed


def _paths(fields: Iterable[Field], above: str = "") -> Iterator[tuple[str, int]]:
    """Yield the paths and ids of the fields of a table, in pre-order."""
    for field in fields:
        path = f"{above}{field.name}"
        yield path, field.id
        if field.is_struct:
            yield from _paths(field.children, f"{path}.")
        elif field.children:
            yield from _item_paths(field.item, f"{path}{_ITEM}")


def _item_paths(item: Field, path: str) -> Iterator[tuple[str, int]]:
    yield path, item.id
    if item.is_struct:
        yield from _paths(item.children, f"{path}.")
    elif item.children:
        yield from _item_paths(item.item, f"{path}{_ITEM}")


def _wanted(wanted: DataType, path: str = "") -> Iterator[str]:
    """Yield the paths of the fields that Spark reads."""
    if path:
        yield path
    if isinstance(wanted, StructType):
        for field in wanted.fields:
            yield from _wanted(field.dataType, f"{path}.{field.name}" if path else field.name)
    elif isinstance(wanted, ArrayType):
        yield from _wanted(wanted.elementType, f"{path}{_ITEM}")
    elif isinstance(wanted, MapType):
        entry = f"{path}{_ITEM}"
        yield entry
        yield from _wanted(wanted.keyType, f"{entry}.key")
        yield from _wanted(wanted.valueType, f"{entry}.value")
