"""One call of `pilum.spark.sql`: what statements need to execute themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import pilum
from pilum.distributed import TableVersion, find_version
from pilum.distributed.conditions import ROW_ADDRESS
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.spark.catalog import Place
from pilum.spark.frames import read
from pilum.spark.statements.expressions import plain_text
from pilum.spark.statements.functions import TableFunction, table_functions
from pilum.spark.statements.places import at, located, span
from pilum.spark.statements.pushdown import needs_of
from pilum.spark.statements.references import Reference, Statement
from pilum.spark.statements.versions import version_of
from pilum.spark.types import exchange_schema

__all__ = ["Call"]


@dataclass(frozen=True)
class Call:
    """A statement of a session.

    Attributes:
        spark: The session.
        statement: The parsed statement.
        access: Settings of the stores of all tables; those of a table's own come first.
    """

    spark: SparkSession
    statement: Statement
    access: Mapping[str, str]

    @property
    def tree(self) -> Any:
        """Return the tree of the statement."""
        return self.statement.tree

    def options(self, place: Place) -> dict[str, str]:
        """Return the settings of the store of a table."""
        return {**self.access, **place.storage_options}

    def target(self, node: Any) -> Reference:
        """Return the reference of a statement to the one table that it is about.

        Raises:
            UnsupportedFeatureError: If it is not a table of pilum.
            InvalidInputError: If the name has a version.
        """
        one = self.statement.reference_to(node)
        if one is None:
            raise UnsupportedFeatureError(
                f"{at(node)}: {node.sql(dialect='spark')} is no table of pilum"
            )
        if node.args.get("version") is not None:
            raise InvalidInputError(f"{at(node)}: only the latest version can be changed")
        return one

    def dataset(self, one: Reference) -> pilum.LanceDataset:
        """Open the latest version of a table."""
        with located(one.node):
            return pilum.dataset(one.uri, storage_options=self.options(one.place))

    def opened(self, one: Reference) -> TableVersion:
        """Open the version that a reference names."""
        with located(one.node):
            return find_version(
                one.uri,
                one.version,
                as_of=one.as_of,
                storage_options=self.options(one.place),
            )

    def version(self, one: Reference, clause: Any | None) -> int:
        """Return the number of the version that a clause of a statement names, or of the latest.

        Raises:
            UnsupportedFeatureError: If it is a version of a branch.
        """
        version, as_of = (None, None) if clause is None else version_of(clause, one.node)
        with located(one.node):
            found = find_version(
                one.uri, version, as_of=as_of, storage_options=self.options(one.place)
            )
        if found.uri != one.uri:
            raise UnsupportedFeatureError(f"{at(one.node)}: {version!r} is a version of a branch")
        return found.version

    def columns(self, one: Reference) -> list[str]:
        """Return the names of the columns of a table."""
        return list(self.dataset(one).schema.names)

    def columns_of(self, ddl: str) -> StructType:
        """Return the columns of a text such as `id bigint, name string`, parsed by Spark."""
        none: list[tuple[Any, ...]] = []
        return self.spark.createDataFrame(none, ddl).schema

    def condition(self, one: Reference) -> str | None:
        """Return the WHERE clause of a change in pilum's SQL, checked against the table."""
        where = self.tree.args.get("where")
        return None if where is None else self.checked(one, where.this)

    def checked(self, one: Reference, condition: Any) -> str:
        """Return a condition on the rows of a table in pilum's SQL, checked against the table."""
        found = self.opened(one)
        text = plain_text(condition, one.alias, found.columns.names)
        with located(condition):
            found.condition(text)
        return text

    def query(self, *nodes: Any, before: str = "") -> DataFrame:
        """Return the rows of the queries at some nodes, written after each other.

        Their tables are replaced by frames of the needed columns and rows. Without a node, the
        query is the whole statement.
        """
        frames, places = dict[str, DataFrame](), dict[tuple[int, int], str]()
        ranges = [span(node) for node in nodes if node is not None] or [self._whole]
        sources: list[Reference | TableFunction] = [*self.statement.references]
        sources += table_functions(self.statement)
        for number, one in enumerate(sources):
            if any(first <= one.start and one.stop <= last for first, last in ranges):
                frames[f"table{number}"] = (
                    self._frame(one)
                    if isinstance(one, Reference)
                    else one.frame(self.spark, self.access)
                )
                places[one.start, one.stop] = f"{{table{number}}}{one.added_alias}"
        parts = [self.statement.rewritten(places, first, last) for first, last in ranges]
        text = " ".join((before, *parts)) if before else " ".join(parts)
        named: dict[str, Any] = dict(frames)
        if not named:
            return self.spark.sql(text.replace("{{", "{").replace("}}", "}"))
        return self.spark.sql(text, **named)

    def report(self, **values: int) -> DataFrame:
        """Return a frame of one row of numbers."""
        return self.rows([tuple(values.values())], ", ".join(f"{name} bigint" for name in values))

    def rows(self, rows: Sequence[Sequence[Any]], schema: str) -> DataFrame:
        """Return a frame of some rows, which Spark returns without a job."""
        columns = self.columns_of(schema)
        table = [[_plain(row[number]) for row in rows] for number in range(len(columns.fields))]
        arrow = exchange_schema(columns)
        arrays = [pa.array(values, kind) for values, kind in zip(table, arrow.types, strict=True)]
        return self.spark.createDataFrame(pa.Table.from_arrays(arrays, schema=arrow), columns)

    def require(self, known: set[str], node: Any = None) -> None:
        """Refuse clauses that a statement does not support."""
        tree = self.tree if node is None else node
        if extra := {key for key, value in tree.args.items() if value} - known:
            word = tree.key.upper()
            raise UnsupportedFeatureError(f"{at(tree)}: {word} with {', '.join(sorted(extra))}")

    @property
    def _whole(self) -> tuple[int, int]:
        return 0, len(self.statement.text)

    def _frame(self, one: Reference) -> DataFrame:
        """Return a frame of the columns and rows that a query needs."""
        found = self.opened(one)
        needs = needs_of(one, self.tree, found.columns)
        return read(
            self.spark,
            found.uri,
            columns=needs.columns or [ROW_ADDRESS],
            filter=needs.filter,
            version=found.version,
            storage_options=self.options(one.place),
        )


def _plain(value: Any) -> Any:
    """Return a value as Arrow takes it: maps as lists of pairs."""
    return list(value.items()) if isinstance(value, Mapping) else value
