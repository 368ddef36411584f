"""MERGE INTO table [AS t] USING table | (query) [AS s] ON t.key = s.key [AND …] clause ….

    WHEN MATCHED [AND condition] THEN UPDATE SET * | UPDATE SET column = value, … | DELETE
    WHEN NOT MATCHED [AND condition] THEN INSERT * | INSERT (column, …) VALUES (value, …)
    WHEN NOT MATCHED BY SOURCE [AND condition] THEN DELETE

Of several clauses about the same row, the first one that holds applies. Conditions and values use
the SQL of pilum's filters, values of INSERT that of Spark; they are cast to the type of their
column. Result: num_inserted_rows, num_updated_rows, num_deleted_rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType
from sqlglot import exp

from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.spark import merging
from pilum.spark.merging import SparkMerge
from pilum.spark.names import quoted
from pilum.spark.statements.expressions import Sides, plain_text
from pilum.spark.statements.grammar import Rule
from pilum.spark.statements.places import at
from pilum.spark.types import to_spark

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]

_RAW = "_pilum_source_"
_ALWAYS = "TRUE"


def run(call: Call) -> DataFrame:
    """Merge the rows of a table or query."""
    tree = call.tree
    one, source = call.target(tree.this), tree.args["using"]
    text = MergeText(
        tree,
        one.alias,
        source.alias_or_name,
        to_spark(call.opened(one).snapshot.schema.arrow),
        call.query(source, before="SELECT * FROM"),
    )
    merge = merging.merge_into(
        call.spark,
        one.uri,
        text.prepared(),
        list(text.keys()),
        storage_options=call.options(one.place),
    )
    text.configure(merge)
    return call.report(**merge.execute())


@dataclass
class MergeText:
    """A MERGE statement with its two sides.

    Attributes:
        tree: The statement, parsed by sqlglot.
        alias: The qualifier of the table's columns.
        source_alias: The qualifier of the source's columns.
        table: Columns of the table.
        source: The source rows.
    """

    tree: exp.Merge
    alias: str
    source_alias: str
    table: StructType
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
    def columns(self) -> list[str]:
        """Return the names of the columns of the table."""
        return list(self.table.names)

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
        new = [self._typed(name, value) for name, value in self.inserted.items()]
        return frame.alias(alias).select(*raw, *new)

    def _typed(self, name: str, value: Any) -> Column:
        """Return a value of INSERT in the type of its column, as in an INSERT statement."""
        made = sf.expr(value.sql(dialect="spark"))
        if name not in self.columns:
            return made.alias(name)
        column = self.table[name]
        return made.cast(column.dataType).alias(name, metadata=column.metadata)

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


RULE = Rule(exp.Merge, run)
