"""The types of the values of calls, of arithmetic and of casts.

The type of a call is found by evaluating it over no rows, so that no table of types can be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt

from pilum.cache import Cache
from pilum.expressions.evaluate import counts_units, evaluate
from pilum.expressions.geometry.measures import CONSTRUCTORS
from pilum.expressions.geometry.relations import RELATIONS
from pilum.expressions.lists import is_list
from pilum.expressions.nodes import Arithmetic, Call, Column, Constant
from pilum.expressions.types import is_binary, is_number, is_temporal, is_text

__all__ = ["castable", "result_type"]

_TYPED_BY_ARGUMENTS = frozenset(
    {
        "array_has",
        "array_has_all",
        "array_has_any",
        "contains",
        "ends_with",
        "make_array",
        "starts_with",
        *CONSTRUCTORS,
        *RELATIONS,
    }
)
"""Functions whose type depends on the types of arguments only, unless a constant is null."""

_RESULT_TYPES = Cache(4096)
"""The types of such calls by the name and the types of arguments."""


def result_type(node: Arithmetic | Call, types: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type of the values; that of some calls is remembered."""
    key = _type_key(node, types)
    found: pa.DataType | None = None if key is None else _RESULT_TYPES.get(key)
    if found is None:
        found = _evaluated_type(node, types)
        if key is not None:
            _RESULT_TYPES.put(key, found, 1)
    return found


def _type_key(node: Arithmetic | Call, types: Sequence[pa.DataType]) -> tuple[object, ...] | None:
    """Return what determines the type of a call; None if its constants may be invalid."""
    if not isinstance(node, Call) or node.name not in _TYPED_BY_ARGUMENTS:
        return None
    for child in node.arguments:
        if isinstance(child, Constant) and not child.value.is_valid:
            return None
    return node.name, *types


def _evaluated_type(node: Arithmetic | Call, types: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type of the values, found by evaluating the node over no rows."""
    below = node.arguments if isinstance(node, Call) else (node.left, node.right)
    names = {arrow: str(index) for index, arrow in enumerate(dict.fromkeys(types))}
    batch = pa.RecordBatch.from_arrays([pa.nulls(0, arrow) for arrow in names], [*names.values()])
    places = tuple(
        child if isinstance(child, Constant) else Column((names[arrow],))
        for child, arrow in zip(below, types, strict=True)
    )
    probe = (
        Call(node.name, places) if isinstance(node, Call) else Arithmetic(node.operator, *places)
    )
    return evaluate(probe, batch).type


def castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether a cast means the same here and in the reference."""
    if pt.is_null(source) or source == target:
        return True
    if is_list(source) and is_list(target):
        return castable(source.value_type, target.value_type)
    if is_text(target):
        exact = pt.is_integer(source) or pt.is_decimal(source) or pt.is_boolean(source)
        local = pt.is_date32(source) or (pt.is_timestamp(source) and not source.tz)
        return bool(exact or local or is_text(source) or is_binary(source))
    if is_text(source):
        return not is_temporal(target) or pt.is_date(target) or pt.is_timestamp(target)
    if counts_units(source, target) or counts_units(target, source):
        return True
    if is_number(source):
        return bool(is_number(target) or (pt.is_boolean(target) and not pt.is_decimal(source)))
    if pt.is_boolean(source):
        return bool(pt.is_integer(target) or pt.is_floating(target))
    if is_binary(source):
        return is_binary(target)
    dates = (pt.is_date(source) or pt.is_timestamp(source)) and is_temporal(target)
    return bool(dates)
