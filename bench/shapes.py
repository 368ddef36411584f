"""The columns that are measured: name → a table of one column, of twelve, or of a thousand.

Values are drawn with a fixed seed. Wide shapes have fewer rows, so that each is some tens of
megabytes at the default of one million rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.real import documents, flights, lineitem

__all__ = ["SHAPES", "Shape"]

Random = np.random.Generator

WORDS = (
    *("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "while", "seven", "wizards"),
    *("box", "quietly", "near", "old", "harbours", "and", "every", "morning", "ships", "carry"),
    *("grain", "salt", "wool", "copper", "letters", "from", "distant", "northern", "towns", "to"),
    *("markets", "where", "people", "speak", "many", "languages", "about", "weather", "prices"),
    *("music", "bread", "politics"),
)
CITIES = ("Amsterdam", "Berlin", "Chicago", "Dakar", "Edinburgh", "Fukuoka", "Genoa", "Hanoi")


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


def int64_random(rows: int, random: Random) -> pa.Array:
    return pa.array(random.integers(-(2**62), 2**62, rows))


def int32_small(rows: int, random: Random) -> pa.Array:
    return pa.array(random.integers(0, 1000, rows, dtype=np.int32))


def int64_nulls(rows: int, random: Random) -> pa.Array:
    return pa.array(random.integers(0, 1_000_000, rows), mask=random.random(rows) < 0.1)


def float64(rows: int, random: Random) -> pa.Array:
    return pa.array(random.standard_normal(rows))


def vectors(dimension: int) -> Callable[[int, Random], pa.Array]:
    def make(rows: int, random: Random) -> pa.Array:
        values = random.standard_normal(rows * dimension, dtype=np.float32)
        return pa.FixedSizeListArray.from_arrays(pa.array(values), dimension)

    return make


def text(low: int, high: int) -> Callable[[int, Random], pa.Array]:
    """Sentences of `low` to `high` - 1 words."""

    def make(rows: int, random: Random) -> pa.Array:
        counts = random.integers(low, high, rows)
        words = pa.array(WORDS).take(pa.array(random.integers(0, len(WORDS), counts.sum())))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), words), " ")

    return make


def cities(rows: int, random: Random) -> pa.Array:
    return pa.array(CITIES).take(pa.array(random.integers(0, len(CITIES), rows)))


def booleans(rows: int, random: Random) -> pa.Array:
    return pa.array(random.random(rows) < 0.3)


def timestamps(rows: int, random: Random) -> pa.Array:
    gaps = random.integers(0, 2_000_000, rows)
    return pa.array(1_700_000_000_000_000 + np.cumsum(gaps), pa.timestamp("us"))


def lists(rows: int, random: Random) -> pa.Array:
    counts = random.integers(0, 10, rows)
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    items = random.integers(0, 100_000, counts.sum(), dtype=np.int32)
    return pa.ListArray.from_arrays(
        offsets, pa.array(items), mask=pa.array(random.random(rows) < 0.02)
    )


def runs(rows: int, random: Random) -> pa.Array:
    """Numbers that stay the same for a hundred rows, on average."""
    changes = random.random(rows) < 0.01
    return pa.array(random.integers(-(2**30), 2**30, rows, dtype=np.int32)[np.cumsum(changes)])


def few_int64(rows: int, random: Random) -> pa.Array:
    """A thousand identifiers, again and again."""
    return pa.array(random.integers(0, 2**62, 1000)).take(pa.array(random.integers(0, 1000, rows)))


def structs(rows: int, random: Random) -> pa.Array:
    members = [int32_small(rows, random), float64(rows, random), cities(rows, random)]
    return pa.StructArray.from_arrays(
        members, ["number", "ratio", "city"], mask=pa.array(random.random(rows) < 0.05)
    )


def lists_of_structs(rows: int, random: Random) -> pa.Array:
    counts = random.integers(0, 5, rows)
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    return pa.ListArray.from_arrays(
        offsets, structs(int(counts.sum()), random), mask=pa.array(random.random(rows) < 0.02)
    )


def wide(rows: int, random: Random) -> pa.Table:
    """A thousand columns: numbers of two kinds, and strings."""
    kinds = (int32_small, float64, cities, int64_nulls)
    return pa.table({f"column {i}": kinds[i % len(kinds)](rows, random) for i in range(1000)})


def mixed(rows: int, random: Random) -> pa.Table:
    """A table as people have it: times, codes, numbers with gaps, a few strings."""

    def gaps(values: np.ndarray[tuple[int], np.dtype[np.int32]]) -> pa.Array:
        return pa.array(values, mask=random.random(rows) < 0.03)

    return pa.table(
        {
            "when": timestamps(rows, random),
            "carrier": cities(rows, random),
            "flight": pa.array(random.integers(1, 8000, rows, dtype=np.int32)),
            "tail_number": text(1, 2)(rows, random),
            "origin": cities(rows, random),
            "destination": cities(rows, random),
            "departure_delay": gaps(random.integers(-30, 300, rows, dtype=np.int32)),
            "arrival_delay": gaps(random.integers(-60, 300, rows, dtype=np.int32)),
            "air_time": gaps(random.integers(20, 700, rows, dtype=np.int32)),
            "distance": pa.array(random.integers(80, 5000, rows).astype(np.float64)),
            "cancelled": booleans(rows, random),
            "remark": text(2, 9)(rows, random),
        }
    )


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
