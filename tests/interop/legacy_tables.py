"""Tables that files of version 0.1 give back as they are, for hypothesis.

The format loses nulls but of strings, and turns empty strings into nulls where a field may hold
nulls: so there are no nulls here, and then every empty string that may be one is one.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from hypothesis import strategies as st
from interop.comparison import as_stored
from interop.strategies import Style, array_of, most_rows, sizes, types

__all__ = ["legacy_tables", "nullable_types", "without_empty"]

_TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def _styles() -> st.SearchStrategy[Style]:
    return st.builds(
        Style,
        st.integers(0, 2**32 - 1),
        st.just(0.0),
        st.sampled_from(["any", "small", "few", "runs", "one"]),
        st.sampled_from([1, 3, 8, 40]),
    )


@st.composite
def legacy_tables(draw: st.DrawFn, kinds: st.SearchStrategy[pa.DataType] | None = None) -> pa.Table:
    """Tables with a row at least, in one or more chunks, cut out of larger ones."""
    names = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True))
    size = min(draw(sizes()) + 1, 9000)
    drawn = [draw(_types() if kinds is None else kinds) for _ in names]
    fields = [
        pa.field(name, kind, draw(st.booleans()) or pt.is_null(kind))
        for name, kind in zip(names, drawn, strict=True)
    ]
    before, behind = draw(st.sampled_from([(0, 0), (3, 2), (8, 1)]))
    looks = [draw(_styles()) for _ in fields]
    size = min(size, *map(most_rows, drawn, looks))
    arrays = [
        without_empty(field, array_of(field, size + before + behind, style))
        for field, style in zip(fields, looks, strict=True)
    ]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields)).slice(before, size)
    cut = draw(st.integers(0, size))
    return as_stored(pa.concat_tables([table.slice(0, cut), table.slice(cut)]))


def nullable_types() -> st.SearchStrategy[pa.DataType]:
    """Types whose items and members may all be null: of others the reference reads none back."""
    return _types().map(_nullable)


def _types() -> st.SearchStrategy[pa.DataType]:
    """All but dictionaries, of which the format holds only some; they have tests of their own."""
    return types().filter(lambda kind: "dictionary<" not in str(kind))


def _nullable(kind: pa.DataType) -> pa.DataType:
    if pt.is_struct(kind):
        return pa.struct([pa.field(member.name, _nullable(member.type)) for member in kind])
    if pt.is_list(kind):
        return pa.list_(_nullable(kind.value_type))
    return pa.large_list(_nullable(kind.value_type)) if pt.is_large_list(kind) else kind


def without_empty(field: pa.Field, array: pa.Array) -> pa.Array:
    """The array with nulls for empty strings, wherever they may be null."""
    kind = field.type
    if kind in _TEXTS:
        empty = pc.equal(pc.binary_length(array), 0)
        return pc.if_else(empty, pa.scalar(None, kind), array) if field.nullable else array
    if pt.is_struct(kind):
        members = [without_empty(member, array.field(i)) for i, member in enumerate(kind)]
        return pa.StructArray.from_arrays(members, fields=list(kind))
    if pt.is_list(kind) or pt.is_large_list(kind):
        make = pa.LargeListArray if pt.is_large_list(kind) else pa.ListArray
        items = without_empty(kind.value_field, array.values)
        return make.from_arrays(array.offsets, items, type=kind)
    return array
