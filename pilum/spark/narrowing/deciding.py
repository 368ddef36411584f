"""Decide what a scan reads from what a query uses, and make the frame that replaces the scan.

    columns {q}, conditions "(q > 3L)" "f(name)"   ->   columns q, filter q > 3

Conditions are translated as those of `pilum.spark.sql`; those that are not known to mean the same
are left to Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from sqlglot import Token, exp
from sqlglot.errors import SqlglotError

from pilum.distributed import TableVersion
from pilum.distributed.conditions import ROW_ADDRESS
from pilum.spark.frames import load
from pilum.spark.names import quoted
from pilum.spark.narrowing.leaves import Leaf, NameOf, Reads, Use
from pilum.spark.opening import open_version
from pilum.spark.statements.dialect import Spark4
from pilum.spark.statements.pushdown import Resolve, pushable, terms
from pilum.spark.types import to_spark

__all__ = ["Decision", "expression", "narrow_scan", "resolved", "tokens_of"]


_COMPARISONS = (exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Like, exp.StartsWith)


@dataclass(frozen=True)
class Decision:
    """The options and columns of the scan that replaces a leaf.

    Attributes:
        leaf: The leaf.
        reads: What is read.
        texts: The options of the scan.
        table: The version.
        columns: The columns that conditions and aggregates may name.
        is_exact: Whether the filter is the whole condition.
    """

    leaf: Leaf
    reads: Reads
    texts: Mapping[str, str]
    table: TableVersion
    columns: pa.Schema
    is_exact: bool

    @classmethod
    def of(cls, leaf: Leaf, use: Use) -> Decision:
        """Decide what to read."""
        options, table, pinned = open_version(leaf.texts)
        hidden = table.blob_columns
        known = pa.schema([one for one in table.columns if one.name not in hidden])
        names = tuple(
            field.name
            for field in leaf.schema.fields
            if use.columns is None or field.name.lower() in use.columns
        )
        found = [_filter(text, known, use.name_of) for text in use.conditions]
        is_exact = all(exact for _, exact in found)
        texts = [options.filter, *(text for text, _ in found)]
        filter = " AND ".join(f"({text})" for text in texts if text) or None
        limit = use.limit if is_exact else None
        reads = Reads(
            options.path,
            table.version,
            names,
            len(leaf.schema.fields),
            filter,
            limit,
            reason=use.reason,
        )
        given = {key: text for key, text in pinned.items() if key.lower() != "filter"}
        added = {"filter": filter, "limit": limit}
        given.update({key: str(value) for key, value in added.items() if value is not None})
        return cls(leaf, reads, given, table, known, is_exact)

    @property
    def narrows(self) -> bool:
        """Return whether less is read than the whole leaf."""
        reads = self.reads
        is_whole = len(reads.columns) == reads.num_columns and reads.limit is None
        return not is_whole or reads.filter != self.leaf.texts.get("filter")


def narrow_scan(spark: SparkSession, decision: Decision) -> DataFrame:
    """Return a frame with the columns of the leaf; those that are not read are null."""
    names = decision.reads.columns
    fields = [one for one in decision.leaf.schema.fields if one.name in names]
    schema = st.StructType(fields) if fields else _addresses(decision.table)
    frame = load(spark, decision.texts, schema)
    return frame.select(
        *(
            sf.col(quoted(one.name)) if one.name in names else _nothing(one)
            for one in decision.leaf.schema.fields
        )
    )


def expression(text: str) -> Any | None:
    """Parse an expression in Spark's SQL; return None if it does not parse."""
    try:
        trees = Spark4().parser().parse(list(Spark4().tokenize(text)), text)
    except SqlglotError:
        return None
    return trees[0] if len(trees) == 1 else None


def tokens_of(text: str) -> list[Token]:
    """Split a text in Spark's SQL into tokens; return none if that is impossible."""
    try:
        return list(Spark4().tokenize(text))
    except SqlglotError:
        return []


def resolved(columns: pa.Schema, name_of: NameOf) -> Resolve:
    """Return a function that resolves columns of parsed texts."""

    def resolve(column: exp.Column) -> tuple[str, ...] | None:
        path = name_of(tuple(part.name for part in column.parts))
        return path if path is not None and path[0] in columns.names else None

    return resolve


def _filter(text: str | None, columns: pa.Schema, name_of: NameOf) -> tuple[str | None, bool]:
    """Return the part of a condition that the scan can evaluate, and whether it is all of it."""
    node = None if text is None else expression(text)
    if node is None:
        return None, False
    resolve = resolved(columns, name_of)
    given = _without_repeats(list(terms(node)))
    found = [pushable(term, columns, resolve) for term in given]
    return " AND ".join(one for one in found if one) or None, None not in found


def _without_repeats(given: list[Any]) -> list[Any]:
    """Omit `x IS NOT NULL` if another term compares x with something, which is false for nulls.

    Spark adds such terms to all conditions.
    """
    compared = {one.this.sql() for one in given if isinstance(one, _COMPARISONS)}
    return [
        one
        for one in given
        if not (isinstance(one, exp.Not) and _tested(one.this.unnest()) in compared)
    ]


def _tested(node: Any) -> str | None:
    """Return the column of `x IS NULL`; None for another condition."""
    is_test = isinstance(node, exp.Is) and isinstance(node.expression, exp.Null)
    return node.this.sql() if is_test else None


def _addresses(table: TableVersion) -> st.StructType:
    """Return the schema of a scan that only counts rows."""
    return to_spark(table.read_schema((ROW_ADDRESS,)))


def _nothing(field: st.StructField) -> Any:
    return sf.lit(None).cast(field.dataType).alias(field.name)
