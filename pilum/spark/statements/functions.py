"""Table functions in FROM, each with a table of pilum as first argument.

    nearest(items, vector, array(0.1, 0.2), 5, nprobes => 10)
    search(pages, 'red apples', 10, columns => array('title'))
    changes(orders, 3, 7)

The table is a name, a name as text, or the location of a table as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.spark.catalog import Place, TableName
from pilum.spark.feeds import changes
from pilum.spark.options import table_uri
from pilum.spark.searching import found_rows
from pilum.spark.statements.expressions import known_path
from pilum.spark.statements.places import at, located, span
from pilum.spark.statements.versions import TABLE_FUNCTIONS

if TYPE_CHECKING:
    from pilum.spark.statements.references import Statement

__all__ = ["TableFunction", "table_functions"]

_DEFAULT_ROWS = 10


@dataclass(frozen=True)
class TableFunction:
    """A call of a table function, with its position in the text.

    Attributes:
        function: Name of the function.
        name: What its first argument means.
        node: Node of the table in the tree.
        positional: The other arguments without names.
        named: The arguments with names.
    """

    function: str
    name: TableName
    node: exp.Table
    positional: tuple[Any, ...]
    named: dict[str, Any]

    added_alias = ""  # a function has no name that qualifies its columns

    @property
    def start(self) -> int:
        """Return the position of its first character."""
        return span(self.node.this)[0]

    @property
    def stop(self) -> int:
        """Return the position after its last character."""
        return span(self.node.this)[1]

    def frame(self, spark: SparkSession, access: Mapping[str, str]) -> DataFrame:
        """Return the rows of the function; `access` are settings of the stores of all tables."""
        place = self.name.place
        if place is None:
            raise InvalidInputError(
                f"{at(self.node)}: there is no table {'.'.join(self.name.names)!r}"
            )
        run = {"nearest": _nearest, "search": _search}.get(self.function, _changes)
        with located(self.node):
            return run(spark, self, place, {**access, **place.storage_options})

    def arguments(self, *names: str) -> dict[str, Any]:
        """Return the arguments by name; those without a name have these names in order."""
        if len(self.positional) > len(names):
            raise InvalidInputError(
                f"{self.function} takes a table and up to {len(names)} arguments without names: "
                f"{', '.join(names)}"
            )
        given = dict(zip(names, self.positional, strict=False))
        if twice := given.keys() & self.named.keys():
            raise InvalidInputError(f"{self.function}: {min(twice)} is given twice")
        return {**given, **self.named}


def table_functions(statement: Statement) -> list[TableFunction]:
    """Return the calls of table functions with a table of pilum, in order."""
    found = [_function(statement, node) for node in statement.tree.find_all(exp.Table)]
    return sorted((one for one in found if one is not None), key=lambda one: one.start)


def _function(statement: Statement, node: exp.Table) -> TableFunction | None:
    call = node.this
    if not isinstance(call, exp.Anonymous) or call.name.lower() not in TABLE_FUNCTIONS:
        return None
    if not call.expressions:
        return None
    first, *others = call.expressions
    name = _meaning(statement, first)
    if name is None:
        return None
    positional = tuple(one for one in others if not isinstance(one, exp.Kwarg))
    named = {one.this.name.lower(): one.expression for one in others if isinstance(one, exp.Kwarg)}
    return TableFunction(call.name.lower(), name, node, positional, named)


def _meaning(statement: Statement, node: Any) -> TableName | None:
    if isinstance(node, exp.Column):
        parts = node.parts
        is_path = len(parts) == 2 and bool(parts[1].args.get("quoted"))
        return statement.meaning([part.name for part in parts], is_path=is_path)
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    found = statement.names.find(node.name.split("."))
    is_location = node.name.startswith("/") or "://" in node.name
    if found is None and is_location:
        return TableName((node.name,), Place(table_uri(node.name)))
    return found


def _nearest(
    spark: SparkSession, one: TableFunction, place: Place, options: dict[str, str]
) -> DataFrame:
    given = one.arguments("column", "vector", "k")
    missing = [name for name in ("column", "vector") if name not in given]
    if missing:
        raise InvalidInputError(f"nearest needs {' and '.join(missing)}")
    table = _open(place, options, given)
    column, vector = given.pop("column"), _value(given.pop("vector"))
    name = known_path(column, table.schema.names) if _is_name(column) else _value(column)
    values = {key: _value(node) for key, node in given.items()}
    scan = {key: values.pop(key) for key in ("filter", "prefilter") if key in values}
    scan.setdefault("prefilter", True)
    nearest = {"k": _DEFAULT_ROWS, **values, "column": name, "q": vector}
    return found_rows(spark, table, nearest=nearest, **scan)


def _search(
    spark: SparkSession, one: TableFunction, place: Place, options: dict[str, str]
) -> DataFrame:
    given = one.arguments("query", "limit")
    if "query" not in given:
        raise InvalidInputError("search needs query")
    table = _open(place, options, given)
    values = {key: _value(node) for key, node in given.items()}
    query = {"query": values.pop("query"), "columns": values.pop("columns", None)}
    if unknown := values.keys() - {"limit", "filter", "prefilter"}:
        raise InvalidInputError(f"search has no argument {min(unknown)}")
    values = {"limit": _DEFAULT_ROWS, "prefilter": True, **values}
    return found_rows(spark, table, full_text_query=query, **values)


def _changes(
    spark: SparkSession, one: TableFunction, place: Place, options: dict[str, str]
) -> DataFrame:
    given = {key: _value(node) for key, node in one.arguments("start", "end").items()}
    if "start" not in given or given.keys() - {"start", "end"}:
        raise InvalidInputError(
            f"{one.function} takes a table, the first version and perhaps the last one"
        )
    return changes(spark, place.uri, **given, storage_options=options)


def _open(place: Place, options: dict[str, str], given: dict[str, Any]) -> Any:
    import pilum

    version = _value(given.pop("version")) if "version" in given else None
    return pilum.dataset(place.uri, version, storage_options=options)


def _is_name(node: Any) -> bool:
    return isinstance(node, exp.Column)


def _value(node: Any) -> Any:
    """Return the value of a literal, or of an array of literals."""
    if isinstance(node, exp.Array):
        return [_value(one) for one in node.expressions]
    if isinstance(node, exp.Neg):
        return -_value(node.this)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Cast):
        return _value(node.this)
    if isinstance(node, exp.Literal):
        if node.is_string:
            return node.name
        return int(node.name) if node.name.isdigit() else float(node.name)
    raise UnsupportedFeatureError(
        f"{at(node)}: expected a literal or an array of literals, found {node.sql(dialect='spark')}"
    )
