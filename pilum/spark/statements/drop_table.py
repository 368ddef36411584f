"""DROP TABLE [IF EXISTS] table.

    in a namespace               the table is deleted with its files
    in a file of names           likewise, if it was created by its name; else the name is removed
    attached to the session      the name is removed
    lance.`/path`, tables={…}    the table is deleted with its files

Result: location, is_deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from sqlglot import exp

import pilum
from pilum.errors import UnsupportedFeatureError
from pilum.spark.statements.grammar import Rule
from pilum.spark.statements.places import at, located

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]


def run(call: Call) -> DataFrame:
    """Drop a table, or remove its name."""
    tree, schema = call.tree, "location string, is_deleted boolean"
    tables = tree.args.get("tables") or [tree.this]
    if len(tables) != 1 or tree.args.get("purge"):
        raise UnsupportedFeatureError(f"{at(tree)}: DROP TABLE takes one table, and no PURGE")
    one = call.target(tables[0])
    name = one.name
    if name.place is None and tree.args.get("exists"):
        return call.rows([], schema)
    place = one.place
    with located(one.node):
        if name.collection is not None:
            name.collection.drop(name.names)
            return call.rows([(place.uri, place.is_managed)], schema)
        is_optional = bool(tree.args.get("exists"))
        options = call.options(place)
        pilum.LanceDataset.drop(place.uri, options, ignore_not_found=is_optional)
    return call.rows([(place.uri, True)], schema)


RULE = Rule(exp.Drop, run, kind="TABLE")
