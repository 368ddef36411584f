"""The columns that are measured: name → a table of one column, of twelve, or of a thousand.

Values are drawn with a fixed seed. Wide shapes have fewer rows, so that each is some tens of
megabytes at the default of one million rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bench.drawn import (
    Random,
    booleans,
    cities,
    few_int64,
    float64,
    int32_small,
    int64_nulls,
    int64_random,
    lists,
    lists_of_structs,
    mixed,
    runs,
    structs,
    text,
    timestamps,
    vectors,
    wide,
)
from bench.real import documents, flights, lineitem

__all__ = ["SHAPES", "Shape"]


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of column.

    Attributes:
        name: As on the command line and in the report.
        make: Number of rows and random source → the column.
        one_in: Of the rows asked for, how many this shape has (1 = all, 20 = every twentieth).
        oldest: The oldest version of the Lance file format that holds it: 0.1 has nulls only of
            strings and binary, 2.0 has no null structs.
        in_all_versions: Whether it is measured in each version of the file format, or the first.
    """

    name: str
    make: Callable[[int, Random], pa.Array | pa.Table]
    one_in: int = 1
    oldest: str = "0.1"
    in_all_versions: bool = True

    def table(self, rows: int, seed: int = 0) -> pa.Table:
        """Draws the table; at least one row."""
        made = self.make(max(1, rows // self.one_in), np.random.default_rng(seed))
        return made if isinstance(made, pa.Table) else pa.table({"value": made})


SHAPES: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape("int64 random", int64_random),
        Shape("int32 small", int32_small),
        Shape("int64 nulls", int64_nulls, oldest="2.0"),
        Shape("float64", float64),
        Shape("vector 128", vectors(128), one_in=20),
        Shape("vector 768", vectors(768), one_in=100),
        Shape("short text", text(2, 6)),
        Shape("long text", text(100, 300), one_in=50),
        Shape("few strings", cities),
        Shape("runs", runs),
        Shape("few int64", few_int64),
        Shape("bool", booleans),
        Shape("timestamp", timestamps),
        Shape("list of int32", lists, one_in=4, oldest="2.0"),
        Shape("struct", structs, one_in=2, oldest="2.1"),
        Shape("list of struct", lists_of_structs, one_in=8, oldest="2.1"),
        Shape("mixed table", mixed, one_in=5, oldest="2.0"),
        Shape("1,000 columns", wide, one_in=500, oldest="2.0"),
        Shape("lineitem", lineitem, in_all_versions=False),
        Shape("flights", flights, one_in=3, in_all_versions=False),
        Shape("documents", documents, one_in=250, in_all_versions=False),
    )
}
