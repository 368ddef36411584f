"""The functions that get a value from JSON documents: `json_get_int(j, 'x')` and others.

    document              json_get_int     json_get_string     json_get_bool
    {"x": 5}              5                '5'                 an error
    {"x": "2.5"}          3                '2.5'               an error
    {"x": true}           1                'true'              true
    {"x": null}, {}, 7    null             null                null

The second argument is the name of a member, or the number of an item of an array, not a path. A
value that cannot be converted is an error.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pilum.errors import FilterError
from pilum.expressions.json_selection import document_buffers
from pilum.expressions.types import scalar_of
from pilum.kernels import json_values

__all__ = ["get_bool", "get_float", "get_int", "get_string"]

Datum = Any
"""The input and output of Arrow kernels: pa.Array or pa.Scalar."""

_NONE, _BOOL, _INT, _FLOAT, _TEXT, _NESTED = range(6)
"""What is at a path, as the kernel numbers it."""
_KINDS = ("null", "a boolean", "an integer", "a number with a fraction", "text", "a container")
_INTEGER = r"^-?[0-9]{1,18}$"
_NUMBER = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"
_INTEGERS = 2.0**63
_MAX_STEP = 10**9
"""More items than an array can have."""
_ITEM = re.compile(r"[0-9]{1,9}")


class _Values:
    """The values of one member of some documents."""

    def __init__(self, name: str, documents: pa.Array, step: str | int) -> None:
        self._name = name
        ends, content, bitmap = document_buffers(documents)
        self.kinds, self.bits, text_ends, texts = json_values(ends, content, bitmap, [step])
        buffers = [self._mask(_TEXT), pa.py_buffer(text_ends), pa.py_buffer(texts)]
        self.texts = pa.Array.from_buffers(pa.large_string(), len(documents), buffers)

    def require(self, *kinds: int) -> None:
        """Raise an error if a value is of another kind."""
        wrong = ~np.isin(self.kinds, (_NONE, *kinds))
        if wrong.any():
            raise self.refusal(_KINDS[int(self.kinds[wrong.argmax()])])

    def refusal(self, what: str) -> FilterError:
        return FilterError(f"{self._name}: a value is {what}; test its type with another condition")

    def of(self, kind: int, values: NDArray[Any], arrow: pa.DataType) -> pa.Array:
        """Return an array with the values of one kind; others are null."""
        return pa.Array.from_buffers(
            arrow, len(values), [self._mask(kind), pa.py_buffer(np.ascontiguousarray(values))]
        )

    def _mask(self, *kinds: int) -> pa.Buffer:
        return pa.py_buffer(np.packbits(np.isin(self.kinds, kinds), bitorder="little"))

    @property
    def bools(self) -> pa.Array:
        bits = np.packbits(self.bits != 0, bitorder="little")
        buffers = [self._mask(_BOOL), pa.py_buffer(bits)]
        return pa.Array.from_buffers(pa.bool_(), len(self.kinds), buffers)

    @property
    def integers(self) -> pa.Array:
        return self.of(_INT, self.bits.view(np.int64), pa.int64())

    @property
    def floats(self) -> pa.Array:
        return self.of(_FLOAT, self.bits.view(np.float64), pa.float64())

    def rounded(self, numbers: pa.Array) -> pa.Array:
        """Return floats as integers, half away from zero."""
        whole = pc.round(numbers, round_mode="half_towards_infinity")
        is_held = pc.and_(pc.less(whole, _INTEGERS), pc.greater_equal(whole, -_INTEGERS))
        if not pc.all(is_held, min_count=0).as_py():
            raise self.refusal("a number that int64 cannot hold")
        return whole.cast(pa.int64())

    def numbers(self) -> pa.Array:
        """Return texts as floats."""
        is_number = pc.match_substring_regex(self.texts, _NUMBER)
        if not pc.all(is_number, min_count=0).as_py():
            raise self.refusal("text that is not a number")
        return self.texts.cast(pa.float64())


def _get_int(values: _Values) -> pa.Array:
    values.require(_BOOL, _INT, _FLOAT, _TEXT)
    is_plain = pc.match_substring_regex(values.texts, _INTEGER)
    plain = pc.if_else(is_plain, values.texts, scalar_of(None, pa.large_string()))
    others = pc.coalesce(values.floats, values.numbers())
    return pc.coalesce(
        values.integers, values.bools.cast(pa.int64()), plain.cast(pa.int64()),
        values.rounded(others),
    )  # fmt: skip


def _get_float(values: _Values) -> pa.Array:
    values.require(_BOOL, _INT, _FLOAT, _TEXT)
    integers = pc.cast(values.integers, pa.float64(), safe=False)
    bools = values.bools.cast(pa.float64())
    return pc.coalesce(values.floats, integers, bools, values.numbers())


def _get_bool(values: _Values) -> pa.Array:
    values.require(_BOOL, _TEXT)
    lower = pc.utf8_lower(values.texts)
    is_true = pc.equal(lower, scalar_of("true", lower.type))
    is_bool = pc.or_(is_true, pc.equal(lower, scalar_of("false", lower.type)))
    if not pc.all(is_bool, min_count=0).as_py():
        raise values.refusal("text other than 'true' and 'false'")
    return pc.coalesce(values.bools, is_true)


def _get_string(values: _Values) -> pa.Array:
    values.require(_BOOL, _INT, _TEXT)
    others = [one.cast(pa.string()) for one in (values.integers, values.bools)]
    return pc.coalesce(values.texts.cast(pa.string()), *others)


def _getter(name: str, get: Any) -> Any:
    def apply(documents: Datum, member: pa.Scalar) -> Datum:
        if isinstance(documents, pa.Scalar):
            return apply(pa.repeat(documents, 1), member)[0]
        step = member.as_py()
        if step is None or (isinstance(step, int) and not 0 <= step <= _MAX_STEP):
            documents, step = pa.nulls(len(documents), pa.large_binary()), 0
        if isinstance(step, int):
            return get(_Values(name, documents, step))
        found = get(_Values(name, documents, step))
        if not _ITEM.fullmatch(step):
            return found
        return pc.coalesce(found, get(_Values(name, documents, int(step))))

    return apply


get_int = _getter("json_get_int", _get_int)
get_float = _getter("json_get_float", _get_float)
get_bool = _getter("json_get_bool", _get_bool)
get_string = _getter("json_get_string", _get_string)
