"""The aggregate functions, with their argument types and result types.

    function      result of a task      combined by Spark to
    --------      ----------------      --------------------
    count(*)      number of rows        the sum
    count(x)      number not null       the sum
    sum(x)        decimal or double     the sum, in the type of Spark's own sum
    min, max      min, max of x         the same function
    avg(x)        sum as double, count  their quotient

Partial sums of integers are decimals, so that Spark detects an overflow.

Tasks return one row for each group of a batch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark.sql import types as st

from pilum.distributed.conditions import BoundProjection
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.spark.convert import convert_batch

__all__ = ["BoundPartial", "BoundPartials", "Call", "Partial"]

ROWS = "rows"
_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
_FUNCTIONS = ("count", "sum", "min", "max", "avg")
_WHOLE = (st.ByteType, st.ShortType, st.IntegerType, st.LongType)
_BINARY = (st.FloatType, st.DoubleType)
_ORDERED = (
    *_WHOLE,
    *_BINARY,
    st.DecimalType,
    st.StringType,
    st.BooleanType,
    st.DateType,
    st.TimestampType,
    st.TimestampNTZType,
)
# Digits left for the growth of a sum; Spark's own type of a sum has as many more digits.
_SUM_DIGITS = 10
_MAX_PRECISION = 38
_WIDE = pa.decimal128(38, 0)
_LARGEST = 2**63 - 1


Partial: TypeAlias = tuple[str, st.DataType]
"""A column that tasks return: "rows", "count", "sum", "min" or "max", and its Spark type."""


@dataclass(frozen=True)
class Call:
    """A call of an aggregate function, in lower case, with the SQL of its argument.

    The argument is None for `count(*)`.
    """

    function: str
    argument: str | None

    @classmethod
    def parse(cls, text: str) -> Call:
        """Parse a text such as "sum(price * 2)"."""
        found = _CALL.fullmatch(text)
        if found is None:
            raise InvalidInputError(f'{text!r}: expected a call such as "sum(price)"')
        function, argument = found[1].lower(), found[2].strip()
        if function not in _FUNCTIONS:
            raise UnsupportedFeatureError(f"{text!r}: known are {', '.join(_FUNCTIONS)}")
        return cls(function, None if function == "count" and argument == "*" else argument)

    def partials(self, argument: st.DataType | None) -> tuple[Partial, ...]:
        """Return the partial aggregates that tasks compute, for an argument of a type."""
        if argument is None:
            return ((ROWS, st.LongType()),)
        counted = ("count", st.LongType())
        if self.function == "count":
            return (counted,)
        if self.function in {"min", "max"}:
            self._require(argument, _ORDERED)
            return ((self.function, argument),)
        if self.function == "avg":
            self._require(argument, (*_WHOLE, *_BINARY))
            return (("sum", st.DoubleType()), counted)
        return (("sum", self._sum_type(argument)),)

    def result(self, argument: st.DataType | None) -> st.DataType:
        """Return the result type of Spark's own function."""
        if self.function == "count" or argument is None:
            return st.LongType()
        if self.function in {"min", "max"}:
            return argument
        if isinstance(argument, st.DecimalType):
            digits = min(_MAX_PRECISION, argument.precision + _SUM_DIGITS)
            return st.DecimalType(digits, argument.scale)
        is_whole = isinstance(argument, _WHOLE) and self.function == "sum"
        return st.LongType() if is_whole else st.DoubleType()

    def _sum_type(self, argument: st.DataType) -> st.DataType:
        self._require(argument, (*_WHOLE, *_BINARY, st.DecimalType))
        if isinstance(argument, _BINARY):
            return st.DoubleType()
        if isinstance(argument, st.DecimalType):
            if argument.precision > _MAX_PRECISION - _SUM_DIGITS:
                raise UnsupportedFeatureError(f"{self}: decimals of more than 28 digits")
            return st.DecimalType(_MAX_PRECISION, argument.scale)
        return st.DecimalType(_MAX_PRECISION, 0)

    def _require(self, argument: st.DataType, known: tuple[type[st.DataType], ...]) -> None:
        if not isinstance(argument, known):
            raise UnsupportedFeatureError(f"{self}: not of {argument.simpleString()}")

    def __str__(self) -> str:
        return f"{self.function}({'*' if self.argument is None else self.argument})"


@dataclass(frozen=True)
class BoundPartial:
    """One column of the partial aggregates; `values` computes the argument, if there is one.

    `kind` is as in `Partial`; `crosses` is the type of the argument as Spark would receive it.
    """

    kind: str
    values: BoundProjection | None
    crosses: pa.DataType | None


@dataclass(frozen=True)
class BoundPartials:
    """The keys (none for one single group), then the partial aggregates; picklable.

    `schema` has both in the types passed to Spark; `truncate` is whether times finer than Spark's
    are truncated instead of refused.
    """

    keys: tuple[BoundProjection, ...]
    partials: tuple[BoundPartial, ...]
    schema: pa.Schema
    truncate: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that the scan has to read."""
        used = [*self.keys, *(partial.values for partial in self.partials if partial.values)]
        return tuple(dict.fromkeys(name for one in used for name in one.columns))

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Aggregate a batch that contains at least `columns`."""
        values = self._values(batch)
        keys = [f"k{number}" for number in range(len(self.keys))]
        asked: list[Any] = []
        for number, partial in enumerate(self.partials):
            asked += _asked(partial.kind, f"p{number}", f"n{number}" in values.column_names)
        groups = values.group_by(keys, use_threads=False).aggregate(asked)
        columns = [groups[key] for key in keys]
        columns += [
            _found(partial.kind, f"p{number}", f"n{number}", groups)
            for number, partial in enumerate(self.partials)
        ]
        arrays = [
            pc.cast(column.combine_chunks(), field.type, safe=not pt.is_floating(field.type))
            for column, field in zip(columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _values(self, batch: pa.RecordBatch) -> pa.Table:
        """Return keys and arguments in types that can be aggregated."""
        columns = {
            f"k{number}": self._crossing(key, batch, self.schema.field(number).type)
            for number, key in enumerate(self.keys)
        }
        for number, partial in enumerate(self.partials):
            if partial.values is None or partial.crosses is None:
                continue
            given = self._crossing(partial.values, batch, partial.crosses)
            if partial.kind in {"min", "max"} and pt.is_floating(given.type):
                is_nan = pc.is_nan(given)
                # Arrow forgets all values before a NaN that is signaling.
                given = pc.if_else(is_nan, pa.scalar(float("nan"), given.type), given)
                if partial.kind == "max":
                    columns[f"n{number}"] = is_nan
            columns[f"p{number}"] = _summable(given) if partial.kind == "sum" else given
        if not columns:  # only rows are counted
            columns[""] = pa.nulls(batch.num_rows)
        return pa.table(columns)

    def _crossing(
        self, values: BoundProjection, batch: pa.RecordBatch, crosses: pa.DataType
    ) -> pa.Array:
        array = values.evaluate(batch)
        if array.type == crosses:
            return array
        name = values.field.name
        one = pa.RecordBatch.from_arrays([array], names=[name])
        wanted = pa.schema([pa.field(name, crosses)])
        return convert_batch(one, wanted, truncate=self.truncate).column(0)


def _asked(kind: str, name: str, has_nans: bool) -> list[Any]:
    if kind == ROWS:
        return [([], "count_all")]
    # For Spark a NaN is greater than all numbers; Arrow ignores it.
    return [(name, kind), *([(f"n{name[1:]}", "any")] if has_nans else [])]


def _found(kind: str, name: str, nans: str, groups: pa.Table) -> pa.ChunkedArray:
    if kind == ROWS:
        return groups["count_all"]
    found = groups[f"{name}_{kind}"]
    if f"{nans}_any" not in groups.column_names:
        return found
    return pc.if_else(groups[f"{nans}_any"], pa.scalar(float("nan"), found.type), found)


def _summable(values: pa.Array) -> pa.Array:
    """Cast values so that the sum of the batch cannot overflow, which Arrow would not report."""
    if pt.is_floating(values.type):
        return pc.cast(values, pa.float64())
    if pt.is_decimal(values.type):
        return pc.cast(values, pa.decimal128(38, values.type.scale))
    bounds = pc.min_max(values).as_py()
    largest = max(abs(bounds["min"] or 0), abs(bounds["max"] or 0))
    is_safe = largest * len(values) <= _LARGEST
    return values if is_safe else pc.cast(pc.cast(values, pa.int64()), _WIDE)
