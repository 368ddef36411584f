"""Build Arrow arrays from rows of packed structs.

A file stores rows with all members that the struct had when the file was written. Readers may
project some of them, under their current names and in their current order; members that were added
later are null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum import kernels
from pilum.container.segments import DataFileReader
from pilum.encodings.base import Compressive, Decoded, Layer, demand
from pilum.encodings.compressive.fixed_size_list import FixedSizeList
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.packed_struct import PackedStruct
from pilum.encodings.compressive.variable_packed_struct import VariablePackedStruct
from pilum.errors import CorruptFileError
from pilum.format.blobs import stored_members
from pilum.format.fields import DESCRIPTOR_ID, Field
from pilum.format.types import width_bits

__all__ = ["MakeValues", "members_of", "unpack"]

MakeValues = Callable[[pa.DataType, Compressive | None, list[NDArray[Any]], Layer], pa.Array]


def unpack(
    field: Field, stored: tuple[Field, ...], decoded: Decoded, layer: Layer, make: MakeValues
) -> list[pa.Array]:
    """Split rows into one array for each projected member of a struct.

    The file has the members `stored`, in its order; `layer` has the validity of the struct; `make`
    builds an array of a type from buffers.
    """
    encoding = decoded.encoding
    if encoding is None:
        return [pa.nulls(layer.length, child.arrow_type) for child in field.children]
    known = isinstance(encoding, PackedStruct | VariablePackedStruct)
    demand(known and decoded.dictionary is None, f"packed struct {field.name!r} as {encoding.arm}")
    if isinstance(encoding, PackedStruct):
        columns = _split_fixed(encoding, stored, decoded.buffers[0])
    else:
        assert isinstance(encoding, VariablePackedStruct)
        columns = _split_variable(encoding, stored, decoded.buffers)
    slots = Layer(layer.length, None, 0, None)
    arrays = []
    for child in field.children:
        if _key(child) not in columns:
            arrays.append(pa.nulls(layer.length, child.arrow_type))
            continue
        member, buffers = columns[_key(child)]
        whole = [np.ascontiguousarray(buffer).reshape(-1) for buffer in buffers]
        arrays.append(make(child.arrow_type, member, whole, slots))
    return arrays


def members_of(field: Field, file: DataFileReader) -> tuple[Field, ...]:
    """Return all members that a file stores of a struct in one column."""
    if DESCRIPTOR_ID in field.ids:
        return stored_members(field)
    stored = file.schema.find(field.id)
    if stored is None or not stored.children:
        raise CorruptFileError(
            f"packed struct {field.name!r}: the file does not list its members", file.source.path
        )
    return stored.children


def _key(field: Field) -> int | str:
    return field.name if field.id == DESCRIPTOR_ID else int(field.id)


_Columns: TypeAlias = "dict[int | str, tuple[Compressive, list[NDArray[Any]]]]"


def _split_fixed(
    encoding: PackedStruct, stored: tuple[Field, ...], data: NDArray[np.uint8]
) -> _Columns:
    """Return views of the rows, one per member."""
    _demand_members(len(encoding.bits), stored)
    rows = data.reshape(-1, sum(encoding.bits) // 8)
    parts = np.split(rows, np.cumsum(encoding.bits)[:-1] // 8, axis=1)
    return {
        _key(field): (Flat(bits), [part])
        for field, bits, part in zip(stored, encoding.bits, parts, strict=True)
    }


def _split_variable(
    encoding: VariablePackedStruct,
    stored: tuple[Field, ...],
    buffers: list[NDArray[Any]],
) -> _Columns:
    _demand_members(len(encoding.members), stored)
    for member, field in zip(encoding.members, stored, strict=True):
        _demand_width(member, field)
    plans = [member.plan() for member in encoding.members]
    split = kernels.split_rows(plans, *buffers)
    return {
        _key(field): (member, made)
        for field, member, made in zip(stored, encoding.members, split, strict=True)
    }


def _demand_members(found: int, stored: tuple[Field, ...]) -> None:
    demand(found == len(stored), f"packed struct: {found} members, the schema has {len(stored)}")


def _demand_width(member: Compressive, field: Field) -> None:
    """Check the described width of a member before null rows of that width are allocated."""
    if isinstance(member, Flat | FixedSizeList):
        same = member.bits == width_bits(field.arrow_type)
        demand(same, f"member {field.name!r} of {field.arrow_type}: {member.bits} bits")
