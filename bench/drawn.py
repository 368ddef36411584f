"""Columns that are drawn: number of rows and random source → the column, or a table of several."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "Random",
    "booleans",
    "cities",
    "few_int64",
    "float64",
    "int32_small",
    "int64_nulls",
    "int64_random",
    "lists",
    "lists_of_structs",
    "mixed",
    "runs",
    "structs",
    "text",
    "timestamps",
    "vectors",
    "wide",
]

Random = np.random.Generator

WORDS = (
    *("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "while", "seven", "wizards"),
    *("box", "quietly", "near", "old", "harbours", "and", "every", "morning", "ships", "carry"),
    *("grain", "salt", "wool", "copper", "letters", "from", "distant", "northern", "towns", "to"),
    *("markets", "where", "people", "speak", "many", "languages", "about", "weather", "prices"),
    *("music", "bread", "politics"),
)
CITIES = ("Amsterdam", "Berlin", "Chicago", "Dakar", "Edinburgh", "Fukuoka", "Genoa", "Hanoi")


def int64_random(rows: int, random: Random) -> pa.Array:
    """Draw numbers that do not compress."""
    return pa.array(random.integers(-(2**62), 2**62, rows))


def int32_small(rows: int, random: Random) -> pa.Array:
    """Draw numbers from 0 to 999."""
    return pa.array(random.integers(0, 1000, rows, dtype=np.int32))


def int64_nulls(rows: int, random: Random) -> pa.Array:
    """Draw numbers below a million, a tenth of them null."""
    return pa.array(random.integers(0, 1_000_000, rows), mask=random.random(rows) < 0.1)


def float64(rows: int, random: Random) -> pa.Array:
    """Draw numbers of a normal distribution."""
    return pa.array(random.standard_normal(rows))


def vectors(dimension: int) -> Callable[[int, Random], pa.Array]:
    """Return a function that draws vectors of float32."""

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
    """Draw one of eight names a row."""
    return pa.array(CITIES).take(pa.array(random.integers(0, len(CITIES), rows)))


def booleans(rows: int, random: Random) -> pa.Array:
    """Draw booleans, three in ten true."""
    return pa.array(random.random(rows) < 0.3)


def timestamps(rows: int, random: Random) -> pa.Array:
    """Draw ascending moments, up to two seconds apart."""
    gaps = random.integers(0, 2_000_000, rows)
    return pa.array(1_700_000_000_000_000 + np.cumsum(gaps), pa.timestamp("us"))


def lists(rows: int, random: Random) -> pa.Array:
    """Draw lists of up to nine numbers."""
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
    """Draw structs of a number, a float and a name."""
    members = [int32_small(rows, random), float64(rows, random), cities(rows, random)]
    return pa.StructArray.from_arrays(
        members, ["number", "ratio", "city"], mask=pa.array(random.random(rows) < 0.05)
    )


def lists_of_structs(rows: int, random: Random) -> pa.Array:
    """Draw lists of up to four structs."""
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
