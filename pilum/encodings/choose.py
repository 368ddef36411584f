"""Which layout and which encoding a page gets: by size, in this order.

1. No value, or only nulls: a constant page; since 2.2 also where all values are the same.
2. A dictionary where values repeat enough (strings, 128-bit values, since 2.2 64-bit ones).
3. Values below 256 bytes: mini-block; else full-zip.
4. Integers and floats: the smallest of flat, run-length and bit-packing.
5. Text: FSST where it makes the page smaller; very long strings: zstd, each on its own.

Any choice can be read by any reader. Source: docs/format/encodings-2.1.md, "What the writer
chooses".
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum import kernels
from pilum.blocks import BitBlock, FixedBlock, ListBlock, StringBlock, ValueBlock, block_of
from pilum.encodings.base import Compressive
from pilum.encodings.compressive.fixed_size_list import FixedSizeList
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.fsst import Fsst
from pilum.encodings.compressive.general import General
from pilum.encodings.compressive.variable import Variable
from pilum.encodings.dictionary import with_dictionary
from pilum.encodings.fixed import fixed_encoding
from pilum.encodings.page import EncodedPage
from pilum.encodings.structural.constant import Scalar, encode_constant
from pilum.encodings.structural.full_zip import encode_full_zip
from pilum.encodings.structural.mini_block import encode_mini_block
from pilum.format.version import FileVersion
from pilum.levels import Levels, ravel

__all__ = ["encode_pages"]

_WIDE_BYTES = 256
_LEVEL_BUDGET_BITS = 131_072
_MAX_LEVELS = 65_535
_CHUNK_VALUES = 4_096

_SCALAR_SAMPLE = 64

_FSST_MIN_BYTES = 32_768
_FSST_MIN_LENGTH = 5
_FSST_MAX_RATIO = 0.9
_ZSTD_MIN_LENGTH = 32_768
_ZSTD_LEVEL = 0


def encode_pages(chain: pa.Array, version: FileVersion) -> list[EncodedPage]:
    """Encodes some rows of a leaf column.

    Args:
        chain: See `pilum.levels`; at least one row.
        version: Of the file.

    Returns:
        One page; more if there are too many lists without items for the levels of one.

    Raises:
        UnsupportedTypeError: For a leaf type without a form in the file format.
    """
    levels, leaf = ravel(chain)
    num_rows = len(chain)
    if _is_without_values(leaf):
        return [encode_constant(levels, num_rows, version)]
    too_many_levels = not _levels_fit_chunks(levels)
    if too_many_levels and num_rows > 1:
        return [page for piece in _split(chain, levels) for page in encode_pages(piece, version)]
    block = block_of(leaf)
    if version.has_scalar_pages and (scalar := _scalar_of(leaf, block, levels)):
        return [encode_constant(levels, num_rows, version, scalar)]
    if too_many_levels:
        return [_full_zip(block, levels, num_rows)]
    return [_encode(leaf, block, levels, num_rows, version)]


def _is_without_values(leaf: pa.Array) -> bool:
    return bool(leaf.null_count == len(leaf)) or (
        pt.is_struct(leaf.type) and leaf.type.num_fields == 0
    )


def _scalar_of(leaf: pa.Array, block: ValueBlock, levels: Levels) -> Scalar | None:
    """The value of all valid slots, if they are the same."""
    if isinstance(block, ListBlock):
        return None
    mask = None
    if levels.max_def:
        mask = pa.array(levels.def_[levels.def_ <= levels.max_visible] == 0)
    # A few values tell most pages apart, so that only likely ones are compared as a whole.
    for count in (_SCALAR_SAMPLE, len(leaf)):
        values = leaf.slice(0, count)
        valid = values if mask is None else values.filter(mask.slice(0, count))
        if len(valid) and not _all_same(valid):
            return None
    if len(valid) == 0:
        return None
    one = block_of(valid.slice(0, 1))
    if isinstance(one, BitBlock):
        return Scalar((bytes([valid[0].as_py()]),))
    if isinstance(one, FixedBlock):
        return Scalar((one.data.tobytes(),))
    assert isinstance(one, StringBlock)
    first, last = int(one.offsets[0]), int(one.offsets[1])
    offsets = (one.offsets - first).astype(one.offsets.dtype)
    return Scalar((offsets.tobytes(), one.data[first:last].tobytes()))


def _all_same(values: pa.Array) -> bool:
    """Whether all values are the same, bit for bit."""
    block = block_of(values)
    if isinstance(block, FixedBlock):
        rows = block.data.reshape(block.num_values, -1)
        return bool((rows == rows[0]).all())
    return bool(pc.all(pc.equal(values, values[0])).as_py())


def _level_budget(levels: Levels) -> int:
    """Entries whose levels fit a chunk, whatever the values are."""
    bits = levels.max_rep.bit_length() + levels.max_def.bit_length()
    return min(_LEVEL_BUDGET_BITS // max(bits, 1), _MAX_LEVELS)


def _levels_fit_chunks(levels: Levels) -> bool:
    """Whether every chunk has room for its levels, wherever it is cut.

    A chunk takes the entries up to its last value, so long stretches of lists without items, which
    own no value, may be more than it can hold.
    """
    if levels.num_entries <= _level_budget(levels) or levels.num_entries == levels.num_visible:
        return True
    bounds = np.flatnonzero(levels.def_ <= levels.max_visible)
    bounds[-1] = levels.num_entries - 1
    bounds = np.concatenate(([-1], bounds))
    values = min(_CHUNK_VALUES, levels.num_visible)
    return int((bounds[values:] - bounds[:-values]).max()) <= _level_budget(levels)


def _split(chain: pa.Array, levels: Levels) -> list[pa.Array]:
    """Cuts rows so that the entries of each piece keep to the budget where they can."""
    starts = levels.row_starts
    cuts = [0]
    while cuts[-1] < len(chain):
        reach = starts[cuts[-1]] + _level_budget(levels)
        end = int(np.searchsorted(starts, reach, side="right")) - 1
        behind = len(chain) if levels.num_entries <= reach else end
        cuts.append(min(max(behind, cuts[-1] + 1), len(chain)))
    return [chain.slice(a, b - a) for a, b in pairwise(cuts)]


def _encode(
    leaf: pa.Array, block: ValueBlock, levels: Levels, num_rows: int, version: FileVersion
) -> EncodedPage:
    made = with_dictionary(leaf, block, version)
    if made is not None:
        indices, dictionary = made
        encoding = fixed_encoding(indices)[1]
        return encode_mini_block(indices, encoding, levels, num_rows, version, dictionary)
    if block.max_value_bytes >= _WIDE_BYTES:
        return _full_zip(block, levels, num_rows)
    if isinstance(block, StringBlock):
        return encode_mini_block(*_text_encoding(block), levels, num_rows, version)
    return encode_mini_block(block, _plain_encoding(block), levels, num_rows, version)


def _full_zip(block: ValueBlock, levels: Levels, num_rows: int) -> EncodedPage:
    if not isinstance(block, StringBlock):
        encoding = Flat(8) if isinstance(block, BitBlock) else _list_or_flat(block)
        return encode_full_zip(block, encoding, levels, num_rows)
    longest = block.max_value_bytes
    if longest > _ZSTD_MIN_LENGTH and block.data_bytes >= _ZSTD_MIN_LENGTH:
        offsets, data = kernels.compress_zstd(block.offsets, block.data, _ZSTD_LEVEL)
        if len(data) < block.data_bytes:
            packed = _with_offsets(block, offsets, data)
            zstd = General("zstd", Variable(block.offset_bits), _ZSTD_LEVEL)
            return encode_full_zip(packed, zstd, levels, num_rows)
    stored, text = _text_encoding(block)
    return encode_full_zip(stored, text, levels, num_rows)


def _plain_encoding(block: FixedBlock | BitBlock | ListBlock) -> Compressive:
    if isinstance(block, BitBlock):
        return Flat(1)
    return fixed_encoding(block)[1] if isinstance(block, FixedBlock) else _list_or_flat(block)


def _list_or_flat(block: FixedBlock | ListBlock) -> Flat | FixedSizeList:
    if isinstance(block, FixedBlock):
        return Flat(block.bits)
    encoding: Flat | FixedSizeList = Flat(block.item_bits)
    for items, mask in reversed(list(zip(block.dimensions, block.validity, strict=True))):
        encoding = FixedSizeList(items, mask is not None, encoding)
    return encoding


def _text_encoding(block: StringBlock) -> tuple[StringBlock, Compressive]:
    """Strings as they are or as FSST codes."""
    plain = Variable(block.offset_bits)
    enough = block.is_text and block.max_value_bytes >= _FSST_MIN_LENGTH
    if not enough or block.data_bytes + block.offsets.nbytes < _FSST_MIN_BYTES:
        return block, plain
    table, offsets, data = kernels.compress_fsst(block.offsets, block.data)
    if len(data) > _FSST_MAX_RATIO * block.data_bytes:
        return block, plain
    return _with_offsets(block, offsets, data), Fsst(table.tobytes(), plain)


def _with_offsets(
    block: StringBlock, offsets: NDArray[np.int64], data: NDArray[np.uint8]
) -> StringBlock:
    """The block with other bytes; offsets keep their width."""
    kind: np.dtype[Any] = block.offsets.dtype
    return StringBlock(offsets.astype(kind), data, block.num_values, block.is_text)
