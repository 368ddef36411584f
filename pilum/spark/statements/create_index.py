"""CREATE [OR REPLACE] INDEX [IF NOT EXISTS] name ON [TABLE] table [USING type] (column) clause ….

    CREATE INDEX by_id ON orders (id)
    CREATE INDEX near ON items USING IVF_PQ (vector) WITH (num_partitions = 16, metric = 'cosine')

    USING type                    also after the column; BTREE if it is missing
    WITH | OPTIONS (name = v, …)  the parameters of the type

Tasks build the index; one commit publishes it. Result: version, the new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.errors import UnsupportedFeatureError
from pilum.spark.jobs import indices
from pilum.spark.statements.expressions import known_path
from pilum.spark.statements.grammar import Rule, Words, property_text
from pilum.spark.statements.places import at, located

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]

_DEFAULT = "BTREE"


class CreateIndex(exp.Expression):
    """A CREATE INDEX statement, with the name as `this`."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "table": True,
        "columns": True,
        "using": False,
        "options": False,
        "exists": False,
        "replace": False,
    }


def parse(words: Words) -> CreateIndex | None:
    """Parse the statement; return None if it is another one."""
    replaces = words.take("CREATE", "OR", "REPLACE", "INDEX")
    if not replaces and not words.take("CREATE", "INDEX"):
        return None
    exists = words.take("IF", "NOT", "EXISTS")
    name = words.name()
    words.need("ON")
    words.take("TABLE")
    table, using, options = words.table(), None, []
    if words.take("USING"):
        using = words.name().name
    columns = words.columns()
    if using is None and words.take("USING"):
        using = words.name().name
    if words.take("WITH") or words.take("OPTIONS"):
        options = words.properties()
    return CreateIndex(
        this=name,
        table=table,
        columns=columns,
        using=using,
        options=options,
        exists=exists,
        replace=replaces,
    )


def run(call: Call) -> DataFrame:
    """Create an index."""
    args = call.tree.args
    one, name = call.target(args["table"]), args["this"].name
    table = call.dataset(one)
    if args["exists"] and any(found["name"] == name for found in table.list_indices()):
        return call.report(version=table.version)
    if len(args["columns"]) != 1:
        raise UnsupportedFeatureError(f"{at(args['columns'][1])}: an index is of one column")
    parameters = {_key(found): _value(found.args["value"]) for found in args["options"]}
    with located(args["columns"][0]):
        version = indices.create_index(
            call.spark,
            one.uri,
            known_path(args["columns"][0], table.schema.names),
            args["using"] or _DEFAULT,
            name=name,
            replace=bool(args["replace"]),
            storage_options=call.options(one.place),
            **parameters,
        )
    return call.report(version=version)


def _key(option: Any) -> str:
    return property_text(option.this).lower()


def _value(node: Any) -> Any:
    """Return a value as a number or truth value, if it is written as one, else as text."""
    text = property_text(node)
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


RULE = Rule(CreateIndex, run, parse=parse)
