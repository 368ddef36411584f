"""Page statistics: the null count and value bounds of each batch of a column.

    "<field id>": struct      id 4k       one row per batch, stored as a little legacy file of one
        null_count: int64     id 4k + 1   batch inside of the file
        min_value             id 4k + 2   of the type of the column
        max_value             id 4k + 3

They exist for columns of numbers, dates, decimals of 128 bits, booleans, strings and binary, at the
top level or in structs. Bounds need not be values of the column: strings are cut to 64 bytes, and a
maximum that was cut is raised. So bounds prove which batches a filter cannot match, but not what
the largest value is. Source: docs/format/legacy.md, "Statistics".

Filters use them as zone maps. Statistics describe the values that were written; filters see the
values that are read. Where the format loses nulls, the two differ, so a batch with nulls is
unknown. Where it turns empty strings into nulls, an empty minimum denotes nulls.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum import kernels
from pilum.arrays import with_quiet_nans
from pilum.container.legacy.file import LegacyFile, page_owners, read_field
from pilum.container.legacy.page_kinds import is_var_binary
from pilum.container.legacy.pages import Slots
from pilum.encodings.base import demand
from pilum.errors import CorruptFileError
from pilum.expressions.prune import Zones
from pilum.format.fields import Field, FieldId
from pilum.storage.base import run_plan

__all__ = [
    "MAX_VALUE",
    "MIN_VALUE",
    "NULL_COUNT",
    "bounds",
    "bounds_of_batches",
    "has_statistics",
    "read_zones",
    "statistics_field",
]

NULL_COUNT = "null_count"
MIN_VALUE = "min_value"
MAX_VALUE = "max_value"

_MAX_BYTES = 64
_FLOATS = (pa.float32(), pa.float64())


def has_statistics(field: Field) -> Iterator[Field]:
    """Return the fields that have statistics, among a field and all below it."""
    kind = field.arrow_type
    if field.is_struct:
        for child in field.children:
            yield from has_statistics(child)
    elif (
        pt.is_boolean(kind)
        or pt.is_integer(kind)
        or kind in _FLOATS
        or pt.is_date(kind)
        or pt.is_decimal128(kind)
        or is_var_binary(kind)
    ):
        yield field


def statistics_field(field: Field, number: int) -> Field:
    """Return the field for the statistics of the `number`-th column that has any."""
    first = 4 * number
    kind = field.logical_type
    members = (
        Field(NULL_COUNT, FieldId(first + 1), "int64", nullable=False),
        Field(MIN_VALUE, FieldId(first + 2), kind),
        Field(MAX_VALUE, FieldId(first + 3), kind),
    )
    return Field(str(field.id), FieldId(first), "struct", nullable=False, children=members)


def bounds(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return a lower and an upper bound of the values, as arrays of one value; null if unknown.

    The type is one with statistics; the array has a value unless it is var-binary.
    """
    least, most = _ends(array)
    if array.type in _FLOATS:
        return _float(least, -math.inf, -0.0), _float(most, math.inf, 0.0)
    return _cut_bounds(array, least, most) if _has_long(array) else (least, most)


def _ends(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    ends = pc.min_max(with_quiet_nans(array))
    return pa.repeat(ends["min"], 1), pa.repeat(ends["max"], 1)


def _has_long(array: pa.Array) -> bool:
    """Return whether the longest values exceed the size of a bound."""
    if not is_var_binary(array.type):
        return False
    longest = pc.max(pc.binary_length(array)).as_py()
    return longest is not None and longest > _MAX_BYTES


def bounds_of_batches(
    array: pa.Array, cuts: NDArray[np.int64]
) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return the null count, a lower bound and an upper bound of each batch.

    There are no nulls unless the array is var-binary; `cuts` has the rows at which batches begin
    and the end, int64, shape (batches + 1,).
    """
    if is_var_binary(array.type) and not _has_long(array):
        return _of_short_strings(array, cuts)
    values = _numbers(with_quiet_nans(array))
    if values is None:
        batches = [array.slice(start, end - start) for start, end in pairwise(cuts.tolist())]
        counts = [batch.null_count for batch in batches]
        least, most = zip(*map(bounds, batches), strict=True)
        return pa.array(counts, pa.int64()), pa.concat_arrays(least), pa.concat_arrays(most)
    low, high = (ends.reduceat(values, cuts[:-1]) for ends in (np.fmin, np.fmax))
    if array.type in _FLOATS:
        low = np.where(np.isnan(low), -np.inf, np.where(low == 0, -0.0, low))
        high = np.where(np.isnan(high), np.inf, np.where(high == 0, 0.0, high))
    no_nulls = pa.array(np.zeros(len(low), np.int64))
    return no_nulls, _of_numbers(low, array.type), _of_numbers(high, array.type)


def _of_short_strings(
    array: pa.Array, cuts: NDArray[np.int64]
) -> tuple[pa.Array, pa.Array, pa.Array]:
    counts = np.zeros(len(cuts) - 1, np.int64)
    validity = None
    if array.null_count:
        null = array.is_null().to_numpy(zero_copy_only=False)
        validity = np.packbits(~null, bitorder="little")
        counts = np.add.reduceat(null, cuts[:-1], dtype=np.int64)
    _, offsets, data = array.buffers()
    large = array.type in (pa.large_string(), pa.large_binary())
    ends = np.frombuffer(offsets, np.int64) if large else np.frombuffer(offsets, np.int32)
    ends = ends[array.offset : array.offset + len(array) + 1]
    ranges = np.stack([cuts[:-1], np.diff(cuts)], axis=1)
    text = np.frombuffer(data or b"", np.uint8)
    rows = kernels.text_ends(ends, text, validity, ranges).reshape(-1, 2)
    least, most = (array.take(pa.array(own, mask=own < 0)) for own in rows.T)
    return pa.array(counts), least, most


def _numbers(array: pa.Array) -> NDArray[Any] | None:
    """Return the values as numbers of the same order; None if the type has none."""
    kind = array.type
    if pt.is_boolean(kind):
        bits: NDArray[Any] = array.to_numpy(zero_copy_only=False).view(np.uint8)
        return bits
    if pt.is_date(kind):
        array = array.view(pa.int32() if pt.is_date32(kind) else pa.int64())
    if pt.is_integer(array.type) or kind in _FLOATS:
        numbers: NDArray[Any] = array.to_numpy()
        return numbers
    return None


def _of_numbers(numbers: NDArray[Any], kind: pa.DataType) -> pa.Array:
    if pt.is_boolean(kind):
        return pa.array(numbers.view(np.bool_))
    made = pa.array(numbers)
    return made.view(kind) if pt.is_date(kind) else made.cast(kind)


def _float(bound: pa.Array, unknown: float, zero: float) -> pa.Array:
    """Return a bound of floats: NaN is ignored, and the sign of zero includes the other zero."""
    value = bound[0].as_py()
    if math.isnan(value):
        value = unknown
    return pa.array([value or zero], bound.type)


def _cut_bounds(array: pa.Array, least: pa.Array, most: pa.Array) -> tuple[pa.Array, pa.Array]:
    text = pt.is_string(array.type) or pt.is_large_string(array.type)
    low, high = _cut(_bytes(least), text), _cut(_bytes(most), text)
    raised = _raised_text(high) if text else _raised(high)
    return _array(low, array.type), _array(raised, array.type)


def _bytes(value: pa.Array) -> bytes:
    found: bytes = value.cast(pa.large_binary())[0].as_py()
    return found


def _array(value: bytes | None, kind: pa.DataType) -> pa.Array:
    return pa.array([value], pa.large_binary()).cast(kind)


def _cut(value: bytes, text: bool) -> bytes:
    """Cut a value to at most 64 bytes; text is cut between characters."""
    cut = value[:_MAX_BYTES]
    return cut.decode(errors="ignore").encode() if text else cut


def _raised(value: bytes) -> bytes | None:
    """Return the next larger value of this length; None if there is none."""
    number = int.from_bytes(value, "big") + 1
    return number.to_bytes(len(value), "big") if number < 256 ** len(value) else None


def _raised_text(value: bytes) -> bytes | None:
    """Raise the last byte of a text that can be raised; None if the result is never text."""
    for index in reversed(range(len(value))):
        if value[index] < 255:
            raised = value[:index] + bytes([value[index] + 1]) + value[index + 1 :]
            if _is_text(raised):
                return raised
    return None


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def read_zones(file: LegacyFile, field: Field) -> Zones | None:
    """Return the zone map of a column; None if it has no statistics."""
    found = file.statistics_field(field.id)
    if found is None:
        return None
    try:
        return _zones(field, _read(file, found), file.metadata.batch_bounds)
    except CorruptFileError as error:
        raise error.at(f"statistics of column {field.name!r}").at(file.source.path) from None


def _read(file: LegacyFile, statistics: Field) -> pa.StructArray:
    """Read the statistics of a column, one row per batch."""
    assert file.metadata.statistics is not None
    first = min(file.metadata.statistics.message.fields, default=0)
    table = file.statistics_table(first)
    pages = run_plan(table.read(owner.id for owner in page_owners(statistics)), file.source)
    num_batches = file.metadata.num_batches
    whole = all((own.lengths == num_batches).all() for own in pages.values())
    demand(whole, f"rows: expected {num_batches}, one per batch")
    slots = Slots.of_batches(np.array([num_batches], dtype=np.int64))
    return run_plan(read_field(statistics, pages, {}, slots), file.source)


def _zones(field: Field, found: pa.StructArray, bounds: NDArray[np.int64]) -> Zones | None:
    members = {member.name: found.field(index) for index, member in enumerate(found.type)}
    least, most, counts = (members.get(name) for name in (MIN_VALUE, MAX_VALUE, NULL_COUNT))
    if least is None or most is None or counts is None:
        return None
    if least.type != field.arrow_type or most.type != least.type or counts.type != pa.int64():
        return None
    num_nulls = counts.to_numpy()
    if is_var_binary(field.arrow_type):
        return _of_strings(field.nullable, least, most, num_nulls, bounds)
    never, always = np.zeros(len(num_nulls), np.bool_), np.ones(len(num_nulls), np.bool_)
    known = Zones(
        bounds, _unless(num_nulls > 0, least), _unless(num_nulls > 0, most), never, always
    )
    if not pt.is_floating(least.type):
        return known
    return replace(known, least=_without_nan(known.least), most=_without_nan(known.most))


def _of_strings(
    nullable: bool,
    least: pa.Array,
    most: pa.Array,
    num_nulls: NDArray[np.int64],
    bounds: NDArray[np.int64],
) -> Zones:
    no_bytes = [np.asarray(pc.binary_length(ends).fill_null(0)) == 0 for ends in (least, most)]
    # An empty maximum is unknown; an empty minimum is unknown or empty, which is as low.
    return Zones(
        bounds,
        least,
        _unless(no_bytes[1], most),
        ((num_nulls > 0) | no_bytes[0]) & nullable,
        (num_nulls < np.diff(bounds)) | (not nullable),
    )


def _unless(unknown: NDArray[np.bool_], ends: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(unknown), pa.scalar(None, ends.type), ends)


def _without_nan(ends: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_nan(ends), pa.scalar(None, ends.type), ends)
