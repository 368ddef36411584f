"""Conversion of Arrow batches to another schema of the same meaning, with few copies.

    table ──scan──▶ fixed_size_list, large_string, uint64 … ──▶ list, string, decimal … ──▶ Spark
    Spark ────────▶ list, string, decimal … ──▶ fixed_size_list, large_string, uint64 … ──▶ table

Strings and lists keep their data buffers and at most get new offsets. Nothing is lost silently: a
value that the target type cannot hold raises an error that names the column.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.errors import SchemaMismatchError
from pilum.spark.names import find_name

__all__ = ["check_fits", "convert_batch", "cut", "with_missing"]

# Only widening conversions are implicit; for all others the user has to cast.
_WIDER: dict[pa.DataType, tuple[pa.DataType, ...]] = {
    pa.int8(): (pa.int16(), pa.int32(), pa.int64()),
    pa.int16(): (pa.int32(), pa.int64()),
    pa.int32(): (pa.int64(),),
    pa.float32(): (pa.float64(),),
    pa.time32("s"): (pa.time32("ms"), pa.time64("us")),
    pa.time32("ms"): (pa.time64("us"),),
}


def check_fits(
    source: pa.DataType, target: pa.DataType, where: str, *, subset: bool = False
) -> None:
    """Raise SchemaMismatchError unless a type equals, or widens to, another.

    Nullability is ignored. With `subset`, structs of the target may lack members. `where` is the
    path of the column, for the message.
    """
    if pt.is_list(source) and pt.is_list(target):
        check_fits(source.value_type, target.value_type, f"{where}[]", subset=subset)
    elif pt.is_map(source) and pt.is_map(target):
        check_fits(source.key_type, target.key_type, f"{where}.key", subset=subset)
        check_fits(source.item_type, target.item_type, f"{where}.value", subset=subset)
    elif pt.is_struct(source) and pt.is_struct(target):
        _check_members(source, target, where, subset)
    elif not (source == target or pt.is_null(source) or target in _WIDER.get(source, ())):
        raise SchemaMismatchError(
            f"column {where!r}: expected {target}, found {source}; cast the column"
        )


def _check_members(source: pa.DataType, target: pa.DataType, where: str, subset: bool) -> None:
    found, expected = {field.name for field in source}, {field.name for field in target}
    if not (expected <= found if subset else expected == found):
        raise SchemaMismatchError(
            f"column {where!r}: expected a struct of {sorted(expected)}, found {sorted(found)}"
        )
    for field in target:
        check_fits(
            source.field(field.name).type, field.type, f"{where}.{field.name}", subset=subset
        )


def convert_batch(
    batch: pa.RecordBatch, schema: pa.Schema, *, truncate: bool = False
) -> pa.RecordBatch:
    """Convert the columns of a batch to the types of a schema, by name.

    Columns may have any order, and names may differ in case, also of struct members. Missing
    members become null, as in a version from before they were added. Times finer than the target's
    unit are truncated if `truncate`, else refused.

    Raises:
        SchemaMismatchError: If a value does not fit, or a column that is not nullable contains a
            null.
    """
    columns = [
        _convert(batch.column(_alike(field.name, batch.schema)), field, field.name, truncate)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def with_missing(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Add the columns of a schema that a batch lacks, filled with nulls."""
    for field in schema:
        if field.name not in batch.schema.names:
            batch = batch.append_column(field, pa.nulls(batch.num_rows, field.type))
    return batch


def cut(batch: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Split a batch into slices of at most `max_bytes` on average; a row is never split."""
    rows = max(1, batch.num_rows * max_bytes // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _alike(name: str, of: pa.Schema | pa.StructType) -> str:
    """Return the stored spelling of a name that may differ in case; else the name itself."""
    if of.get_field_index(name) >= 0:
        return name
    return find_name(name, [field.name for field in of]) or name


def _convert(array: pa.Array, field: pa.Field, where: str, truncate: bool) -> pa.Array:
    if array.null_count and not field.nullable:
        raise SchemaMismatchError(
            f"column {where!r}: {array.null_count} nulls, but it is declared not null"
        )
    return _convert_type(array, field.type, where, truncate)


def _convert_type(array: pa.Array, target: pa.DataType, where: str, truncate: bool) -> pa.Array:
    if array.type == target:
        return array
    if pt.is_null(array.type):
        return pa.nulls(len(array), target)
    if pt.is_struct(target):
        return _convert_struct(array, target, where, truncate)
    if pt.is_list(target) or pt.is_large_list(target):
        return _convert_list(array, target, where, truncate)
    if pt.is_map(target):
        return _convert_map(array, target, where, truncate)
    try:
        return pc.cast(array, target, safe=not (truncate and pt.is_temporal(target)))
    except pa.ArrowInvalid as error:
        raise SchemaMismatchError(f"column {where!r}: {error}{_hint(array.type)}") from error


def _hint(source: pa.DataType) -> str:
    if getattr(source, "unit", None) == "ns":
        return '; Spark counts microseconds: set the option "nanoseconds" to "truncate"'
    return ""


def _convert_struct(array: pa.Array, target: pa.DataType, where: str, truncate: bool) -> pa.Array:
    valid = array.is_valid()
    children = []
    for field in target:
        child = _member(array, field)
        # Members of a null struct are ignored, even if the member is not null.
        if not field.nullable and pc.any(pc.and_(child.is_null(), valid)).as_py():
            raise SchemaMismatchError(
                f"column {where!r}: member {field.name!r} has nulls, but is declared not null"
            )
        children.append(_convert_type(child, field.type, f"{where}.{field.name}", truncate))
    mask = pc.invert(valid) if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _member(array: pa.Array, field: pa.Field) -> pa.Array:
    position = array.type.get_field_index(_alike(field.name, array.type))
    return array.field(position) if position >= 0 else pa.nulls(len(array), field.type)


def _convert_list(array: pa.Array, target: pa.DataType, where: str, truncate: bool) -> pa.Array:
    offsets, values = _unfold(array)
    items = _convert(values, target.value_field, f"{where}[]", truncate)
    mask = array.is_null() if array.null_count else None
    wide = pt.is_large_list(target)
    if not wide and len(values) >= 2**31:
        raise SchemaMismatchError(f"column {where!r}: {len(values)} items in one batch of lists")
    make = pa.LargeListArray if wide else pa.ListArray
    return make.from_arrays(
        offsets.astype(np.int64 if wide else np.int32), items, type=target, mask=mask
    )


def _convert_map(array: pa.Array, target: pa.DataType, where: str, truncate: bool) -> pa.Array:
    offsets, entries = _unfold(array)
    keys = _convert(entries.field(0), target.key_field, f"{where}.key", truncate)
    items = _convert(entries.field(1), target.item_field, f"{where}.value", truncate)
    mask = array.is_null() if array.null_count else None
    return pa.MapArray.from_arrays(offsets.astype(np.int32), keys, items, type=target, mask=mask)


def _unfold(array: pa.Array) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], pa.Array]:
    """Return offsets that begin at zero, and the items that they refer to; handles slices."""
    if pt.is_fixed_size_list(array.type):
        size = array.type.list_size
        items = array.values.slice(array.offset * size, len(array) * size)
        return np.arange(len(array) + 1, dtype=np.int64) * size, items
    offsets = np.asarray(array.offsets).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets - first, array.values.slice(first, last - first)
