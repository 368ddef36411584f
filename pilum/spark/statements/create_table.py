"""CREATE [OR REPLACE] TABLE [IF NOT EXISTS] table [(column type, …)] [clause …] [AS query].

    USING pilum | lance            for a name that is not attached yet
    LIKE other                     the columns of another table, without its rows
    LOCATION 'uri'                 instead of the place that the namespace chooses
    TBLPROPERTIES ('key' = 'v')    the config of the table, except for these keys:
        'enable_stable_row_ids'                 'true': rows keep their ids when they move
        'data_storage_version'                  the version of its files
        'column.arrow.fixed-size-list.size'     the length of the arrays of a column of vectors

A table has columns, LIKE or AS. With only USING and LOCATION, an existing table gets a name. In a
namespace or a file of names, the table is created at its place there. Other names are those of
Spark, whose tables can be made of rows of pilum's (AS query). Result: version, location.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType
from sqlglot import exp

import pilum
from pilum.distributed import commit_parts, start_job
from pilum.errors import (
    ColumnNotFoundError,
    DatasetAlreadyExistsError,
    DatasetNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from pilum.spark import frames
from pilum.spark.catalog import Place, TableName
from pilum.spark.options import table_uri
from pilum.spark.statements.comments import set_comments
from pilum.spark.statements.expressions import require_unlimited
from pilum.spark.statements.grammar import Rule, property_text
from pilum.spark.statements.places import at, located, span
from pilum.spark.types import FIXED_SIZE, to_arrow

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE", "is_for_pilum"]

_FORMATS = frozenset({"lance", "pilum"})
_Mode: TypeAlias = Literal["create", "overwrite"]


class _Clauses:
    """The clauses after the name of a new table."""

    def __init__(self, tree: exp.Create) -> None:
        self.format: str | None = None
        self.like: Any = None
        self.location: str | None = None
        self.properties: dict[str, str] = {}
        self.version: str | None = None
        self.stable_row_ids: bool | None = None
        self.lengths: dict[str, int] = {}
        for one in getattr(tree.args.get("properties"), "expressions", ()):
            if isinstance(one, exp.FileFormatProperty):
                self.format = one.name.lower()
            elif isinstance(one, exp.LikeProperty) and not one.expressions:
                self.like = one.this
            elif isinstance(one, exp.LocationProperty):
                self.location = table_uri(one.name)
            elif type(one) is exp.Property:
                self._add(property_text(one.this), property_text(one.args["value"]))
            else:
                raise UnsupportedFeatureError(
                    f"{at(tree)}: CREATE TABLE with {one.sql(dialect='spark')}"
                )

    def _add(self, key: str, value: str) -> None:
        """Add a property: of the table to create, of a column, or of the config."""
        column = key.removesuffix(f".{FIXED_SIZE}")
        if key == "enable_stable_row_ids" and value.lower() in {"true", "false"}:
            self.stable_row_ids = value.lower() == "true"
        elif key == "data_storage_version":
            self.version = value
        elif column != key and value.isdigit():
            self.lengths[column] = int(value)
        else:
            self.properties[key] = value

    def typed(self, schema: StructType) -> StructType:
        """Return columns whose arrays have the lengths of the properties."""
        fields = []
        for field in schema.fields:
            length = self.lengths.get(field.name)
            more = {} if length is None else {FIXED_SIZE: length}
            metadata = {**field.metadata, **more}
            fields.append(StructField(field.name, field.dataType, field.nullable, metadata))
        if unknown := self.lengths.keys() - set(schema.names):
            raise ColumnNotFoundError(f"TBLPROPERTIES: no column {min(unknown)!r}")
        return StructType(fields)


def run(call: Call) -> DataFrame:
    """Create a table."""
    tree = call.tree
    table = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    name = _name(call, table)
    if name is None:  # a table of Spark from rows of pilum
        return call.query()
    clauses = _Clauses(tree)
    if clauses.format not in {None, *_FORMATS}:
        raise InvalidInputError(f"{at(table)}: USING {clauses.format}, but the name is pilum's")
    exists = name.place is not None and _exists(name.place, call)
    if exists and tree.args.get("exists"):
        return _result(call, name.place)
    if exists and not tree.args.get("replace"):
        raise DatasetAlreadyExistsError(f"{at(table)}: {'.'.join(name.names)} already exists")
    with located(table):
        return _created(call, name, clauses)


def is_for_pilum(tree: Any) -> bool:
    """Return whether a statement has USING pilum or USING lance."""
    properties = getattr(tree.args.get("properties"), "expressions", ())
    formats = (one.name.lower() for one in properties if isinstance(one, exp.FileFormatProperty))
    return any(name in _FORMATS for name in formats)


def _name(call: Call, table: Any) -> TableName | None:
    """Return the meaning of the name; None if it is a name of Spark's."""
    one = call.statement.reference_to(table)
    if one is not None:
        return one.name
    if not is_for_pilum(call.tree):
        return None
    names = tuple(part.name for part in table.parts)
    if len(names) > 1:
        raise InvalidInputError(f"{at(table)}: {names[0]!r} is no attached collection")
    return TableName(names, None, call.statement.names.tables)


def _created(call: Call, name: TableName, clauses: _Clauses) -> DataFrame:
    is_new, collection = name.place is None, name.collection
    place = name.place if clauses.location is None else Place(clauses.location)
    write = _writer(call, clauses)
    is_reserved = place is None
    if place is None:
        if collection is None:
            raise InvalidInputError("pass a LOCATION")
        place = collection.reserve(name.names)
    try:
        write(place)
    except BaseException:
        if is_reserved and collection is not None:
            collection.drop(name.names)
        raise
    if collection is not None and (is_new or clauses.location is not None):
        collection.add(name.names, place)
    _configure(_open(place, call), call.tree.this, clauses)
    return _result(call, place)


def _writer(call: Call, clauses: _Clauses) -> Callable[[Place], object]:
    """Return the function that creates the table; it does nothing if one only gets a name."""
    tree, query = call.tree, call.tree.expression
    has_columns = isinstance(tree.this, exp.Schema)
    mode: _Mode = "overwrite" if tree.args.get("replace") else "create"
    if sum((has_columns, clauses.like is not None, query is not None)) > 1:
        raise UnsupportedFeatureError(f"{at(tree)}: either columns, LIKE … or AS SELECT …")
    if query is not None:
        rows = call.query(tree.args.get("with_") or tree.args.get("with"), query)
        for field in clauses.typed(rows.schema).fields:
            if field.name in clauses.lengths:
                rows = rows.withMetadata(field.name, field.metadata)
        return lambda place: frames.write(
            rows,
            place.uri,
            mode=mode,
            data_storage_version=clauses.version,
            stable_row_ids=bool(clauses.stable_row_ids),
            storage_options=call.options(place),
        )
    if has_columns:
        _require_plain(tree.this.expressions)
        start, stop = span(tree.this)
        columns = call.columns_of(call.statement.text[start + 1 : stop - 1])
        schema = to_arrow(clauses.typed(columns))
        return lambda place: _empty(place, schema, mode, call, clauses)
    if clauses.like is not None:
        return _like(call, clauses, mode)
    if clauses.location is None or tree.args.get("replace"):
        raise UnsupportedFeatureError(f"{at(tree)}: expected columns, LIKE … or AS SELECT …")
    return lambda place: _open(place, call)


def _require_plain(columns: Iterable[Any]) -> None:
    """Refuse columns with anything but NOT NULL and COMMENT, and texts of limited length."""
    known = (exp.NotNullColumnConstraint, exp.CommentColumnConstraint)
    for column in columns:
        constraints = column.args.get("constraints") or ()
        if not isinstance(column, exp.ColumnDef) or any(
            not isinstance(one.kind, known) for one in constraints
        ):
            raise UnsupportedFeatureError(
                f"{at(column)}: expected a name, a type, and perhaps NOT NULL and COMMENT"
            )
        require_unlimited(column)


def _like(call: Call, clauses: _Clauses, mode: _Mode) -> Callable[[Place], object]:
    """Return the function that creates a table with the columns of another one."""
    one = call.statement.reference_to(clauses.like)
    if one is None:
        found = call.query(clauses.like, before="SELECT * FROM").schema
        schema = to_arrow(clauses.typed(found))
        return lambda place: _empty(place, schema, mode, call, clauses)
    source = call.opened(one)
    clauses.version = clauses.version or call.dataset(one).data_storage_version
    if clauses.stable_row_ids is None:
        clauses.stable_row_ids = source.has_stable_row_ids
    return lambda place: _empty(place, source.schema, mode, call, clauses)


def _empty(place: Place, schema: pa.Schema, mode: _Mode, call: Call, clauses: _Clauses) -> None:
    """Create a table without rows."""
    job = start_job(
        place.uri,
        schema,
        mode,
        version=clauses.version,
        storage_options=call.options(place),
        stable_row_ids=bool(clauses.stable_row_ids),
    )
    commit_parts(job, [])


def _configure(table: pilum.LanceDataset, target: Any, clauses: _Clauses) -> None:
    """Set what a column list and properties say, beyond names and types."""
    comments, required = dict[str, str](), list[str]()
    for column in target.expressions if isinstance(target, exp.Schema) else ():
        for constraint in column.args.get("constraints") or ():
            if isinstance(constraint.kind, exp.NotNullColumnConstraint):
                required.append(column.name)
            elif isinstance(constraint.kind, exp.CommentColumnConstraint):
                comments[column.name] = constraint.kind.name
    if required:
        table.alter_columns(*({"path": name, "nullable": False} for name in required))
    set_comments(table, comments)
    if clauses.properties:
        table.update_config(clauses.properties)


def _open(place: Place, call: Call) -> pilum.LanceDataset:
    return pilum.dataset(place.uri, storage_options=call.options(place))


def _exists(place: Place, call: Call) -> bool:
    try:
        _open(place, call)
    except DatasetNotFoundError:
        return False
    return True


def _result(call: Call, place: Place | None) -> DataFrame:
    rows = [] if place is None else [(_open(place, call).version, place.uri)]
    return call.rows(rows, "version bigint, location string")


RULE = Rule(exp.Create, run, kind="TABLE")
