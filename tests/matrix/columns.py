"""Columns of every type of the matrix, with nulls where the pattern wants them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from interop.comparison import as_stored, retyped
from interop.strategies import Style, array_of
from matrix.axes import SETTINGS, SHAPES, Kind

from pilum.arrays import storage_type

__all__ = ["column_of", "field_of", "is_blob", "stored"]

_SHARE = {"none": 0.0, "all": 1.0}
_MOST_BYTES = 2_000_000
_BLOB = b"lance-encoding:blob"


def field_of(kind: Kind, settings: str) -> pa.Field:
    """The field of a column, with the metadata that steer writers."""
    wanted = SETTINGS[settings]
    field = pa.field(kind.name, _marked(kind.type, wanted))
    return field.with_metadata({**wanted, **dict(kind.metadata)} or None)


def _marked(kind: pa.DataType, metadata: dict[str, str]) -> pa.DataType:
    """The type with metadata at its leaves: the reference does not hand them down."""
    if not metadata:
        return kind
    if pt.is_struct(kind):
        return pa.struct([_marked_field(member, metadata) for member in kind])
    if pt.is_list(kind):
        return pa.list_(_marked_field(kind.value_field, metadata))
    if pt.is_large_list(kind):
        return pa.large_list(_marked_field(kind.value_field, metadata))
    return kind


def _marked_field(field: pa.Field, metadata: dict[str, str]) -> pa.Field:
    field = field.with_type(_marked(field.type, metadata))
    return field if pt.is_nested(field.type) else field.with_metadata(metadata)


def column_of(kind: Kind, nulls: str, shape: str, size: int, settings: str, seed: int) -> pa.Array:
    """Values of a kind, the same for the same arguments."""
    look = SHAPES[shape]
    wanted = field_of(kind, settings).type
    length = min(look.length, int((_MOST_BYTES / max(size, 1)) ** (1 / _depth(wanted))))
    style = Style(seed, _SHARE.get(nulls, 0.3), look.spread, length)
    if pt.is_null(wanted):
        return pa.nulls(size)
    return _make(wanted, nulls, size, style)


def _depth(kind: pa.DataType) -> int:
    """How often the length of values multiplies: lists in lists of strings are of depth three."""
    inner = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    below = max((_depth(inner.field(at).type) for at in range(inner.num_fields)), default=0)
    return max(below + (not pt.is_struct(inner)), 1)


def _make(kind: pa.DataType, nulls: str, size: int, style: Style) -> pa.Array:
    """The types that the strategies make, and those that Arrow derives from them."""
    if pt.is_map(kind):
        return _map(kind, nulls, size, style)
    if pt.is_dictionary(kind):
        return _dictionary(kind, nulls, size, style)
    if pt.is_list(kind) and pt.is_dictionary(kind.value_type):
        items = _dictionary(kind.value_type, nulls, 2 * size, style)
        return pa.ListArray.from_arrays(pa.array(np.arange(0, 2 * size + 1, 2), pa.int32()), items)
    if (plain := storage_type(kind)) != kind:
        return retyped(_make(plain, nulls, size, style), kind)
    if pt.is_run_end_encoded(kind):
        return pc.run_end_encode(_make(kind.value_type, nulls, size, style))
    if pt.is_union(kind):
        inner = [_make(field.type, nulls, size, style) for field in kind]
        which, where = np.arange(size) % len(inner), np.arange(size)
        ids, places = pa.array(which, pa.int8()), pa.array(where, pa.int32())
        return pa.UnionArray.from_dense(ids, places, inner, field_names=[f.name for f in kind])
    if pt.is_list_view(kind):
        lists = _make(pa.list_(kind.value_field), nulls, size, style)
        return pa.array(lists.to_pylist(), kind)
    if pt.is_struct(kind) and kind.num_fields == 0:  # no member would say how long it is
        missing = np.random.default_rng(style.seed).random(size) < _SHARE.get(nulls, 0.3)
        return pa.array([None if null else {} for null in missing], kind)
    if kind in _PLAIN:
        return _make(_PLAIN[kind], nulls, size, style).cast(kind)
    if pt.is_interval(kind):
        rows = _make(pa.int32(), nulls, size, style)
        values = [None if v is None else pa.MonthDayNano([v % 12, 1, 0]) for v in rows.to_pylist()]
        return pa.array(values, kind)
    return _nested(kind, nulls, size, style)


_PLAIN = {
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.decimal32(9, 0): pa.int8(),
    pa.decimal64(18, 0): pa.int16(),
}


def _nested(kind: pa.DataType, nulls: str, size: int, style: Style) -> pa.Array:
    """Levels that shall have no nulls are made as such, then called nullable again."""
    inner, outer = nulls != "outermost", nulls != "innermost"
    made = array_of(
        pa.field("", _nullable(kind, inner), outer or not _has_levels(kind)), size, style
    )
    return retyped(made, kind)


def _has_levels(kind: pa.DataType) -> bool:
    return bool(kind.num_fields)


def _nullable(kind: pa.DataType, leaves: bool) -> pa.DataType:
    """The type with nulls at its leaves, or at none of the levels below the first."""

    def field(inner: pa.Field) -> pa.Field:
        return pa.field(inner.name, _nullable(inner.type, leaves), leaves, inner.metadata)

    if pt.is_struct(kind):
        return pa.struct([field(member) for member in kind])
    if pt.is_fixed_size_list(kind):
        return pa.list_(field(kind.value_field), kind.list_size)
    if pt.is_list(kind):
        return pa.list_(field(kind.value_field))
    if pt.is_large_list(kind):
        return pa.large_list(field(kind.value_field))
    return kind


def _map(kind: pa.DataType, nulls: str, size: int, style: Style) -> pa.Array:
    """Lists of entries under the name of maps: keys and entries are never null."""
    value = pa.field("value", kind.item_type, nulls != "outermost")
    entry = pa.struct([pa.field("key", kind.key_type, False), value])
    lists = array_of(
        pa.field("", pa.list_(pa.field("entries", entry, False)), nulls != "innermost"), size, style
    )
    return retyped(lists, kind)


def _dictionary(kind: pa.DataType, nulls: str, size: int, style: Style) -> pa.Array:
    values = _make(kind.value_type, "none", 20, style)
    share = _SHARE.get(nulls, 0.3)
    random = np.random.default_rng(style.seed)
    mask = random.random(size) < share
    indices = pa.array(random.integers(0, 20, size), kind.index_type, mask=mask)
    return pa.DictionaryArray.from_arrays(indices, values)


def is_blob(table: pa.Table, name: str) -> bool:
    """Whether a column is stored as blobs."""
    return _BLOB in (table.schema.field(name).metadata or {})


def stored(table: pa.Table, version: str) -> pa.Table:
    """The table as it comes back, where types that only differ in memory are one on disk.

    Blobs of version 2.2 have another form, so they lose the mark of the first one.
    """
    for number, field in enumerate(table.schema):
        plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(field.type)
        if plain is not None:
            column: Any = table.column(number).cast(plain)
            table = table.set_column(number, field.with_type(plain), column)
        if version == "2.2" and is_blob(table, field.name):
            metadata = {key: value for key, value in field.metadata.items() if key != _BLOB}
            table = table.set_column(number, field.with_metadata(metadata), table.column(number))
    return as_stored(table)
