"""Translate MERGE INTO to calls of `merge_into`, and expressions of statements to pilum's SQL."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from pilum.distributed.conditions import META_COLUMNS, condition_text
from pilum.errors import ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
from pilum.spark.merging import SparkMerge
from pilum.spark.names import quoted
from pilum.spark.statements.references import Spark4, at, described

__all__ = ["MergeText", "Sides", "plain_text", "zorder_columns"]

_RAW = "_pilum_source_"
_ALWAYS = "TRUE"
_ZORDER = re.compile(r"ZORDER\s+BY\s*(?:\((.+)\)|\s([^()]+))", re.IGNORECASE | re.DOTALL)


@dataclass
class MergeText:
    """A MERGE statement with its two sides.

    Attributes:
        tree: The statement, parsed by sqlglot.
        alias: The qualifier of the table's columns.
        source_alias: The qualifier of the source's columns.
        columns: Columns of the table.
        source: The source rows.
    """

    tree: exp.Merge
    alias: str
    source_alias: str
    columns: list[str]
    source: DataFrame
    sides: Sides = field(init=False)

    def __post_init__(self) -> None:
        aliases = {self.source_alias.lower(): "source", self.alias.lower(): "target"}
        aliases.pop("", None)
        known = {"source": self.source.columns, "target": self.columns}
        self.inserted = self._inserted()
        self.sides = Sides(aliases, known, _RAW if self.inserted else "")
        self.plain = Sides(aliases, known)

    @property
    def whens(self) -> list[Any]:
        """Return the WHEN clauses in order."""
        return list(self.tree.args["whens"].expressions)

    def keys(self) -> dict[str, str]:
        """Return the key columns of the table and the source columns compared with them."""
        found: dict[str, str] = {}
        terms = (
            list(self.tree.args["on"].flatten())
            if isinstance(self.tree.args["on"].unnest(), exp.And)
            else [self.tree.args["on"]]
        )
        for term in (one.unnest() for one in terms):
            is_pair = isinstance(term, exp.EQ) and all(
                isinstance(one, exp.Column) for one in (term.left, term.right)
            )
            pairs = dict(map(self.plain.column, (term.left, term.right))) if is_pair else {}
            if set(pairs) != {"source", "target"} or any(len(path) > 1 for path in pairs.values()):
                raise UnsupportedFeatureError(
                    f"{at(term)}: {term.sql(dialect='spark')}: ON takes equal columns of the two "
                    "sides, joined by AND"
                )
            found[pairs["target"][0]] = pairs["source"][0]
        return found

    def prepared(self) -> DataFrame:
        """Return the source with the columns for the merge: keys and new values by their names."""
        keys = self.keys()
        frame = self.source
        if not self.inserted:
            for key, name in keys.items():
                frame = frame if key == name else self._with_key(frame, key, name)
            return frame
        missing = [key for key in keys if key not in self.inserted]
        if missing:
            raise UnsupportedFeatureError(f"INSERT must have the keys {missing} among its columns")
        for key, name in keys.items():
            value = self.inserted[key]
            if not isinstance(value, exp.Column) or self.plain.column(value) != ("source", [name]):
                raise UnsupportedFeatureError(
                    f"{at(value)}: INSERT gives the key {key!r} another value than ON compares"
                )
        alias = self.source_alias or "source"
        raw = [sf.col(quoted(name)).alias(_RAW + name) for name in frame.columns]
        new = [
            sf.expr(value.sql(dialect="spark")).alias(name) for name, value in self.inserted.items()
        ]
        return frame.alias(alias).select(*raw, *new)

    def configure(self, merge: SparkMerge) -> None:
        """Configure a merge according to the clauses."""
        merge.source_columns(self.inserted or self._shared(self.keys()))
        kinds: dict[str, list[Any]] = {}
        for when in self.whens:
            kinds.setdefault(self._kind(when), []).append(when)
        self._matched(merge)
        inserts = kinds.get("NOT MATCHED THEN INSERT", [])
        if len(inserts) > 1:
            raise _twice(inserts[1], "INSERT")
        for when in inserts:
            merge.when_not_matched_insert_all(self._text(when.args.get("condition")))
        others = kinds.get("NOT MATCHED BY SOURCE THEN DELETE", [])
        texts = [self._of_table(when.args.get("condition")) for when in others]
        if texts:
            known = [text for text in texts if text is not None]
            merge.when_not_matched_by_source_delete(
                _either(known) if len(known) == len(texts) else None
            )

    def _matched(self, merge: SparkMerge) -> None:
        """Configure the matched clauses in order, although `merge_into` checks deletes first."""
        updated, deletes, is_final = "", [], False
        for when in (one for one in self.whens if one.args["matched"]):
            if is_final:
                raise InvalidInputError(f"{at(when)}: the clause before takes all rows")
            condition, then = self._text(when.args.get("condition")), when.args["then"]
            is_final = condition is None
            if not isinstance(then, exp.Update):
                others = [f"({updated}) IS NOT TRUE"] if updated else []
                deletes.append(" AND ".join([*others, f"({condition or _ALWAYS})"]))
            elif updated:
                raise _twice(when, "UPDATE")
            else:
                updated = condition or _ALWAYS
                self._update(merge, then, condition)
        if deletes == [f"({_ALWAYS})"]:
            merge.when_matched_delete()
        elif deletes:
            merge.when_matched_delete(_either(deletes))

    def _update(self, merge: SparkMerge, then: Any, condition: str | None) -> None:
        if then.expressions and not _is_star(then):
            merge.when_matched_update(self._assignments(then), condition)
        elif self.inserted:
            merge.when_matched_update(self._all(), condition)
        else:
            merge.when_matched_update_all(condition)

    def _all(self) -> dict[str, str]:
        shared = [name for name in self.columns if name in self.source.columns]
        return {name: f"source.{quoted(_RAW + name)}" for name in shared}

    def _assignments(self, then: Any) -> dict[str, str]:
        found = {}
        for one in then.expressions:
            side, path = self._target(one.left)
            if side != "target" or len(path) > 1:
                raise UnsupportedFeatureError(f"{at(one)}: {one.sql()}: only whole columns are set")
            found[path[0]] = self.sides.text(one.right)
        return found

    def _target(self, column: Any) -> tuple[str, list[str]]:
        """Return the column that is set: the table's, even if the source has one of that name."""
        if not column.table and column.name.lower() in map(str.lower, self.columns):
            return "target", [next(n for n in self.columns if n.lower() == column.name.lower())]
        return self.plain.column(column)

    def _inserted(self) -> dict[str, Any]:
        """Return the columns and values of INSERT (…) VALUES (…); nothing for INSERT *."""
        for when in self.whens:
            then = when.args["then"]
            if isinstance(then, exp.Insert) and isinstance(then.this, exp.Tuple):
                names = [one.name for one in then.this.expressions]
                values = then.expression.expressions if then.expression else []
                if len(names) != len(values):
                    raise InvalidInputError(
                        f"{at(then)}: INSERT has {len(names)} columns and {len(values)} values"
                    )
                known = {name.lower(): name for name in self.columns}
                return {
                    known.get(name.lower(), name): value
                    for name, value in zip(names, values, strict=True)
                }
        return {}

    def _kind(self, when: Any) -> str:
        then = when.args["then"]
        word = then.name if isinstance(then, exp.Var) else then.key
        matched = "MATCHED" if when.args["matched"] else "NOT MATCHED"
        side = " BY SOURCE" if when.args.get("source") else ""
        kind = f"{matched}{side} THEN {word.upper()}"
        allowed = {
            "MATCHED THEN UPDATE",
            "MATCHED THEN DELETE",
            "NOT MATCHED THEN INSERT",
            "NOT MATCHED BY SOURCE THEN DELETE",
        }
        if kind not in allowed:
            raise UnsupportedFeatureError(f"{at(when)}: WHEN {kind} is not supported")
        return kind

    def _text(self, condition: Any) -> str | None:
        return None if condition is None else self.sides.text(condition)

    def _of_table(self, condition: Any) -> str | None:
        return None if condition is None else plain_text(condition, self.alias, self.columns)

    def _shared(self, keys: Mapping[str, str]) -> list[str]:
        return [name for name in self.columns if name in self.source.columns or name in keys]

    def _with_key(self, frame: DataFrame, key: str, name: str) -> DataFrame:
        if key in frame.columns:
            raise UnsupportedFeatureError(
                f"ON compares {key!r} with {name!r}, but the source has a column {key!r} too: "
                "leave it out"
            )
        return frame.withColumn(key, sf.col(quoted(name)))


def _is_star(then: Any) -> bool:
    return len(then.expressions) == 1 and isinstance(then.expressions[0], exp.Star)


def _either(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else " OR ".join(f"({text})" for text in texts)


def _twice(when: Any, word: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{at(when)}: {word} comes twice; express the difference by CASE in the query after USING"
    )


def plain_text(node: Any, alias: str, columns: Collection[str]) -> str:
    """Return the SQL of an expression over one table, with unqualified columns."""
    aliases = {alias.lower(): "target"} if alias else {}
    sides = Sides(aliases, {"target": [*columns, *META_COLUMNS]})

    def unqualified(one: Any) -> Any:
        return _path(sides.column(one)[1]) if isinstance(one, exp.Column) else one

    _require_simple(node)
    return condition_text(node.transform(unqualified))


def zorder_columns(text: str, columns: Collection[str]) -> list[str]:
    """Return the columns of `ZORDER BY (a, b)`, with or without parentheses."""
    found = _ZORDER.fullmatch(text)
    if found is None:
        raise UnsupportedFeatureError(
            f"OPTIMIZE takes a table, and perhaps ZORDER BY (columns); found {text!r}"
        )
    try:
        nodes = parse_one(f"SELECT {found[1] or found[2]}", dialect=Spark4).expressions
    except SqlglotError as error:
        raise InvalidInputError(f"ZORDER BY: {described(error)}") from error
    return [_own_column(node, columns) for node in nodes]


def _own_column(node: Any, columns: Collection[str]) -> str:
    if not isinstance(node, exp.Column) or len(node.parts) > 1:
        raise UnsupportedFeatureError(f"ZORDER BY takes columns, found {node.sql(dialect=Spark4)}")
    known = [name for name in columns if name.lower() == node.name.lower()]
    if not known:
        raise ColumnNotFoundError(f"ZORDER BY: no column {node.name!r}; the columns are {columns}")
    return known[0]


class Sides:
    """The columns of the two sides of a merge, as `source.x` and `target.x`."""

    def __init__(
        self,
        aliases: Mapping[str, str],
        columns: Mapping[str, Collection[str]],
        prefix: str = "",
    ) -> None:
        """Set the lower-case names, "source" or "target" for each, and the columns of each side.

        The columns of the source get a prefix.
        """
        self._aliases = aliases
        self._columns = columns
        self._prefix = prefix

    def column(self, node: Any) -> tuple[str, list[str]]:
        """Return the side of a column, and its path as that side spells it."""
        names = [part.name for part in node.parts]
        if len(names) > 1 and names[0].lower() in self._aliases:
            sides, names = [self._aliases[names[0].lower()]], names[1:]
        else:
            sides = [side for side in self._columns if self._known(side, names[0])]
        found = [(side, self._known(side, names[0])) for side in sides]
        if len(found) != 1 or found[0][1] is None:
            what = "is ambiguous" if len(found) > 1 else "does not exist"
            raise ColumnNotFoundError(f"{at(node)}: column {node.sql(dialect='spark')} {what}")
        side, first = found[0]
        return side, [str(first), *names[1:]]

    def text(self, node: Any) -> str:
        """Return the SQL of an expression over both sides."""

        def qualified(one: Any) -> Any:
            if not isinstance(one, exp.Column):
                return one
            side, (first, *rest) = self.column(one)
            return _path([side, (self._prefix if side == "source" else "") + first, *rest])

        _require_simple(node)
        return condition_text(node.transform(qualified))

    def _known(self, side: str, name: str) -> str | None:
        columns = self._columns[side]
        return next((one for one in columns if one.lower() == name.lower()), None)


def _path(names: list[str]) -> exp.Column:
    """Return a column with each part of its path in backquotes."""
    parts = [exp.to_identifier(name, quoted=True) for name in names]
    found = exp.column(parts[-1]) if len(parts) == 1 else None
    return found or exp.column(*reversed(parts[-4:]))


def _require_simple(node: Any) -> None:
    query = node.find(exp.Query, exp.AggFunc)
    if query is not None:
        raise InvalidInputError(
            f"{at(query)}: {query.sql(dialect='spark')}: no subqueries and aggregates here"
        )
