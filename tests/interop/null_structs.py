"""Tables of nested structs for hypothesis, each layer of which has nulls of its own, or none.

Which layers have nulls is drawn one by one: members without a null below structs that are null are
what a writer must tell readers of the members alone. Below null structs there are values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from hypothesis import strategies as st

__all__ = ["item_paths", "member_paths", "nested_tables", "pruned", "value_at"]

Path = tuple[str, ...]

_LEAVES = (
    pa.int32(),
    pa.int64(),
    pa.bool_(),
    pa.string(),
    pa.float64(),
    pa.binary(300),
    pa.list_(pa.float32(), 2),
    pa.dictionary(pa.int8(), pa.string()),
)
_WORDS = pa.array(["north", "east", "south", "west"])
_SHARES = (0.0, 0.0, 0.0, 0.2, 0.7, 1.0)
"""Of nulls, in a layer."""


def _structs(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    members = st.lists(inner, min_size=1, max_size=3)
    return members.map(lambda kinds: pa.struct(list(zip("xyz", kinds, strict=False))))


def _nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return _structs(inner) | inner.map(pa.list_) | inner.map(pa.large_list)


def _newer_nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return _nested(inner) | inner.map(lambda kind: pa.map_(pa.string(), kind))


def _struct_lists() -> st.SearchStrategy[pa.DataType]:
    """Structs of fixed-size lists of structs; the reference reads none beside other members."""
    flat = _structs(st.sampled_from(_LEAVES))
    lists = st.builds(pa.list_, flat, st.integers(1, 3))
    return st.recursive(lists, lambda inner: inner.map(lambda kind: pa.struct([("x", kind)])))


_OLD = _structs(st.recursive(st.sampled_from(_LEAVES), _nested, max_leaves=5))
_NEW = _structs(st.recursive(st.sampled_from(_LEAVES), _newer_nested, max_leaves=5))
_TYPES = st.one_of(
    st.tuples(st.just("2.1"), _OLD | _nested(_OLD)),
    st.tuples(st.just("2.2"), _NEW | _newer_nested(_NEW)),
    st.tuples(st.just("2.2"), _struct_lists().map(lambda kind: pa.struct([("x", kind)]))),
)


@st.composite
def nested_tables(draw: st.DrawFn) -> tuple[str, pa.Table]:
    """A file version, and a table with one column `c`."""
    version, kind = draw(_TYPES)
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.sampled_from([1, 2, 5, 40, 130]))
    return version, pa.table({"c": _array(kind, size, random)})


def _array(kind: pa.DataType, size: int, random: np.random.Generator) -> pa.Array:
    nulls = random.random(size) < random.choice(_SHARES)
    mask = pa.array(nulls) if nulls.any() else None
    if pt.is_struct(kind):
        members = [_array(member.type, size, random) for member in kind]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)
    if pt.is_fixed_size_list(kind):
        items = _array(kind.value_type, size * kind.list_size, random)
        return pa.FixedSizeListArray.from_arrays(items, type=kind, mask=mask)
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_map(kind):
        return _lists(kind, nulls, mask, random)
    if pt.is_dictionary(kind):
        keys = pa.array(random.integers(0, 4, size), kind.index_type, mask=nulls)
        return pa.DictionaryArray.from_arrays(keys, _WORDS)
    numbers = random.integers(0, random.choice([1, 50]), size)
    values = [number.to_bytes(300) for number in numbers.tolist()]
    if kind != pa.binary(300):
        values = pa.array(numbers).cast(kind).to_pylist()
    return pa.array(values, kind, mask=nulls)


def _lists(
    kind: pa.DataType, nulls: Any, mask: pa.Array | None, random: np.random.Generator
) -> pa.Array:
    lengths = random.integers(random.integers(0, 2), 4, len(nulls))
    offsets = pa.array(
        np.append(0, np.cumsum(lengths)), pa.int64() if pt.is_large_list(kind) else pa.int32()
    )
    count = int(lengths.sum())
    if pt.is_map(kind):
        items = _array(kind.item_type, count, random)
        keys = pa.array(range(count)).cast(pa.string())
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask)
    make = pa.LargeListArray if pt.is_large_list(kind) else pa.ListArray
    items = _array(kind.value_type, count, random)
    return make.from_arrays(offsets, items, type=kind, mask=mask)


def member_paths(field: pa.Field, above: Path = ()) -> Iterator[Path]:
    """Paths to a field and to all members of structs that no list holds."""
    path = (*above, field.name)
    yield path
    if pt.is_struct(field.type):
        for member in field.type:
            yield from member_paths(member, path)


def item_paths(field: pa.Field, above: Path = ()) -> Iterator[Path]:
    """Paths to a field and to all that it holds, but for what is in maps."""
    path = (*above, field.name)
    yield path
    kind = field.type
    if pt.is_struct(kind):
        for member in kind:
            yield from item_paths(member, path)
    elif not pt.is_map(kind) and pt.is_nested(kind) and kind not in _LEAVES:
        yield from item_paths(kind.value_field, path)


def value_at(value: Any, members: Sequence[str]) -> Any:
    """What is at the end of a path through structs."""
    for member in members:
        value = None if value is None else value[member]
    return value


def pruned(value: Any, members: Sequence[str]) -> Any:
    """The value with only what is on a path through structs and lists."""
    if value is None or not members:
        return value
    if isinstance(value, dict):
        return {members[0]: pruned(value[members[0]], members[1:])}
    return [pruned(item, members[1:]) for item in value]
