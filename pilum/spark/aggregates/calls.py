"""What can be aggregated: functions, the types that go in, and the types that come out.

    function      a task gives          Spark makes of it
    --------      ------------          -----------------
    count(*)      rows                  the sum
    count(x)      those not null        the sum
    sum(x)        decimal or double     the sum, in the type that Spark's own sum has
    min, max      of x                  the same again
    avg(x)        sum as double, count  their quotient

Sums of whole numbers are decimals in between, so that what overflows is Spark's to tell.
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
# So many digits are left for sums, and Spark's own type of a sum has so many more.
_SUM_DIGITS = 10
_MAX_PRECISION = 38


@dataclass(frozen=True)
class Partial:
    """One column that tasks give.

    Attributes:
        kind: "rows", "count", "sum", "min" or "max".
        argument: SQL of the values, None for "rows".
        spark: Its type.
    """

    kind: str
    argument: str | None
    spark: st.DataType


@dataclass(frozen=True)
class Call:
    """A function and what it is asked of.

    Attributes:
        function: In lower case.
        argument: SQL; None for `count(*)`.
    """

    function: str
    argument: str | None

    @classmethod
    def parse(cls, text: str) -> Call:
        """Reads a text such as "sum(price * 2)".

        Raises:
            InvalidInputError: If it is no call.
            UnsupportedFeatureError: For any other function.
        """
        found = _CALL.fullmatch(text)
        if found is None:
            raise InvalidInputError(f'{text!r}: expected a call such as "sum(price)"')
        function, argument = found[1].lower(), found[2].strip()
        if function not in _FUNCTIONS:
            raise UnsupportedFeatureError(f"{text!r}: known are {', '.join(_FUNCTIONS)}")
        return cls(function, None if function == "count" and argument == "*" else argument)

    def partials(self, argument: st.DataType | None) -> tuple[Partial, ...]:
        """What tasks give for it.

        Args:
            argument: Type of the argument, None if there is none.

        Raises:
            UnsupportedFeatureError: If the function takes no such values.
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
        """The type that Spark's own function has."""
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
