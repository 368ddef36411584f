"""The aggregate functions, with their argument types and result types.

    function      result of a task      combined by Spark to
    --------      ----------------      --------------------
    count(*)      number of rows        the sum
    count(x)      number not null       the sum
    sum(x)        decimal or double     the sum, in the type of Spark's own sum
    min, max      min, max of x         the same function
    avg(x)        sum as double, count  their quotient

Partial sums of integers are decimals, so that Spark detects an overflow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark.sql import types as st

from pilum.errors import InvalidInputError, UnsupportedFeatureError

__all__ = ["ROWS", "Call", "Partial"]

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


@dataclass(frozen=True)
class Partial:
    """One column that tasks return.

    Attributes:
        kind: "rows", "count", "sum", "min" or "max".
        argument: SQL of the values, None for "rows".
        spark: The Spark type of the column.
    """

    kind: str
    argument: str | None
    spark: st.DataType


@dataclass(frozen=True)
class Call:
    """A call of an aggregate function.

    Attributes:
        function: Name of the function, in lower case.
        argument: SQL of the argument; None for `count(*)`.
    """

    function: str
    argument: str | None

    @classmethod
    def parse(cls, text: str) -> Call:
        """Parse a text such as "sum(price * 2)".

        Raises:
            InvalidInputError: If the text is not a call.
            UnsupportedFeatureError: If the function is not supported.
        """
        found = _CALL.fullmatch(text)
        if found is None:
            raise InvalidInputError(f'{text!r}: expected a call such as "sum(price)"')
        function, argument = found[1].lower(), found[2].strip()
        if function not in _FUNCTIONS:
            raise UnsupportedFeatureError(f"{text!r}: known are {', '.join(_FUNCTIONS)}")
        return cls(function, None if function == "count" and argument == "*" else argument)

    def partials(self, argument: st.DataType | None) -> tuple[Partial, ...]:
        """Return the partial aggregates that tasks compute for the call.

        Args:
            argument: Type of the argument; None if there is none.

        Raises:
            UnsupportedFeatureError: If the function does not accept such values.
        """
        if argument is None:
            return (Partial(ROWS, None, st.LongType()),)
        counted = Partial("count", self.argument, st.LongType())
        if self.function == "count":
            return (counted,)
        if self.function in {"min", "max"}:
            self._require(argument, _ORDERED)
            return (Partial(self.function, self.argument, argument),)
        if self.function == "avg":
            self._require(argument, (*_WHOLE, *_BINARY))
            return (Partial("sum", self.argument, st.DoubleType()), counted)
        return (Partial("sum", self.argument, self._sum_type(argument)),)

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
