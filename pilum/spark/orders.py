"""Clustering of rows by some columns, with Spark's range partitioning.

    sort      a, then b           ranges of a are disjoint between files
    z-order   bits of a and b     ranges of a and of b are narrow in each file
              in turns
    Hilbert   without jumps       narrower still

The position of a row on the curve is computed from ranks, not from values: a column is cut at its
quantiles into 256 ranges with about the same number of rows each, whatever its type. This takes one
more pass over the key columns before the rows are sorted.

    Z-order            Hilbert
    0  1  4  5         0  3  4  5        cells that follow each other on the Hilbert curve always
    2  3  6  7         1  2  7  6        touch; on the Z-order curve there are jumps between the
    8  9 12 13        14 13  8  9        quarters, but its number is cheaper to compute
   10 11 14 15        15 12 11 10

Source for Hilbert: J. Skilling, "Programming the Hilbert curve", AIP Conference Proceedings 707
(2004).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from pilum.errors import ColumnNotFoundError, InvalidInputError, UnsupportedTypeError
from pilum.spark.names import find_name, is_case_sensitive, quoted, require_free

__all__ = ["Order", "hilbert", "z_order"]

_BITS = 8
_MOST_DIMENSIONS = 7
_ACCURACY = 4096
_PREFIX_BYTES = 7
_PLACE = "_pilum_place"

Ranks = Sequence[NDArray[np.int64]]
Curve = Callable[[Ranks], NDArray[np.int64]]


@dataclass(frozen=True)
class Order:
    """An order of rows: one of three kinds, or none; InvalidInputError if more are given.

    Attributes:
        sort_by: Sort by these columns, given as names or expressions such as `sf.desc("a")`.
        zorder_by: Order along a Z-order curve through these columns.
        hilbert_by: Order along a Hilbert curve through these columns.
    """

    sort_by: Sequence[str | Column] | None = None
    zorder_by: Sequence[str] | None = None
    hilbert_by: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if sum(way is not None for way in (self.sort_by, self.zorder_by, self.hilbert_by)) > 1:
            raise InvalidInputError("sort_by, zorder_by and hilbert_by exclude each other")

    def __bool__(self) -> bool:
        return any(way is not None for way in (self.sort_by, self.zorder_by, self.hilbert_by))

    def texts(self) -> list[str]:
        """Describe the order; expressions have no stable text in Spark, so only their presence."""
        way = "sort" if self.sort_by is not None else "zorder" if self.zorder_by else "hilbert"
        keys = self.sort_by if self.sort_by is not None else self.curve_columns
        return [way, *(key if isinstance(key, str) else "expression" for key in keys or ())]

    @property
    def curve_columns(self) -> Sequence[str] | None:
        """Return the columns of the curve; None for any other order."""
        return self.hilbert_by if self.zorder_by is None else self.zorder_by

    def apply(
        self, frame: DataFrame, num_partitions: int | None = None, keys: DataFrame | None = None
    ) -> DataFrame:
        """Range-partition the rows in this order and sort them within each partition.

        `num_partitions` is a maximum; Spark's setting for shuffles if None. `keys` has the same
        rows with only the columns of a curve, if reading them alone is cheaper; without it, the
        frame itself is computed a second time for a curve.
        """
        if self.sort_by is not None:
            return _sorted(frame, self.sort_by, num_partitions)
        columns = self.curve_columns
        if columns is None:
            return frame
        columns = [_known(frame, name) for name in columns]
        require_free(frame.columns, _PLACE)
        if not 2 <= len(columns) <= _MOST_DIMENSIONS or len(set(columns)) < len(columns):
            raise InvalidInputError(
                f"a curve goes through 2 to {_MOST_DIMENSIONS} different columns, found "
                f"{list(columns)}"
            )
        numbers = [_number(frame, name) for name in columns]
        curve = z_order if self.hilbert_by is None else hilbert
        place = _place_of(_quantiles(frame if keys is None else keys, numbers), curve)
        placed = _sorted(frame.withColumn(_PLACE, place(*numbers)), [_PLACE], num_partitions)
        return placed.drop(_PLACE)


def _sorted(
    frame: DataFrame, keys: Sequence[str | Column], num_partitions: int | None
) -> DataFrame:
    if not keys:
        raise InvalidInputError("sort_by: expected at least one column")
    count = () if num_partitions is None else (num_partitions,)
    return frame.repartitionByRange(*count, *keys).sortWithinPartitions(*keys)


def _known(frame: DataFrame, name: str) -> str:
    """Return the column of a frame that a name refers to."""
    sensitive = is_case_sensitive(frame.sparkSession)
    found = find_name(name, frame.columns, case_sensitive=sensitive)
    if found is None:
        raise ColumnNotFoundError(f"no column {name!r}; there are {frame.columns}")
    return found


def _number(frame: DataFrame, name: str) -> Column:
    """Convert a column to numbers of the same order."""
    kind, column = frame.schema[name].dataType, sf.col(quoted(name))
    if isinstance(kind, st.StringType | st.BinaryType):
        binary = sf.encode(column, "UTF-8") if isinstance(kind, st.StringType) else column
        padded = sf.rpad(binary, _PREFIX_BYTES, sf.lit(b"\0"))
        return sf.conv(sf.hex(padded), 16, 10).cast("double")
    if isinstance(kind, st.DateType):
        return sf.unix_date(column).cast("double")
    if isinstance(kind, st.TimestampNTZType):
        return column.cast("timestamp").cast("double")
    if isinstance(kind, st.NumericType | st.TimestampType | st.BooleanType):
        return column.cast("double")
    raise UnsupportedTypeError(
        f"column {name!r} is {kind.simpleString()}; expected numbers, times or texts"
    )


def _quantiles(frame: DataFrame, keys: list[Column]) -> list[list[float]]:
    ranges = 1 << _BITS
    wanted = sf.array(*(sf.lit(step / ranges) for step in range(1, ranges)))
    found = frame.agg(
        *(sf.percentile_approx(key, wanted, _ACCURACY).alias(str(i)) for i, key in enumerate(keys))
    )
    return [sorted(set(bounds or ())) for bounds in found.collect()[0]]


def _place_of(bounds: list[list[float]], curve: Curve) -> Callable[..., Column]:
    import pandas as pd
    from pyspark.sql.pandas.functions import pandas_udf

    def place(*keys: Any) -> Any:
        # Nulls are NaN here, which sorts after all bounds.
        ranks = [
            np.searchsorted(np.asarray(of_key), key.to_numpy(np.float64), side="right")
            for of_key, key in zip(bounds, keys, strict=True)
        ]
        return pd.Series(curve(ranks))

    # Spark requires the classes themselves, not their names.
    place.__annotations__ = {"keys": pd.Series, "return": pd.Series}
    make: Any = pandas_udf
    udf: Callable[..., Column] = make(place, "bigint")
    return udf


def z_order(ranks: Ranks, bits: int = _BITS) -> NDArray[np.int64]:
    """Return the numbers of cells along a Z-order curve: rank bits interleaved, highest first.

    Each dimension has ranks below `2 ** bits`, shape (n,).
    """
    place = np.zeros_like(ranks[0])
    for bit in reversed(range(bits)):
        for rank in ranks:
            place = (place << 1) | ((rank >> bit) & 1)
    return place


def hilbert(ranks: Ranks, bits: int = _BITS) -> NDArray[np.int64]:
    """Return the numbers of cells along a Hilbert curve."""
    axes = np.array(ranks)  # a copy, shape (dimensions, n)
    for bit in reversed(range(1, bits)):
        _undo(axes, 1 << bit)
    return z_order(list(_gray(axes, bits)), bits)


def _undo(axes: NDArray[np.int64], bit: int) -> None:
    """Rotate and mirror the cubes of one size, so that each inner curve begins in one corner."""
    below = bit - 1
    for axis in axes:
        is_upper = (axis & bit) != 0
        swapped = np.where(is_upper, 0, (axes[0] ^ axis) & below)
        axes[0] ^= np.where(is_upper, below, swapped)
        axis ^= swapped  # no effect for the first axis


def _gray(axes: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Return the Gray code of cells, as ranks whose interleaved bits are the number."""
    for number in range(1, len(axes)):
        axes[number] ^= axes[number - 1]
    flips = np.zeros_like(axes[0])
    for bit in reversed(range(1, bits)):
        flips ^= np.where(axes[-1] & (1 << bit), (1 << bit) - 1, 0)
    axes ^= flips
    return axes
