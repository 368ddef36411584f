"""Rows that are near in some columns, near in the files: by Spark's range partitioning.

    sort      a, then b           ranges of a are disjoint between files
    z-order   bits of a and b     ranges of a and of b are narrow in each file
              in turns

The place of a row on the curve is made of ranks, not of values: a column is cut at its quantiles
into 256 ranges with about as many rows each, whatever its type. So it takes one more pass over the
key columns before the rows are sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from pilum.errors import ColumnNotFoundError, InvalidInputError, UnsupportedTypeError

__all__ = ["interleave", "sort_rows", "zorder_rows"]

_BITS = 8
_MOST_COLUMNS = 7
_ACCURACY = 4096
_PREFIX_BYTES = 7
_PLACE = "__pilum_place"


def sort_rows(
    frame: DataFrame, keys: Sequence[str | Column], num_partitions: int | None = None
) -> DataFrame:
    """The rows in ranges of the keys, one range per partition, sorted within.

    Args:
        frame: The rows.
        keys: Columns, by name or as expressions such as `sf.desc("a")`.
        num_partitions: Partitions at most; Spark's setting for shuffles if None.
    """
    if not keys:
        raise InvalidInputError("sort_by: expected at least one column")
    if num_partitions is None:
        return frame.repartitionByRange(*keys).sortWithinPartitions(*keys)
    return frame.repartitionByRange(num_partitions, *keys).sortWithinPartitions(*keys)


def zorder_rows(
    frame: DataFrame, columns: Sequence[str], num_partitions: int | None = None
) -> DataFrame:
    """The rows along a Z-order curve through some columns.

    Args:
        frame: The rows; they are computed twice.
        columns: Two to seven of numbers, times, texts or binary. Of texts and binary the first
            7 bytes count.
        num_partitions: Partitions at most; Spark's setting for shuffles if None.

    Raises:
        InvalidInputError: For another number of columns.
        ColumnNotFoundError: If there is no such column.
        UnsupportedTypeError: If a column has no order.
    """
    if not 2 <= len(columns) <= _MOST_COLUMNS or len(set(columns)) < len(columns):
        raise InvalidInputError(
            f"zorder_by: expected 2 to {_MOST_COLUMNS} different columns, found {list(columns)}"
        )
    keys = [_number(frame, name) for name in columns]
    place = _place_of(_quantiles(frame, keys))
    placed = sort_rows(frame.withColumn(_PLACE, place(*keys)), [_PLACE], num_partitions)
    return placed.drop(_PLACE)


def interleave(ranks: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Joins ranks of 8 bits, highest bits first, those of the first column before the others."""
    place = np.zeros_like(ranks[0])
    for bit in reversed(range(_BITS)):
        for rank in ranks:
            place = (place << 1) | ((rank >> bit) & 1)
    return place


def _number(frame: DataFrame, name: str) -> Column:
    """A column as numbers of the same order."""
    if name not in frame.columns:
        raise ColumnNotFoundError(f"zorder_by: no column {name!r}; there are {frame.columns}")
    kind, column = frame.schema[name].dataType, sf.col(f"`{name}`")
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
        f"zorder_by: column {name!r} is {kind.simpleString()}; expected numbers, times or texts"
    )


def _quantiles(frame: DataFrame, keys: list[Column]) -> list[list[float]]:
    ranges = 1 << _BITS
    wanted = sf.array(*(sf.lit(step / ranges) for step in range(1, ranges)))
    found = frame.agg(
        *(sf.percentile_approx(key, wanted, _ACCURACY).alias(str(i)) for i, key in enumerate(keys))
    )
    return [sorted(set(bounds or ())) for bounds in found.collect()[0]]


def _place_of(bounds: list[list[float]]) -> Callable[..., Column]:
    import pandas as pd
    from pyspark.sql.pandas.functions import pandas_udf

    def place(*keys: Any) -> Any:
        # Nulls are NaN here, which lies behind all bounds.
        ranks = [
            np.searchsorted(np.asarray(of_key), key.to_numpy(np.float64), side="right")
            for of_key, key in zip(bounds, keys, strict=True)
        ]
        return pd.Series(interleave(ranks))

    # Spark wants the classes themselves, not their names.
    place.__annotations__ = {"keys": pd.Series, "return": pd.Series}
    make: Any = pandas_udf
    udf: Callable[..., Column] = make(place, "bigint")
    return udf
