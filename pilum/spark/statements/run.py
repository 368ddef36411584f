"""Execute SQL statements on tables; most of them Spark cannot execute by itself.

SELECT …             tables become frames of the needed rows; Spark runs the query
INSERT, CREATE … AS  Spark runs the query; its rows are written with one commit
MERGE, UPDATE,       pilum.spark.merge_into, update, delete, compact, cluster, cleanup
DELETE, OPTIMIZE,
VACUUM
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType
from sqlglot import TokenType, exp

import pilum
from pilum.distributed import Mode, TableVersion, find_version
from pilum.distributed.conditions import ROW_ADDRESS
from pilum.distributed.upkeep import CompactionMetrics
from pilum.errors import (
    ColumnNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
    UnsupportedTypeError,
)
from pilum.spark.aggregates.source import final, partial_frame
from pilum.spark.frames import read, write
from pilum.spark.jobs.clustering import cluster
from pilum.spark.jobs.upkeep import cleanup, compact
from pilum.spark.merging import merge_into
from pilum.spark.options import option_texts
from pilum.spark.rows import delete, update
from pilum.spark.statements.aggregating import AggregateQuery
from pilum.spark.statements.merges import MergeText, plain_text, zorder_columns
from pilum.spark.statements.pushdown import needs_of
from pilum.spark.statements.references import Reference, Statement, at
from pilum.spark.types import to_spark

__all__ = ["carry_out"]

_RETAIN = re.compile(r"RETAIN\s+(\d+)\s+(HOUR|DAY)S?", re.IGNORECASE)
_KNOWN = "SELECT, INSERT, CREATE TABLE, MERGE, UPDATE, DELETE, OPTIMIZE and VACUUM"


def carry_out(
    spark: SparkSession, text: str, tables: Mapping[str, str], access: dict[str, str]
) -> DataFrame:
    """Execute a statement for `pilum.spark.sql`, which documents the arguments."""
    statement = Statement.parse(text, tables)
    if statement is None:
        return spark.sql(text)
    if not statement.references and not isinstance(statement.tree, exp.Command):
        return spark.sql(text)
    return _Session(spark, statement, access).run()


@dataclass(frozen=True)
class _Session:
    """The execution of one statement."""

    spark: SparkSession
    statement: Statement
    access: dict[str, str]

    def run(self) -> DataFrame:
        tree = self.statement.tree
        if isinstance(tree, exp.Query):
            rows = self._query(0, None)
            return self._aggregated(rows) or rows
        changes: dict[type[Any], Callable[[Any], Mapping[str, Any]]] = {
            exp.Merge: self._merge,
            exp.Update: self._update,
            exp.Delete: self._delete,
            exp.Insert: self._insert,
            exp.Create: self._create,
            exp.Command: self._command,
        }
        if type(tree) not in changes:
            word = self.statement.tokens[0].text.upper()
            raise UnsupportedFeatureError(f"line 1, column 1: {word}: known are {_KNOWN}")
        done = changes[type(tree)](tree)
        fields = ", ".join(f"{name} bigint" for name in done)
        return self.spark.createDataFrame([tuple(done.values())], fields)

    def _query(self, start: int, stop: int | None, before: str = "") -> DataFrame:
        """Return the rows of a query in a part of the text, with tables replaced by frames."""
        frames = {}
        for number, one in enumerate(self.statement.references):
            if start <= one.start and (stop is None or one.stop <= stop):
                frames[one.start] = (f"table{number}", self._frame(one))
        names = {place: name for place, (name, _) in frames.items()}
        text = before + self.statement.rewritten(names, start, stop)
        if not frames:
            return self.spark.sql(text.replace("{{", "{").replace("}}", "}"))
        named: dict[str, Any] = dict(frames.values())
        return self.spark.sql(text, **named)

    def _aggregated(self, rows: DataFrame) -> DataFrame | None:
        """Run a query with partial aggregates; return None if its rows have to be read.

        `rows` is the same result computed by reading rows, which gives its names and types.
        """
        if len(self.statement.references) != 1:
            return None
        one = self.statement.references[0]
        found = self._opened(one)
        needs = needs_of(one, self.statement.tree, found.columns)
        query = AggregateQuery.of(self.statement, needs, found.columns)
        if query is None:
            return None
        given = {"filter": needs.filter, "version": found.version}
        try:
            partials, planned = partial_frame(
                self.spark, query.request, option_texts(found.uri, given, self.access)
            )
        except (UnsupportedFeatureError, UnsupportedTypeError):
            return None
        named = {f"k{number}": name for number, name in enumerate(query.keys)}
        finals = dict(zip(query.request.calls, final(query.request, planned), strict=True))
        text = query.rewritten("partials", finals)
        result = self.spark.sql(text, partials=partials.withColumnsRenamed(named))
        return result.toDF(*rows.columns) if _types(result) == _types(rows) else None

    def _opened(self, one: Reference) -> TableVersion:
        return find_version(one.uri, one.version, as_of=_time(one), storage_options=self.access)

    def _frame(self, one: Reference) -> DataFrame:
        """Return a frame of the columns and rows that a query needs."""
        found = self._opened(one)
        needs = needs_of(one, self.statement.tree, found.columns)
        return read(
            self.spark,
            found.uri,
            columns=needs.columns or [ROW_ADDRESS],
            filter=needs.filter,
            version=found.version,
            storage_options=self.access,
        )

    def _update(self, tree: exp.Update) -> Mapping[str, Any]:
        one = self._target(tree.this)
        self._require(tree, {"this", "expressions", "where"})
        columns = self._columns(one.uri)
        values = {}
        for pair in tree.expressions:
            names = [part.name for part in pair.left.parts]
            if len(names) == 2 and names[0].lower() == one.alias.lower():
                names = names[1:]
            if len(names) > 1:
                raise UnsupportedFeatureError(f"{at(pair)}: members of structs cannot be set alone")
            values[_known(pair.left.this, columns)] = plain_text(pair.right, one.alias, columns)
        where = self._where(one, columns)
        return {**update(self.spark, one.uri, values, where, storage_options=self.access)}

    def _delete(self, tree: exp.Delete) -> Mapping[str, Any]:
        one = self._target(tree.this)
        self._require(tree, {"this", "where"})
        where = self._where(one, self._columns(one.uri)) or "true"
        return {**delete(self.spark, one.uri, where, storage_options=self.access)}

    def _columns(self, uri: str) -> list[str]:
        return list(pilum.dataset(uri, storage_options=self.access).schema.names)

    def _merge(self, tree: exp.Merge) -> Mapping[str, Any]:
        one = self._target(tree.this)
        source = tree.args["using"]
        start, stop = self._between(TokenType.USING, TokenType.ON)
        text = MergeText(
            tree,
            one.alias,
            source.alias_or_name,
            self._columns(one.uri),
            self._query(start, stop, "SELECT * FROM "),
        )
        merge = merge_into(
            self.spark, one.uri, text.prepared(), list(text.keys()), storage_options=self.access
        )
        text.configure(merge)
        return {**merge.execute()}

    def _insert(self, tree: exp.Insert) -> Mapping[str, Any]:
        target = tree.this
        one = self._target(target.this if isinstance(target, exp.Schema) else target)
        self._require(tree, {"this", "expression", "overwrite"})
        table = to_spark(pilum.dataset(one.uri, storage_options=self.access).schema)
        names = table.names
        start = self.statement.token_at(one.stop)
        if isinstance(target, exp.Schema):
            names = [_known(identifier, table.names) for identifier in target.expressions]
            start = self.statement.closing(start) + 1
        frame = self._query(self.statement.tokens[start].start, None)
        if len(frame.columns) != len(names):
            raise InvalidInputError(
                f"{at(tree)}: {len(frame.columns)} values for the columns {names}"
            )
        frame = frame.toDF(*names)
        mode: Mode = "overwrite" if tree.args.get("overwrite") else "append"
        if mode == "overwrite":
            for name in set(table.names).difference(names):
                frame = frame.withColumn(name, sf.lit(None))
            names = table.names
        cast = [
            sf.col(f"`{name}`")
            .cast(table[name].dataType)
            .alias(name, metadata=table[name].metadata)
            for name in names
        ]
        version = write(frame.select(*cast), one.uri, mode=mode, storage_options=self.access)
        return {"version": version}

    def _create(self, tree: exp.Create) -> Mapping[str, Any]:
        target = tree.this
        one = self._target(target.this if isinstance(target, exp.Schema) else target)
        if tree.kind != "TABLE":
            raise UnsupportedFeatureError(
                f"{at(tree)}: known are CREATE TABLE and CREATE OR REPLACE TABLE"
            )
        for option in getattr(tree.args.get("properties"), "expressions", ()):
            if not isinstance(option, exp.FileFormatProperty):
                raise UnsupportedFeatureError(f"{at(tree)}: {option.sql(dialect='spark')}")
        mode: Literal["overwrite", "ignore", "create"] = "create"
        if tree.args.get("exists") or tree.args.get("replace"):
            mode = "ignore" if tree.args.get("exists") else "overwrite"
        frame = self._created(one, target, tree.expression)
        return {"version": write(frame, one.uri, mode=mode, storage_options=self.access)}

    def _created(self, one: Reference, target: Any, query: Any) -> DataFrame:
        words = self.statement.tokens
        first = self.statement.token_at(one.stop)
        if query is not None and not isinstance(target, exp.Schema):
            start = next(word for word in words[first:] if word.token_type is TokenType.ALIAS)
            return self._query(start.end + 1, None)
        if query is not None or not isinstance(target, exp.Schema):
            raise UnsupportedFeatureError(f"{at(target)}: either columns or AS SELECT …")
        ddl = self.statement.text[words[first].end + 1 : words[self.statement.closing(first)].start]
        none: list[tuple[Any, ...]] = []
        return self.spark.createDataFrame(none, ddl)

    def _command(self, tree: exp.Command) -> Mapping[str, Any]:
        word = str(tree.this).upper()
        if word not in {"OPTIMIZE", "VACUUM"}:
            raise UnsupportedFeatureError(f"line 1, column 1: {word}: known are {_KNOWN}")
        rest = self.statement.text[self.statement.tokens[0].end + 1 :]
        probe = Statement.parse(f"SELECT * FROM {_table_of(rest)}", self.statement.tables)
        one = probe.references[0] if probe and len(probe.references) == 1 else None
        if one is None:
            raise InvalidInputError(f"line 1, column 1: {word} takes one table")
        options = rest.strip()[len(_table_of(rest)) :].strip()
        if word == "OPTIMIZE":
            metrics = self._optimize(one.uri, options)
            return {
                name: getattr(metrics, name) for name in ("fragments_removed", "fragments_added")
            }
        found = _RETAIN.fullmatch(options)
        if options and found is None:
            raise InvalidInputError(f"VACUUM takes RETAIN n HOURS, found {options!r}")
        age = found and timedelta(**{f"{found[2].lower()}s": int(found[1])})
        done = cleanup(self.spark, one.uri, older_than=age, storage_options=self.access)
        return {name: getattr(done, name) for name in ("bytes_removed", "old_versions")}

    def _optimize(self, uri: str, options: str) -> CompactionMetrics:
        """Compact a table, or with ZORDER BY rewrite the rows of all fragments in that order."""
        if not options:
            return compact(self.spark, uri, storage_options=self.access)
        columns = zorder_columns(options, self._columns(uri))
        order: dict[str, Any] = {"zorder_by" if len(columns) > 1 else "sort_by": columns}
        return cluster(self.spark, uri, **order, storage_options=self.access)

    def _target(self, node: Any) -> Reference:
        one = self.statement.reference_to(node)
        if one is None:
            raise UnsupportedFeatureError(
                f"{at(node)}: {node.sql(dialect='spark')} is no table of pilum"
            )
        if one.version is not None or one.as_of is not None:
            raise InvalidInputError(f"{at(node)}: only the latest version can be changed")
        return one

    def _where(self, one: Reference, columns: list[str]) -> str | None:
        where = self.statement.tree.args.get("where")
        return None if where is None else plain_text(where.this, one.alias, columns)

    def _require(self, tree: Any, known: set[str]) -> None:
        if extra := {key for key, value in tree.args.items() if value} - known:
            word = self.statement.tokens[0].text.upper()
            raise UnsupportedFeatureError(f"{at(tree)}: {word} with {', '.join(sorted(extra))}")

    def _between(self, first: TokenType, last: TokenType) -> tuple[int, int]:
        """Return the text range between two tokens outside of parentheses."""
        start = 0
        for token in self.statement.outer_tokens:
            if token.token_type is first and not start:
                start = token.end + 1
            elif token.token_type is last and start:
                return start, token.start
        raise InvalidInputError(f"SQL: no {first.value} … {last.value}")


def _types(frame: DataFrame) -> list[DataType]:
    return [field.dataType for field in frame.schema]


def _time(one: Reference) -> datetime | None:
    if one.as_of is None:
        return None
    try:
        when = datetime.fromisoformat(one.as_of)
    except ValueError as error:
        raise InvalidInputError(
            f"{at(one.node)}: TIMESTAMP AS OF takes a time such as '2026-01-31 12:00:00', found "
            f"{one.as_of!r}"
        ) from error
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _known(identifier: Any, names: list[str]) -> str:
    found = [name for name in names if name.lower() == identifier.name.lower()]
    if not found:
        raise ColumnNotFoundError(
            f"{at(identifier)}: no column {identifier.name!r}; the columns are {names}"
        )
    return found[0]


def _table_of(text: str) -> str:
    """Return the table name at the beginning of a text."""
    found = re.match(r"\s*((?:\w+\s*\.\s*)?(?:`[^`]*`|\w+))", text)
    return found[1] if found else ""
