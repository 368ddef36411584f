"""The scan of a table in a plan of Spark, and what a query uses of it.

Filter (q > 3)          conditions  ("(q > 3L)",)
+- Project [id, q]      columns     {"id", "q"}
   +- table             the leaf
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import types as st

__all__ = ["FORMATS", "Grouping", "Leaf", "NameOf", "Reads", "Use"]

FORMATS = frozenset({"lance", "pilum"})
"""The formats whose scans are narrowed."""

NameOf = Callable[[tuple[str, ...]], tuple[str, ...] | None]
"""A function from the parts of a name in a text to a path in the table; None for other names."""


@dataclass(frozen=True)
class Leaf:
    """A scan of all columns of one version.

    Attributes:
        texts: The options of the read; they name the version.
        schema: The columns, as Spark sees them.
    """

    texts: Mapping[str, str]
    schema: st.StructType


@dataclass(frozen=True)
class Grouping:
    """An aggregation of a leaf's rows; keys and results are texts in Spark's SQL.

    Attributes:
        keys: What rows are grouped by.
        results: What is returned, keys or calls of aggregate functions.
    """

    keys: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Use:
    """The columns and rows of a leaf that a query uses.

    Attributes:
        columns: Lower-case names; None for all of them.
        name_of: Resolves names in texts.
        conditions: Texts in Spark's SQL; only rows that fulfil all of them are used. None is a
            condition that is not known.
        limit: Number of rows that are enough, of those that fulfil all conditions.
        grouping: What the rows are aggregated to, if nothing else is done with them.
        reason: Why everything is read, if it is.
    """

    columns: frozenset[str] | None
    name_of: NameOf
    conditions: tuple[str | None, ...] = ()
    limit: int | None = None
    grouping: Grouping | None = None
    reason: str = ""

    @classmethod
    def whole(cls, reason: str) -> Use:
        """Return the use of all rows and columns."""
        return cls(None, lambda _: None, reason=reason)


@dataclass(frozen=True)
class Reads:
    """The columns and rows that a scan reads of a table.

    Attributes:
        uri: Location of the table.
        version: The version.
        columns: Names of the columns; empty if only rows are counted.
        num_columns: Number of all columns of the frame.
        filter: The condition that the scan evaluates, in pilum's SQL; None for all rows.
        limit: Number of rows after which a task stops; None for all rows.
        answer: "rows"; "aggregates", if tasks aggregate; "metadata", if no row is read.
        reason: Why everything is read, if something in the plan is unknown.
    """

    uri: str
    version: int
    columns: tuple[str, ...]
    num_columns: int
    filter: str | None = None
    limit: int | None = None
    answer: str = "rows"
    reason: str = ""
