"""Which layout and which encoding a page gets: by size, in this order.

1. No value, or only nulls: a constant page.
2. A dictionary where values repeat enough (strings and 128-bit values).
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
from pilum.encodings.compressive.inline_bitpacking import InlineBitpacking
from pilum.encodings.compressive.rle import Rle
from pilum.encodings.compressive.variable import Variable
from pilum.encodings.page import EncodedPage
from pilum.encodings.structural.constant import encode_constant
from pilum.encodings.structural.full_zip import encode_full_zip
from pilum.encodings.structural.mini_block import PageDictionary, encode_mini_block, join_strings
from pilum.levels import Levels, ravel

__all__ = ["encode_pages"]

_WIDE_BYTES = 256
_LEVEL_BUDGET_BITS = 131_072
_MAX_LEVELS = 65_535
_CHUNK_VALUES = 4_096

_DICTIONARY_MIN_VALUES = 100
_DICTIONARY_MAX_VALUES = 100_000
_DICTIONARY_SAMPLE = 4_096
_DICTIONARY_MAX_RATIO = 0.8

_FSST_MIN_BYTES = 32_768
_FSST_MIN_LENGTH = 5
_FSST_MAX_RATIO = 0.9
_ZSTD_MIN_LENGTH = 32_768
_ZSTD_LEVEL = 0


def encode_pages(chain: pa.Array) -> list[EncodedPage]:
    """Encodes some rows of a leaf column.

    Args:
        chain: See `pilum.levels`; at least one row.

    Returns:
        One page; more if there are too many lists without items for the levels of one.

    Raises:
        UnsupportedTypeError: For a leaf type without a form in the file format.
    """
    levels, leaf = ravel(chain)
    num_rows = len(chain)
    if _is_without_values(leaf):
        return [encode_constant(levels, num_rows)]
    too_many_levels = not _levels_fit_chunks(levels)
    if too_many_levels and num_rows > 1:
        return [page for piece in _split(chain, levels) for page in encode_pages(piece)]
    block = block_of(leaf)
    if too_many_levels:
        return [_full_zip(block, levels, num_rows)]
    return [_encode(leaf, block, levels, num_rows)]


def _is_without_values(leaf: pa.Array) -> bool:
    return bool(leaf.null_count == len(leaf)) or (
        pt.is_struct(leaf.type) and leaf.type.num_fields == 0
    )


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


def _encode(leaf: pa.Array, block: ValueBlock, levels: Levels, num_rows: int) -> EncodedPage:
    made = _with_dictionary(leaf, block)
    if made is not None:
        indices, dictionary = made
        encoding = _fixed_encoding(indices)
        return encode_mini_block(indices, encoding, levels, num_rows, dictionary=dictionary)
    if block.max_value_bytes >= _WIDE_BYTES:
        return _full_zip(block, levels, num_rows)
    if isinstance(block, StringBlock):
        return encode_mini_block(*_text_encoding(block), levels, num_rows)
    return encode_mini_block(block, _plain_encoding(block), levels, num_rows)


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
    return _fixed_encoding(block) if isinstance(block, FixedBlock) else _list_or_flat(block)


def _list_or_flat(block: FixedBlock | ListBlock) -> Flat | FixedSizeList:
    if isinstance(block, FixedBlock):
        return Flat(block.bits)
    encoding: Flat | FixedSizeList = Flat(block.item_bits)
    for items, mask in reversed(list(zip(block.dimensions, block.validity, strict=True))):
        encoding = FixedSizeList(items, mask is not None, encoding)
    return encoding


def _fixed_encoding(block: FixedBlock) -> Compressive:
    """The smallest of flat, run-length and bit-packing."""
    if block.bits not in (8, 16, 32, 64):
        return Flat(block.bits)
    rle_bytes, packed_bytes = kernels.fixed_costs(block.data, block.bits)
    options: list[tuple[int, Compressive]] = [
        (len(block.data), Flat(block.bits)),
        (packed_bytes, InlineBitpacking(block.bits)),
        (rle_bytes, Rle(block.bits)),
    ]
    return min(options, key=lambda option: option[0])[1]


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


def _with_dictionary(leaf: pa.Array, block: ValueBlock) -> tuple[FixedBlock, PageDictionary] | None:
    """Indices and dictionary, if they are clearly smaller than the values."""
    if isinstance(block, StringBlock):
        raw_bytes = block.data_bytes + block.offsets.nbytes
    elif isinstance(block, FixedBlock) and pt.is_decimal128(leaf.type):
        raw_bytes = len(block.data)
    else:
        return None
    if len(leaf) < _DICTIONARY_MIN_VALUES or not _repeats(leaf):
        return None
    encoded = pc.dictionary_encode(leaf)
    values = block_of(encoded.dictionary)
    most = min(len(leaf) // 2, _DICTIONARY_MAX_VALUES)
    dictionary = _dictionary_of(values)
    if values.num_values > most or (
        len(dictionary.data) + 4 * len(leaf) > _DICTIONARY_MAX_RATIO * raw_bytes
    ):
        return None
    indices = block_of(encoded.indices)
    assert isinstance(indices, FixedBlock)
    return indices, dictionary


def _repeats(leaf: pa.Array) -> bool:
    """Whether a sample promises few enough distinct values."""
    step = max(len(leaf) // 32, 1)
    runs = [leaf.slice(i * step, _DICTIONARY_SAMPLE // 32) for i in range(32)]
    sample = leaf if len(leaf) <= _DICTIONARY_SAMPLE else pa.concat_arrays(runs)
    ratio = len(sample.unique()) / max(len(sample), 1)
    most = min(len(leaf) // 2, _DICTIONARY_MAX_VALUES)
    return bool(len(leaf) <= _DICTIONARY_SAMPLE or (ratio < 0.98 and ratio * len(leaf) <= most))


def _dictionary_of(values: ValueBlock) -> PageDictionary:
    if isinstance(values, StringBlock):
        encoding: Compressive = Variable(values.offset_bits)
        return PageDictionary(encoding, join_strings(values), values.num_values)
    assert isinstance(values, FixedBlock)
    return PageDictionary(Flat(values.bits), values.data.tobytes(), values.num_values)
