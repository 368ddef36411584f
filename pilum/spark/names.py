"""Column names resolved as in Spark: case-insensitive unless the session says otherwise.

    asked or given     ID    St.X          table    id    st: struct<x>          scan    id    st.x

A name that is written exactly as in the table means that column, even if others differ only in
case. Spark does not pass `spark.sql.caseSensitive` to Python sources, so it is an option there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from pilum.errors import InvalidInputError

__all__ = [
    "find_name",
    "is_case_sensitive",
    "quoted",
    "require_free",
    "stored_fields",
    "stored_paths",
    "stored_type",
]


def is_case_sensitive(spark: SparkSession) -> bool:
    """Return whether names that differ only in case are different names in a session."""
    return str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"


def find_name(name: str, known: Collection[str], *, case_sensitive: bool = False) -> str | None:
    """Return the known name that a name refers to; None if there is none."""
    if name in known:
        return name
    alike = [] if case_sensitive else [one for one in known if one.lower() == name.lower()]
    if len(alike) > 1:
        raise InvalidInputError(f"column {name!r} is ambiguous: {', '.join(alike)}")
    return alike[0] if alike else None


def quoted(name: str) -> str:
    """Return a name as SQL, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def require_free(columns: Iterable[str], *names: str) -> None:
    """Raise InvalidInputError if a frame has a column of a name that a job adds to it."""
    added = {name.lower() for name in names}
    for column in columns:
        if column.lower() in added:
            raise InvalidInputError(
                f"column {column!r}: the job adds a column of this name for itself; rename yours"
            )


def stored_paths(
    asked: Iterable[str], table: pa.Schema, *, case_sensitive: bool
) -> tuple[str, ...]:
    """Return names or dotted paths as a table spells them; unknown ones are unchanged."""
    paths = [*asked]
    stored = tuple(_stored_path(path, table, case_sensitive) for path in paths)
    _require_different(paths, stored)
    return stored


def _stored_path(path: str, table: pa.Schema, case_sensitive: bool) -> str:
    members, parts = list(table), []
    for part in path.split("."):
        fields = {field.name: field for field in members}
        name = find_name(part, fields.keys(), case_sensitive=case_sensitive)
        if name is None:
            return path
        parts.append(name)
        members = list(fields[name].type) if pt.is_struct(fields[name].type) else []
    return ".".join(parts)


def stored_fields(
    given: st.StructType, table: st.StructType, *, case_sensitive: bool
) -> st.StructType:
    """Return columns and struct members under the names that a table uses.

    Those that the table does not have keep their names.
    """
    known = {field.name: field for field in table.fields}
    names = [
        find_name(name, known.keys(), case_sensitive=case_sensitive) or name for name in given.names
    ]
    _require_different(given.names, names)
    return st.StructType(
        [
            st.StructField(
                name,
                stored_type(field.dataType, known[name].dataType, case_sensitive)
                if name in known
                else field.dataType,
                field.nullable,
                field.metadata,
            )
            for name, field in zip(names, given.fields, strict=True)
        ]
    )


def stored_type(given: st.DataType, table: st.DataType, case_sensitive: bool) -> st.DataType:
    """Return a type with its struct members named as in a table."""
    if isinstance(given, st.StructType) and isinstance(table, st.StructType):
        return stored_fields(given, table, case_sensitive=case_sensitive)
    if isinstance(given, st.ArrayType) and isinstance(table, st.ArrayType):
        element = stored_type(given.elementType, table.elementType, case_sensitive)
        return st.ArrayType(element, given.containsNull)
    if isinstance(given, st.MapType) and isinstance(table, st.MapType):
        key = stored_type(given.keyType, table.keyType, case_sensitive)
        value = stored_type(given.valueType, table.valueType, case_sensitive)
        return st.MapType(key, value, given.valueContainsNull)
    return given


def _require_different(asked: Collection[str], stored: Collection[str]) -> None:
    if len(set(stored)) < len(set(asked)):
        raise InvalidInputError(
            f"columns come twice: {[*asked]} mean {[*stored]}; names that differ only in case are "
            "the same unless spark.sql.caseSensitive is on"
        )
