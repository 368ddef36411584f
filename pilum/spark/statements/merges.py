"""MERGE INTO as a merge: what its clauses say, in the words of `merge_into`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from sqlglot import exp

from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.spark.merging import SparkMerge
from pilum.spark.statements.references import at
from pilum.spark.statements.texts import Sides, plain_text

__all__ = ["MergeText"]

_RAW = "_pilum_source_"


@dataclass
class MergeText:
    """A MERGE, with the two sides that it is about.

    Attributes:
        tree: What sqlglot made of it.
        alias: How columns of the table are qualified.
        source_alias: How those of the source are.
        columns: Of the table.
        source: The rows.
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
        """The clauses, in order."""
        return list(self.tree.args["whens"].expressions)

    def keys(self) -> dict[str, str]:
        """Key columns of the table, and the columns of the source that are compared with them.

        Raises:
            UnsupportedFeatureError: If ON is anything but equal columns.
        """
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
        """The source with the columns that the merge wants: keys and new values by their names."""
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
        raw = [sf.col(_quoted(name)).alias(_RAW + name) for name in frame.columns]
        new = [
            sf.expr(value.sql(dialect="spark")).alias(name) for name, value in self.inserted.items()
        ]
        return frame.alias(alias).select(*raw, *new)

    def configure(self, merge: SparkMerge) -> None:
        """Says to a merge what the clauses say.

        Raises:
            UnsupportedFeatureError: For more than one clause of a kind.
            InvalidInputError: If a clause can never apply.
        """
        keys = self.keys()
        merge.source_columns(self.inserted or self._shared(keys))
        before: list[str] = []
        seen: set[str] = set()
        for when in self.whens:
            kind, condition = self._kind(when), when.args.get("condition")
            if kind in seen:
                raise UnsupportedFeatureError(f"{at(when)}: {kind} comes twice")
            seen.add(kind)
            if kind == "NOT MATCHED THEN INSERT":
                merge.when_not_matched_insert_all(self._text(condition))
            elif kind == "NOT MATCHED BY SOURCE THEN DELETE":
                merge.when_not_matched_by_source_delete(self._of_table(condition))
            else:
                self._matched(merge, when, self._text(condition), before)

    def _matched(
        self, merge: SparkMerge, when: Any, condition: str | None, before: list[str]
    ) -> None:
        """A pair is for the first clause that holds; `merge_into` looks at deletes first."""
        if "" in before:
            raise InvalidInputError(f"{at(when)}: the clause before takes all rows")
        then = when.args["then"]
        if isinstance(then, exp.Update):
            if then.expressions and not _is_star(then):
                merge.when_matched_update(self._assignments(then), condition)
            elif self.inserted:
                shared = {
                    n: f"source.`{_RAW}{n}`" for n in self.columns if n in self.source.columns
                }
                merge.when_matched_update(shared, condition)
            else:
                merge.when_matched_update_all(condition)
        elif condition is None and not before:
            merge.when_matched_delete()
        else:
            others = [f"({text}) IS NOT TRUE" for text in before]
            merge.when_matched_delete(" AND ".join([*others, f"({condition or 'TRUE'})"]))
        before.append(condition or "")

    def _assignments(self, then: Any) -> dict[str, str]:
        found = {}
        for one in then.expressions:
            side, path = self._target(one.left)
            if side != "target" or len(path) > 1:
                raise UnsupportedFeatureError(f"{at(one)}: {one.sql()}: only whole columns are set")
            found[path[0]] = self.sides.text(one.right)
        return found

    def _target(self, column: Any) -> tuple[str, list[str]]:
        """A column that is set: of the table, even where the source has one of that name."""
        if not column.table and column.name.lower() in map(str.lower, self.columns):
            return "target", [next(n for n in self.columns if n.lower() == column.name.lower())]
        return self.plain.column(column)

    def _inserted(self) -> dict[str, Any]:
        """What INSERT (…) VALUES (…) says; nothing for INSERT *."""
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
        return frame.withColumn(key, sf.col(_quoted(name)))


def _is_star(then: Any) -> bool:
    return len(then.expressions) == 1 and isinstance(then.expressions[0], exp.Star)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
