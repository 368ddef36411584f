"""Encode struct leaves as one value per row: packed structs, and descriptors of blobs.

    only whole bytes of fixed width     PackedStruct in mini-blocks; below 256 bytes a row
    strings or fixed-size lists too     VariablePackedStruct in full-zip; since file version 2.2

Members that no reader of the format could restore are rejected: nulls (only the struct itself may
be null), booleans, and nested types other than fixed-size lists of numbers. Source:
docs/format/encodings-2.1.md, "Packed structs".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum import kernels
from pilum.blocks import FixedBlock, ListBlock, StringBlock, ValueBlock, block_of, validity_mask
from pilum.encodings.base import Compressive, EncodedPage
from pilum.encodings.compressive.fsst import Fsst
from pilum.encodings.compressive.general import General
from pilum.encodings.compressive.packed_struct import PackedStruct
from pilum.encodings.compressive.variable import Variable
from pilum.encodings.compressive.variable_packed_struct import PackedMember, VariablePackedStruct
from pilum.encodings.options import EncodingOptions
from pilum.encodings.structural.blob import encode_blob_page
from pilum.encodings.structural.constant import encode_constant
from pilum.encodings.structural.full_zip import encode_full_zip, value_parts
from pilum.encodings.structural.mini_block_writer import (
    encode_mini_block,
    levels_fit_chunks,
    split_rows,
)
from pilum.encodings.values import choose_zipped_text, list_encoding
from pilum.errors import UnsupportedTypeError
from pilum.format.types import width_bits
from pilum.format.version import FileVersion
from pilum.levels import Levels, ravel

__all__ = ["check_members", "encode_places", "encode_rows"]

_WIDE_BYTES = 256
_DEFAULTS = EncodingOptions()
_Part: TypeAlias = "tuple[NDArray[np.uint8], int] | tuple[NDArray[Any], NDArray[np.uint8]]"


def check_members(kind: pa.StructType, version: FileVersion, path: str) -> None:
    """Raise UnsupportedTypeError for packed structs that a file cannot hold."""
    for member in kind:
        if pt.is_boolean(member.type) or pt.is_null(member.type) or _is_nested(member.type):
            raise UnsupportedTypeError(
                f"column {path}.{member.name!r}: a packed struct cannot store {member.type}"
            )
    if not _is_fixed(kind):
        if not version.has_variable_packed_structs:
            raise UnsupportedTypeError(
                f"column {path!r}: packed structs with strings or lists need version 2.2"
            )
    elif _row_bytes(kind) >= _WIDE_BYTES:
        raise UnsupportedTypeError(
            f"column {path!r}: a packed struct of {_row_bytes(kind)} bytes; "
            f"rows of fixed width must have less than {_WIDE_BYTES}"
        )


def _is_nested(kind: pa.DataType) -> bool:
    if pt.is_fixed_size_list(kind):
        return pt.is_boolean(kind.value_type) or _is_nested(kind.value_type)
    return bool(pt.is_nested(kind) or pt.is_dictionary(kind))


def _is_fixed(kind: pa.StructType) -> bool:
    kinds = [member.type for member in kind]
    return all(width_bits(inner) and not pt.is_fixed_size_list(inner) for inner in kinds)


def _row_bytes(kind: pa.StructType) -> int:
    return sum((width_bits(member.type) or 0) // 8 for member in kind)


def encode_rows(
    chain: pa.Array,
    num_layers: int,
    version: FileVersion,
    options: EncodingOptions = _DEFAULTS,
    as_if_null: Sequence[bool] = (),
) -> list[EncodedPage]:
    """Encode rows of a packed struct, the last of the layers of a chain (see `pilum.levels.ravel`).

    UnsupportedTypeError is raised if a member is null where the struct is not.
    """
    levels, leaf = ravel(chain, num_layers, as_if_null)
    num_rows = len(chain)
    if leaf.null_count == len(leaf):
        return [encode_constant(levels, num_rows, version)]
    alive = _alive(levels, leaf)
    blocks = [_member_block(leaf, index, alive) for index in range(leaf.type.num_fields)]
    if not _is_fixed(leaf.type):
        return [_encode_variable(blocks, alive, levels, num_rows, options)]
    if not levels_fit_chunks(levels, options.minichunk_values):
        if num_rows == 1:
            raise UnsupportedTypeError("one row has too many empty lists around a packed struct")
        said = levels.nullable_items
        return [
            page
            for piece in split_rows(chain, levels)
            for page in encode_rows(piece, num_layers, version, options, said)
        ]
    rows, encoding = _side_by_side(blocks)
    return [encode_mini_block(rows, encoding, levels, num_rows, version, None, options)]


def encode_places(
    chain: pa.Array,
    num_layers: int,
    version: FileVersion,
    options: EncodingOptions = _DEFAULTS,
    as_if_null: Sequence[bool] = (),
) -> list[EncodedPage]:
    """Encode positions and sizes of blobs, a struct that is the last of the layers of a chain."""
    levels, leaf = ravel(chain, num_layers, as_if_null)
    places = [leaf.field(index).fill_null(0).to_numpy() for index in range(2)]
    return [encode_blob_page(np.column_stack(places), levels, version, options)]


def _alive(levels: Levels, leaf: pa.Array) -> NDArray[np.bool_] | None:
    """Return which values are not below a null of any layer; None if all are."""
    if levels.max_def:
        return np.asarray(levels.def_[levels.def_ <= levels.max_visible] == 0)
    return validity_mask(leaf) if leaf.null_count else None


def _member_block(leaf: pa.Array, index: int, alive: NDArray[np.bool_] | None) -> ValueBlock:
    member = leaf.field(index)
    if member.null_count:
        valid = validity_mask(member)
        if not bool((valid if alive is None else valid | ~alive).all()):
            name = leaf.type.field(index).name
            raise UnsupportedTypeError(f"member {name!r} of a packed struct is null in some row")
    return block_of(member)


def _side_by_side(blocks: list[ValueBlock]) -> tuple[FixedBlock, PackedStruct]:
    columns = []
    for block in blocks:
        assert isinstance(block, FixedBlock)
        columns.append(block.data.reshape(block.num_values, -1))
    rows = np.concatenate(columns, axis=1)
    encoding = PackedStruct(tuple(8 * column.shape[1] for column in columns))
    return FixedBlock(rows.reshape(-1), 8 * rows.shape[1], len(rows)), encoding


def _encode_variable(
    blocks: list[ValueBlock],
    alive: NDArray[np.bool_] | None,
    levels: Levels,
    num_rows: int,
    options: EncodingOptions,
) -> EncodedPage:
    parts: list[_Part] = []
    members: list[PackedMember] = []
    for block in blocks:
        pieces, member = _member_parts(block, options)
        parts.extend(pieces)
        members.append(member)
    validity = None if alive is None else np.packbits(alive, bitorder="little")
    starts, data = kernels.join_rows(parts, blocks[0].num_values, validity)
    offsets: NDArray[Any] = starts if starts[-1] >= 1 << 31 else starts.astype(np.int32)
    rows = StringBlock(offsets, data, blocks[0].num_values, False)
    encoding: Compressive = VariablePackedStruct(tuple(members), rows.offset_bits)
    return encode_full_zip(rows, encoding, levels, num_rows)


def _member_parts(block: ValueBlock, options: EncodingOptions) -> tuple[list[_Part], PackedMember]:
    if isinstance(block, StringBlock):
        choice = choose_zipped_text(block, options)
        stored, encoding = choice.block, choice.encoding
        assert isinstance(stored, StringBlock)
        assert isinstance(encoding, Variable | Fsst | General)
        return [(stored.offsets, stored.data)], encoding
    assert isinstance(block, FixedBlock | ListBlock)
    return [*value_parts(block)], list_encoding(block)
