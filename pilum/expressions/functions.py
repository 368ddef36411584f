"""The functions of filters: SQL names and the Arrow kernels that do exactly the same.

Functions of other engines that Arrow does not have are left out rather than imitated. Known
difference: `lower` and `upper` map letter by letter, so that `upper('ß')` is one letter.
Source: docs/format/filters.md.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.errors import FilterError
from pilum.expressions import json_selection, json_values, lists, words
from pilum.expressions.coerce import parse_temporal
from pilum.expressions.compare import compare
from pilum.expressions.geometry.layouts import is_geometry
from pilum.expressions.geometry.measures import (
    CONSTRUCTORS,
    MEASURES,
    distance,
    make_box,
    make_point,
)
from pilum.expressions.geometry.relations import RELATIONS
from pilum.expressions.types import FALSE, is_binary, is_number, is_text, scalar_of

__all__ = ["ALIASES", "FUNCTIONS", "Function", "Kind"]

Datum = Any
"""The input and output of Arrow kernels: pa.Array or pa.Scalar."""


class Kind(Enum):
    """The kind of values that a function accepts for one argument."""

    TEXT = "text"
    TEXT_OR_BINARY = "text or binary"
    NUMBER = "a number"
    FLOAT = "a float"
    DATE = "a date or timestamp"
    LIST = "a list"
    ITEMS = "a list that is not a map"
    DAY = "an integer, text, a date or timestamp"
    MOMENT = "a number, text, a date or timestamp"
    INTEGER = "an integer"
    JSON = "JSON"
    MEMBER = "a name or number as a constant"
    CONSTANT_TEXT = "a text constant"
    GEOMETRY = "a geometry"
    PLAIN = "a text, number or boolean as a constant"
    ANY = "anything"

    def accepts(self, arrow: pa.DataType) -> bool:
        """Return whether values of this Arrow type are accepted."""
        return pt.is_null(arrow) or _ACCEPTS[self](arrow)


_ACCEPTS: dict[Kind, Callable[[pa.DataType], bool]] = {
    Kind.TEXT: is_text,
    Kind.TEXT_OR_BINARY: lambda arrow: is_text(arrow) or is_binary(arrow),
    Kind.NUMBER: is_number,
    Kind.FLOAT: pt.is_floating,
    Kind.DATE: lambda arrow: bool(pt.is_date(arrow) or pt.is_timestamp(arrow)),
    Kind.LIST: lambda arrow: bool(
        pt.is_list(arrow)
        or pt.is_large_list(arrow)
        or pt.is_fixed_size_list(arrow)
        or pt.is_map(arrow)
    ),
    Kind.ITEMS: lists.is_list,
    Kind.DAY: lambda arrow: bool(
        pt.is_integer(arrow) or is_text(arrow) or pt.is_date(arrow) or pt.is_timestamp(arrow)
    ),
    Kind.MOMENT: lambda arrow: bool(
        is_number(arrow) or is_text(arrow) or pt.is_date(arrow) or pt.is_timestamp(arrow)
    ),
    Kind.INTEGER: pt.is_integer,
    Kind.JSON: pt.is_large_binary,
    Kind.GEOMETRY: is_geometry,
    Kind.MEMBER: lambda arrow: is_text(arrow) or bool(pt.is_integer(arrow)),
    Kind.CONSTANT_TEXT: is_text,
    Kind.PLAIN: lambda arrow: is_text(arrow) or is_number(arrow) or bool(pt.is_boolean(arrow)),
    Kind.ANY: lambda arrow: True,
}


@dataclass(frozen=True)
class Function:
    """One function.

    Attributes:
        apply: Called with the evaluated arguments; with two at a time if they are filled in.
        kinds: The kind of each argument.
        optional: How many of the last arguments may be left out.
        variadic: Whether the last kind repeats.
        aligned: Whether the arguments are converted to one common type first.
        fills_in: Whether each argument replaces nulls of those before it, so that it is evaluated
            only for rows that need it.
    """

    apply: Callable[..., Datum]
    kinds: tuple[Kind, ...]
    optional: int = 0
    variadic: bool = False
    aligned: bool = False
    fills_in: bool = False

    def kind(self, index: int) -> Kind:
        """Return the kind of the argument at this position."""
        return self.kinds[min(index, len(self.kinds) - 1)]

    def takes(self, count: int) -> bool:
        """Return whether the function accepts this number of arguments."""
        least = len(self.kinds) - self.optional
        return count >= least and (self.variadic or count <= len(self.kinds))


def _length(text: Datum) -> Datum:
    kernel = pc.utf8_length if is_text(text.type) else pc.binary_length
    return kernel(text).cast(pa.int32())


def _octets(text: Datum) -> Datum:
    return pc.binary_length(text).cast(pa.int32())


def _trimmer(kernel: Callable[..., Datum]) -> Callable[..., Datum]:
    def trim(text: Datum, characters: pa.Scalar | None = None) -> Datum:
        return kernel(text, characters=" " if characters is None else _option(characters))

    return trim


def _option(constant: pa.Scalar) -> str:
    value = constant.as_py()
    if value is None:
        raise FilterError("a pattern must not be NULL")
    return str(value)


def _starts_with(text: Datum, pattern: pa.Scalar) -> Datum:
    return pc.starts_with(text, pattern=_option(pattern))


def _ends_with(text: Datum, pattern: pa.Scalar) -> Datum:
    return pc.ends_with(text, pattern=_option(pattern))


def _contains(text: Datum, pattern: pa.Scalar) -> Datum:
    return pc.match_substring(text, pattern=_option(pattern))


def _regexp(text: Datum, pattern: pa.Scalar, flags: pa.Scalar | None = None) -> Datum:
    given = "" if flags is None else _option(flags)
    if given not in {"", "i"}:
        raise FilterError(f"regular expressions have the flag 'i' only, not {given!r}")
    return pc.match_substring_regex(text, pattern=_option(pattern), ignore_case=given == "i")


def _replace(text: Datum, old: pa.Scalar, new: pa.Scalar) -> Datum:
    pattern, replacement = _option(old), _option(new)
    if pattern:
        return pc.replace_substring(text, pattern=pattern, replacement=replacement)
    # Insert before, between and after all characters; the plain kernel would never end.
    escaped = replacement.replace("\\", r"\\")
    return pc.replace_substring_regex(text, pattern="", replacement=escaped)


def _concat(left: Datum, right: Datum) -> Datum:
    separator = scalar_of("", left.type)
    return pc.binary_join_element_wise(left, right, separator, null_handling="emit_null")


def _concat_all(*texts: Datum) -> Datum:
    """Concatenate all arguments; unlike `||`, null counts as empty text."""
    separator = scalar_of("", texts[0].type)
    return pc.binary_join_element_wise(*texts, separator, null_handling="replace")


def _round(number: Datum) -> Datum:
    return pc.round(number, round_mode="half_towards_infinity")


def _null_if(value: Datum, other: Datum) -> Datum:
    same = pc.fill_null(compare("=", value, other), FALSE)
    return pc.if_else(same, scalar_of(None, value.type), value)


def _list_length(lists: Datum) -> Datum:
    """Return the number of items; a nested list counts as one item."""
    if pt.is_map(lists.type):
        lists = lists.cast(pa.list_(lists.type.field(0)))
    return pc.list_value_length(lists)


def _date_part(part: pa.Scalar, moment: Datum) -> Datum:
    name = _option(part).lower()
    if name not in _DATE_PARTS:
        raise FilterError(f"date_part: expected one of {', '.join(_DATE_PARTS)}, not {name!r}")
    if pt.is_date(moment.type):
        moment = moment.cast(pa.timestamp("s"))
    found = _DATE_PARTS[name](moment)
    return found if name in _WIDE_PARTS else found.cast(pa.int32())


def _epoch(moment: Datum) -> Datum:
    """Return the seconds since 1970, as a double."""
    units = pc.cast(moment.cast(pa.int64()), pa.float64(), safe=False)
    return pc.divide(units, scalar_of(float(_UNITS_PER_SECOND[moment.type.unit])))


def _nanoseconds(moment: Datum) -> Datum:
    thousand = scalar_of(1000)
    return pc.add(pc.multiply(_microseconds(moment), thousand), pc.nanosecond(moment))


def _now() -> Datum:
    moment = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    return scalar_of(moment, pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))


def _today() -> Datum:
    return scalar_of(datetime.datetime.now(datetime.UTC).date(), pa.date32())


def _contains_tokens(text: Datum, wanted: pa.Scalar) -> Datum:
    return words.contains(text, words.words_of(_option(wanted)))


def _milliseconds(moment: Datum) -> Datum:
    thousand = scalar_of(1000)
    return pc.add(pc.multiply(pc.second(moment), thousand), pc.millisecond(moment))


def _microseconds(moment: Datum) -> Datum:
    thousand = scalar_of(1000)
    return pc.add(pc.multiply(_milliseconds(moment), thousand), pc.microsecond(moment))


def _date_trunc(part: pa.Scalar, moment: Datum) -> Datum:
    name = _option(part).lower()
    if name not in _TRUNCATED_TO:
        raise FilterError(f"date_trunc: expected one of {', '.join(_TRUNCATED_TO)}, not {name!r}")
    if pt.is_date(moment.type):
        moment = moment.cast(pa.timestamp("ns"))
    return pc.floor_temporal(moment, unit=name)


def _to_timestamp(unit: str, integers: str) -> Function:
    """Return a function that converts to timestamps; integers count seconds or parts of them."""

    def convert(moment: Datum) -> Datum:
        if is_number(moment.type) and not pt.is_integer(moment.type):
            seconds = unit == "ns" and integers == "s"  # only this one keeps fractions
            moment = _whole(moment, _UNITS_PER_SECOND[unit] if seconds else 1)
            return moment.cast(pa.timestamp(unit))
        if pt.is_integer(moment.type):
            return moment.cast(pa.int64()).cast(pa.timestamp(integers)).cast(pa.timestamp(unit))
        if isinstance(moment, pa.StringScalar) and moment.is_valid:
            parsed = parse_temporal(moment.as_py(), pa.timestamp("ns"))
            moment = parsed.cast(pa.timestamp(parsed.type.unit))
        elif is_text(moment.type):
            moment = moment.cast(pa.timestamp("ns"))
        options = pc.CastOptions(pa.timestamp(unit), allow_time_truncate=True)
        return pc.cast(moment, options=options)

    return Function(convert, (Kind.MOMENT,))


def _whole(number: Datum, factor: int) -> Datum:
    """Return the product of numbers and a factor as integers, without its fraction."""
    product = pc.multiply(pc.cast(number, pa.float64()), scalar_of(float(factor)))
    return pc.trunc(product).cast(pa.int64())


def _to_date(moment: Datum) -> Datum:
    if pt.is_integer(moment.type):
        return moment.cast(pa.int32()).cast(pa.date32())
    return moment.cast(pa.date32())


_UNITS_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_WIDE_PARTS = frozenset({"epoch", "nanosecond"})
_TRUNCATED_TO = (
    "microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter",
    "year",
)  # fmt: skip
_DATE_PARTS: dict[str, Callable[..., Datum]] = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "day": pc.day,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
    "millisecond": _milliseconds,
    "microsecond": _microseconds,
    "nanosecond": _nanoseconds,
    "epoch": _epoch,
    "isoyear": pc.iso_year,
    "week": pc.iso_week,
    "doy": pc.day_of_year,
    "dow": lambda moment: pc.day_of_week(moment, week_start=7),
    "isodow": lambda moment: pc.day_of_week(moment, count_from_zero=False),
}
_FLOATS = (Kind.FLOAT,)
_TEXT = (Kind.TEXT,)
_TEXT_AND_PATTERN = (Kind.TEXT, Kind.CONSTANT_TEXT)
_IF_NULL = Function(pc.coalesce, (Kind.ANY, Kind.ANY), aligned=True, fills_in=True)
_COALESCE = replace(_IF_NULL, variadic=True, optional=1)
_REGEXP = Function(_regexp, (Kind.TEXT, Kind.CONSTANT_TEXT, Kind.CONSTANT_TEXT), optional=1)
_LENGTH = Function(_length, (Kind.TEXT_OR_BINARY,))
_POWER = Function(pc.power_checked, (Kind.NUMBER, Kind.NUMBER), aligned=True)
_JSON_AND_MEMBER = (Kind.JSON, Kind.MEMBER)
_JSON_AND_PATH = (Kind.JSON, Kind.CONSTANT_TEXT)
_LIST_LENGTH = Function(_list_length, (Kind.LIST,))
_GEOMETRIES = (Kind.GEOMETRY, Kind.GEOMETRY)

FUNCTIONS: dict[str, Function] = {
    "lower": Function(pc.utf8_lower, _TEXT),
    "upper": Function(pc.utf8_upper, _TEXT),
    "reverse": Function(pc.utf8_reverse, _TEXT),
    "length": _LENGTH,
    "char_length": _LENGTH,
    "character_length": _LENGTH,
    "octet_length": Function(_octets, (Kind.TEXT_OR_BINARY,)),
    "btrim": Function(_trimmer(pc.utf8_trim), _TEXT_AND_PATTERN, optional=1),
    "trim": Function(_trimmer(pc.utf8_trim), _TEXT),
    "ltrim": Function(_trimmer(pc.utf8_ltrim), _TEXT_AND_PATTERN, optional=1),
    "rtrim": Function(_trimmer(pc.utf8_rtrim), _TEXT_AND_PATTERN, optional=1),
    "starts_with": Function(_starts_with, _TEXT_AND_PATTERN),
    "ends_with": Function(_ends_with, _TEXT_AND_PATTERN),
    "contains": Function(_contains, _TEXT_AND_PATTERN),
    "contains_tokens": Function(_contains_tokens, _TEXT_AND_PATTERN),
    "regexp_like": _REGEXP,
    "replace": Function(_replace, (Kind.TEXT, Kind.CONSTANT_TEXT, Kind.CONSTANT_TEXT)),
    "||": Function(_concat, (Kind.TEXT, Kind.TEXT), aligned=True),
    "concat": Function(_concat_all, _TEXT, variadic=True, aligned=True),
    "abs": Function(pc.abs_checked, (Kind.NUMBER,)),
    "signum": Function(pc.sign, _FLOATS),
    "floor": Function(pc.floor, _FLOATS),
    "ceil": Function(pc.ceil, _FLOATS),
    "round": Function(_round, _FLOATS),
    "trunc": Function(pc.trunc, _FLOATS),
    "sqrt": Function(pc.sqrt, _FLOATS),
    "exp": Function(pc.exp, _FLOATS),
    "ln": Function(pc.ln, _FLOATS),
    "log2": Function(pc.log2, _FLOATS),
    "log10": Function(pc.log10, _FLOATS),
    "power": _POWER,
    "pow": _POWER,
    "isnan": Function(pc.is_nan, _FLOATS),
    "coalesce": _COALESCE,
    "ifnull": _IF_NULL,
    "nvl": _IF_NULL,
    "nullif": Function(_null_if, (Kind.ANY, Kind.ANY), aligned=True),
    "array_length": _LIST_LENGTH,
    "cardinality": _LIST_LENGTH,
    "date_part": Function(_date_part, (Kind.CONSTANT_TEXT, Kind.DATE)),
    "date_trunc": Function(_date_trunc, (Kind.CONSTANT_TEXT, Kind.DATE)),
    "to_timestamp": _to_timestamp("ns", "s"),
    "to_timestamp_seconds": _to_timestamp("s", "s"),
    "to_timestamp_millis": _to_timestamp("ms", "ms"),
    "to_timestamp_micros": _to_timestamp("us", "us"),
    "to_timestamp_nanos": _to_timestamp("ns", "ns"),
    "to_date": Function(_to_date, (Kind.DAY,)),
    "now": Function(_now, ()),
    "current_date": Function(_today, ()),
    "array_has": Function(lists.has, (Kind.ITEMS, Kind.ANY)),
    "array_has_any": Function(lists.has_any, (Kind.ITEMS, Kind.ITEMS)),
    "array_has_all": Function(lists.has_all, (Kind.ITEMS, Kind.ITEMS)),
    "array_element": Function(lists.item, (Kind.ITEMS, Kind.INTEGER)),
    "array_position": Function(lists.position, (Kind.ITEMS, Kind.ANY)),
    "array_empty": Function(lists.is_empty, (Kind.ITEMS,)),
    "json_get_int": Function(json_values.get_int, _JSON_AND_MEMBER),
    "json_get_float": Function(json_values.get_float, _JSON_AND_MEMBER),
    "json_get_bool": Function(json_values.get_bool, _JSON_AND_MEMBER),
    "json_get_string": Function(json_values.get_string, _JSON_AND_MEMBER),
    "json_get": Function(json_selection.get, _JSON_AND_MEMBER),
    "json_extract": Function(json_selection.extract, _JSON_AND_PATH),
    "json_exists": Function(json_selection.exists, _JSON_AND_PATH),
    "json_array_length": Function(json_selection.array_length, _JSON_AND_PATH),
    "json_array_contains": Function(json_selection.array_contains, (*_JSON_AND_PATH, Kind.PLAIN)),
    "make_array": Function(lists.list_of, (Kind.ANY,), optional=1, variadic=True, aligned=True),
    "st_point": Function(make_point, (Kind.FLOAT, Kind.FLOAT)),
    "st_makebox2d": Function(make_box, _GEOMETRIES),
    "st_distance": Function(distance, _GEOMETRIES),
    **{name: Function(apply, (Kind.TEXT_OR_BINARY,)) for name, apply in CONSTRUCTORS.items()},
    **{name: Function(apply, _GEOMETRIES[:1]) for name, apply in MEASURES.items()},
    **{name: Function(apply, _GEOMETRIES) for name, apply in RELATIONS.items()},
}

ALIASES = {
    "array_contains": "array_has",
    "list_contains": "array_has",
    "list_has": "array_has",
    "arrays_overlap": "array_has_any",
    "list_has_any": "array_has_any",
    "list_has_all": "array_has_all",
    "array_extract": "array_element",
    "list_element": "array_element",
    "list_extract": "array_element",
    "array_indexof": "array_position",
    "list_position": "array_position",
    "list_indexof": "array_position",
    "empty": "array_empty",
    "list_empty": "array_empty",
    "make_list": "make_array",
    "datetrunc": "date_trunc",
    "datepart": "date_part",
    "st_geometryfromtext": "st_geomfromtext",
    "st_wkttosql": "st_geomfromtext",
    "st_wkbtosql": "st_geomfromwkb",
    "st_makepoint": "st_point",
    "current_timestamp": "now",
    "today": "current_date",
}
"""Further names of functions."""
