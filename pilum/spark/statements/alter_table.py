"""ALTER TABLE table action.

    ADD COLUMN[S] [(]column type [COMMENT 'text'], …[)]    null in all rows
    DROP COLUMN[S] [IF EXISTS] [(]column, …[)]
    RENAME COLUMN column TO name
    ALTER COLUMN column TYPE type                          tasks cast the values
    ALTER COLUMN column SET | DROP NOT NULL
    ALTER COLUMN column COMMENT 'text'
    SET TBLPROPERTIES ('key' = 'value', …)                 the config of the table
    UNSET TBLPROPERTIES [IF EXISTS] ('key', …)
    RENAME TO name                                         of the session or a file of names

Result: version, the latest one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.distributed.conditions import condition_text
from pilum.errors import DatasetAlreadyExistsError, InvalidInputError, UnsupportedFeatureError
from pilum.spark.jobs.columns import replace_columns
from pilum.spark.statements.comments import comment_of, set_comments
from pilum.spark.statements.expressions import known_column, known_path, limited, require_unlimited
from pilum.spark.statements.grammar import Rule, Words, property_text
from pilum.spark.statements.places import at, located
from pilum.spark.types import to_arrow

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call
    from pilum.spark.statements.references import Reference

__all__ = ["RULE"]

_TO_LIMITED = re.compile(r"`?\s+TYPE\s+(?:CHAR|CHARACTER|VARCHAR)\b", re.IGNORECASE)


class Unset(exp.Expression):
    """The action UNSET TBLPROPERTIES, which sqlglot does not parse."""

    arg_types: ClassVar[dict[str, bool]] = {"keys": True, "exists": False}


def parse(words: Words) -> exp.Alter | None:
    """Parse the actions that not all releases of sqlglot parse; return None for others."""
    if not words.take("ALTER", "TABLE"):
        return None
    table = words.table()
    if words.take("UNSET", "TBLPROPERTIES"):
        exists = words.take("IF", "EXISTS")
        action: exp.Expression = Unset(keys=words.keys(), exists=exists)
    elif words.take("DROP", "COLUMN") or words.take("DROP", "COLUMNS"):
        exists = words.take("IF", "EXISTS")
        action = exp.Drop(tables=words.columns(), kind="COLUMN", exists=exists)
    else:
        return None
    return exp.Alter(this=table, kind="TABLE", actions=[action])


def run(call: Call) -> DataFrame:
    """Change the columns, properties or name of a table."""
    one = call.target(call.tree.this)
    for action in call.tree.args["actions"]:
        change = next((run for kind, run in _ACTIONS.items() if isinstance(action, kind)), None)
        if change is None or call.tree.args.get("exists"):
            raise UnsupportedFeatureError(
                f"{at(call.tree)}: ALTER TABLE with {action.sql(dialect='spark')}"
            )
        with located(action if any(action.find_all(exp.Identifier)) else one.node):
            change(call, one, action)
    return call.report(version=call.dataset(one).version)


def _add(call: Call, one: Reference, action: Any) -> None:
    columns = action.expressions if isinstance(action, exp.Schema) else [action]
    table, comments, texts = call.dataset(one), dict[str, str](), list[str]()
    known = {name.lower() for name in table.schema.names}
    for column in columns:
        if column.args.get("exists") and column.name.lower() in known:
            continue
        require_unlimited(column)
        if column.args.get("position") is not None:
            raise UnsupportedFeatureError(f"{at(column)}: new columns are the last ones")
        for constraint in column.args.get("constraints") or ():
            if not isinstance(constraint.kind, exp.CommentColumnConstraint):
                raise UnsupportedFeatureError(
                    f"{at(column)}: a new column has no {constraint.sql(dialect='spark')}"
                )
            comments[column.name] = constraint.kind.name
        name = exp.to_identifier(column.name, quoted=True).sql(dialect="spark")
        texts.append(f"{name} {column.args['kind'].sql(dialect='spark')}")
    if texts:
        table.add_columns(to_arrow(call.columns_of(", ".join(texts))))
    set_comments(table, comments)


def _drop(call: Call, one: Reference, action: Any) -> None:
    table, nodes = call.dataset(one), action.args["tables"]
    names, known = table.schema.names, {name.lower() for name in table.schema.names}
    is_optional = action.args.get("exists")
    kept = [node for node in nodes if not is_optional or node.parts[0].name.lower() in known]
    if kept:
        table.drop_columns([known_path(node, names) for node in kept])


def _rename_column(call: Call, one: Reference, action: Any) -> None:
    table = call.dataset(one)
    path = known_path(action.this, table.schema.names)
    table.alter_columns({"path": path, "name": action.args["to"].name})


def _alter_column(call: Call, one: Reference, action: Any) -> None:
    table, node = call.dataset(one), action.this
    renamed = action.args.get("rename_to")
    if any(action.args.get(key) for key in ("default", "using", "collate")):
        raise UnsupportedFeatureError(f"{at(node)}: ALTER COLUMN with {action.sql('spark')}")
    if renamed is not None and renamed.name.lower() != node.name.lower():
        raise UnsupportedFeatureError(f"{at(renamed)}: rename it by RENAME COLUMN … TO …")
    last = max(one.meta["end"] for one in node.find_all(exp.Identifier))
    if _TO_LIMITED.match(call.statement.text, last + 1):  # sqlglot parses it as STRING
        raise limited(node, "CHAR and VARCHAR")
    path = known_path(node, table.schema.names)
    if action.args.get("allow_null") is not None:
        table.alter_columns({"path": path, "nullable": bool(action.args["allow_null"])})
    if isinstance(action.args.get("comment"), exp.Literal):
        set_comments(table, {path: action.args["comment"].name})
    if (kind := action.args.get("dtype")) is not None:
        name = known_column(node, table.schema.names)
        cast = exp.Cast(this=exp.column(exp.to_identifier(name, quoted=True)), to=kind.copy())
        options = call.options(one.place)
        replace_columns(call.spark, one.uri, {name: condition_text(cast)}, storage_options=options)
        text = comment_of(table.schema.field(name))  # of the column that was replaced
        set_comments(call.dataset(one), {} if text is None else {name: text})


def _set(call: Call, one: Reference, action: Any) -> None:
    found = [part for group in action.expressions for part in (group.expressions or [group])]
    if action.args.get("option") or not all(type(part) is exp.Property for part in found):
        raise UnsupportedFeatureError(f"{at(one.node)}: ALTER TABLE sets TBLPROPERTIES only")
    values = {property_text(part.this): property_text(part.args["value"]) for part in found}
    call.dataset(one).update_config(values)


def _unset(call: Call, one: Reference, action: Any) -> None:
    table, keys = call.dataset(one), action.args["keys"]
    missing = [key for key in keys if key not in table.config()]
    if missing and not action.args["exists"]:
        raise InvalidInputError(f"the table has no properties {missing}; add IF EXISTS")
    table.delete_config_keys(keys)


def _rename(call: Call, one: Reference, action: Any) -> None:
    target, old = action.this, one.name
    parts = [part.name for part in target.parts]
    new = call.statement.names.find(parts)
    names = parts if new is None else list(new.names)
    if new is not None and new.place is not None:
        raise DatasetAlreadyExistsError(f"{at(target)}: {'.'.join(parts)} already exists")
    is_same = len(parts) == 1 if new is None else new.collection is old.collection
    if old.collection is None or not is_same or len(names) != len(old.names):
        raise UnsupportedFeatureError(
            f"{at(target)}: a name changes within the session or the file of names that has it"
        )
    old.collection.rename(old.names, names)


_ACTIONS: dict[type[exp.Expression], Callable[[Call, Reference, Any], None]] = {
    exp.ColumnDef: _add,
    exp.Schema: _add,
    exp.Drop: _drop,
    exp.RenameColumn: _rename_column,
    exp.AlterColumn: _alter_column,
    exp.AlterSet: _set,
    exp.AlterRename: _rename,
    Unset: _unset,
}

RULE = Rule(exp.Alter, run, kind="TABLE", parse=parse)
