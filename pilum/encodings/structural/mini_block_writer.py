"""Encode mini-block pages: cut values and levels into chunks, whose layout is in `mini_block.py`.

The encoding of levels is chosen once for all levels of a page: flat, bit-packed to the width of the
highest, or (since 2.2) run-length. The levels of a page are limited, so that those of every chunk
fit. A chunk contains the entries up to its last value. Long stretches of lists without items, which
own no value, may exceed its capacity; then the rows are split into several pages. Source:
docs/format/encodings-2.1.md, "What the writer chooses".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum import kernels
from pilum.blocks import ValueBlock
from pilum.encodings.base import Compressive, EncodedPage, layer_kinds
from pilum.encodings.compressive.bitpacking import OutOfLineBitpacking
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.general import General
from pilum.encodings.compressive.rle import Rle
from pilum.encodings.options import EncodingOptions
from pilum.encodings.structural.mini_block import PageDictionary
from pilum.errors import UnsupportedTypeError
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.version import FileVersion
from pilum.levels import ALL_VALID, NULLABLE, Levels

__all__ = [
    "FEW_LEVELS",
    "LEVEL_BYTES",
    "NO_LEVELS",
    "LevelEncoding",
    "encode_mini_block",
    "encode_mini_blocks_of_each",
    "level_encodings",
    "levels_fit_chunks",
    "most_values",
    "null_encodings",
    "split_rows",
]

_MAX_SMALL_CHUNK = 32_768
_COMPRESSED_CHUNK = 32_768
"""Values that are compressed together become smaller if there are more of them."""

_MAX_HEAD = 512
"""Bytes of a chunk's header and padding, and of the growth of incompressible values."""
_DEFAULTS = EncodingOptions()
_NO_LEVELS_OF_VALUES = np.empty(0, dtype=np.uint16)


def encode_mini_block(
    block: ValueBlock,
    values: Compressive,
    levels: Levels,
    num_rows: int,
    version: FileVersion,
    dictionary: PageDictionary | None = None,
    options: EncodingOptions = _DEFAULTS,
) -> EncodedPage:
    """Cut values in stored form (compressed strings, or indices) and levels into chunks.

    UnsupportedTypeError is raised for values too wide for chunks, of which each has two.
    """
    rep, def_ = level_encodings(levels, version)
    coding, compression = values.chunk_coding()
    writer = kernels.MiniBlockWriter(
        coding,
        rep=rep.block,
        def_=def_.block,
        max_rep=levels.max_rep,
        max_visible=levels.max_visible,
        large=version.has_large_chunks,
        max_values=most_values(levels, options.minichunk_values),
        target_bytes=_target_bytes(values, levels, version, options),
        compression=compression,
    )
    try:
        words, chunks, index = writer.encode(block.page_values(), levels.rep, levels.def_)
    except ValueError as error:
        raise UnsupportedTypeError(
            f"two of the values do not fit into a mini-block chunk: {error}; use full-zip"
        ) from error
    layout = _layout(
        _Description(
            values,
            rep,
            def_,
            levels.codes,
            levels.max_rep > 0,
            block.num_values,
            version.has_large_chunks,
            dictionary.encoding if dictionary else None,
            dictionary.num_values if dictionary else 0,
        )
    )
    buffers: list[object] = [words, chunks]
    if dictionary is not None:
        buffers.append(dictionary.data)
    if levels.max_rep:
        buffers.append(index)
    return EncodedPage(num_rows, layout, tuple(buffers))


def encode_mini_blocks_of_each(
    data: NDArray[np.uint8],
    bits: int,
    values: Compressive,
    levels: NDArray[np.uint16] | None,
    level: LevelEncoding,
    shape: tuple[int, int],
    version: FileVersion,
    padding: bytes,
) -> tuple[pb.PageLayout, NDArray[np.uint8], NDArray[np.int64]]:
    """Cut columns of numbers or booleans, which lie one after the other, into pages of their own.

    Args:
        data: The values.
        bits: The width of a value.
        values: Their encoding.
        levels: The definition level of each value; None if there are no nulls.
        level: The encoding of the levels.
        shape: The number of columns, and of the values of each.
        version: The file version.
        padding: What an empty buffer is padded with; its length is the alignment.

    Returns:
        The description of all pages; their padded buffers; the sizes of both buffers of each page,
        shape (n, 2).
    """
    num_columns, num_values = shape
    coding, compression = values.chunk_coding()
    large = version.has_large_chunks
    writer = kernels.MiniBlockWriter(
        coding,
        def_=level.block,
        large=large,
        max_values=_DEFAULTS.minichunk_values,
        compression=compression,
    )
    own = _NO_LEVELS_OF_VALUES if levels is None else levels.reshape(-1)
    alignment = len(padding)
    pages, sizes = writer.encode_each(
        data, bits, num_values, num_columns, own, alignment, padding[0]
    )
    codes = (ALL_VALID if levels is None else NULLABLE).codes
    layout = _layout(
        _Description(values, NO_LEVELS, level, codes, False, num_values, large, None, 0)
    )
    return layout, pages, sizes.reshape(-1, 2)


class _Description(NamedTuple):
    values: Compressive
    rep: LevelEncoding
    def_: LevelEncoding
    codes: bytes
    has_lists: bool
    num_items: int
    large: bool
    dictionary: Compressive | None
    num_dictionary_items: int


@lru_cache(maxsize=256)
def _layout(found: _Description) -> pb.PageLayout:
    """Return the message, which is immutable because many columns share it."""
    layout = pb.MiniBlockLayout(
        rep_compression=found.rep.to_proto(),
        def_compression=found.def_.to_proto(),
        value_compression=found.values.to_proto(),
        dictionary=found.dictionary.to_proto() if found.dictionary else None,
        num_dictionary_items=found.num_dictionary_items,
        layers=layer_kinds(found.codes),
        num_buffers=found.values.num_buffers,
        repetition_index_depth=int(found.has_lists),
        num_items=found.num_items,
        has_large_chunk=found.large,
    )
    return pb.PageLayout(mini_block_layout=layout)


def _target_bytes(
    values: Compressive, levels: Levels, version: FileVersion, options: EncodingOptions
) -> int | None:
    """Return the target size of the values of a chunk in bytes; None for the default."""
    target = options.minichunk_size
    if target is None and isinstance(values, General) and _gains_by_size(values):
        target = _COMPRESSED_CHUNK
    if target is None or version.has_large_chunks:
        return target
    has_levels = levels.max_rep or levels.max_def
    room = _MAX_SMALL_CHUNK - _MAX_HEAD - (LEVEL_BYTES if has_levels else 0)
    return min(target, room)


def _gains_by_size(values: General) -> bool:
    """Return whether larger chunks become smaller; LZ4 passes over much of split streams."""
    return values.scheme == "zstd" or isinstance(values.values, Flat)


_GROUP = 1024
_RLE_HEAD_BYTES = 8
_RLE_RUN_BYTES = 3
_MAX_RUN = 255
_MAX_CHUNK_LEVELS = 65_535
_MAX_CHUNK_BYTES = 65_535
_MAX_CHUNK_RUNS = (
    _MAX_CHUNK_BYTES - _RLE_HEAD_BYTES
) // _RLE_RUN_BYTES - _MAX_CHUNK_LEVELS // _MAX_RUN
"""Number of runs, of any length, that always fit a chunk."""

FEW_LEVELS = 16_384
"""With so few levels, the runs of every chunk fit."""

_BUDGET_BITS = 131_072
_MAX_LEVELS = 65_535

LEVEL_BYTES = _BUDGET_BITS // 8
"""Upper bound of the bytes of the levels of a chunk."""


@dataclass(frozen=True, slots=True)
class LevelEncoding:
    """The encoding of repetition or definition levels; None if a page has none."""

    encoding: Compressive | None

    @property
    def block(self) -> kernels.Block | None:
        """Return the block for the kernels."""
        return None if self.encoding is None else self.encoding.block()

    def to_proto(self) -> pb.CompressiveEncoding | None:
        """Return the description."""
        return None if self.encoding is None else self.encoding.to_proto()


NO_LEVELS = LevelEncoding(None)


def level_encodings(levels: Levels, version: FileVersion) -> tuple[LevelEncoding, LevelEncoding]:
    """Return the encodings of the repetition and the definition levels of a page."""
    if not (levels.max_rep or levels.max_def):
        return NO_LEVELS, NO_LEVELS
    return (
        LevelEncoding(_encoding(levels.rep, levels.max_rep, version)),
        LevelEncoding(_encoding(levels.def_, levels.max_def, version)),
    )


def null_encodings(
    levels: NDArray[np.uint16], version: FileVersion
) -> tuple[NDArray[np.bool_], LevelEncoding, LevelEncoding]:
    """Return which of some columns get the first of two encodings of their definition levels.

    The levels are 0 or 1, shape (number of columns, at most `FEW_LEVELS`).
    """
    num_columns, count = levels.shape
    assert 0 < count <= FEW_LEVELS
    packed = LevelEncoding(_packed(count, 1))
    if not version.has_level_runs:
        return np.zeros(num_columns, np.bool_), packed, packed
    sizes, _ = kernels.fixed_costs_each(levels.reshape(-1).view(np.uint8), 16, 2 * count)
    return _RLE_HEAD_BYTES + sizes < _packed_bytes(count, 1), LevelEncoding(Rle(16)), packed


def _encoding(levels: NDArray[np.uint16], highest: int, version: FileVersion) -> Compressive | None:
    count = len(levels)
    if count == 0:
        return None
    width = highest.bit_length()
    if version.has_level_runs:
        size = _RLE_HEAD_BYTES + kernels.fixed_costs(levels.view(np.uint8), 16)[0]
        if size < _packed_bytes(count, width) and _runs_fit(levels):
            return Rle(16)
    return _packed(count, width)


def _packed(count: int, width: int) -> Compressive:
    is_small = count <= _GROUP and 128 * width >= 2 * count
    return Flat(16) if is_small else OutOfLineBitpacking(16, width)


def _packed_bytes(count: int, width: int) -> int:
    groups, rest = divmod(count, _GROUP)
    return groups * 128 * width + min(2 * rest, 128 * width)


def _runs_fit(levels: NDArray[np.uint16]) -> bool:
    """Return whether the runs of every chunk fit, wherever it is cut: their size has 16 bits."""
    starts = np.flatnonzero(levels[1:] != levels[:-1])
    many = starts[_MAX_CHUNK_RUNS:] - starts[:-_MAX_CHUNK_RUNS]
    return bool((many >= _MAX_CHUNK_LEVELS).all())


def _level_bits(levels: Levels) -> int:
    return levels.max_rep.bit_length() + levels.max_def.bit_length()


def most_values(levels: Levels, wanted: int) -> int:
    """Return the most values of a chunk, a power of two: `wanted`, unless levels limit it."""
    room = _BUDGET_BITS // max(_level_bits(levels), 1)
    return min(wanted, 1 << (room.bit_length() - 1))


def _budget(levels: Levels) -> int:
    """Return the number of entries whose levels always fit a chunk."""
    return min(_BUDGET_BITS // max(_level_bits(levels), 1), _MAX_LEVELS)


def levels_fit_chunks(levels: Levels, chunk_values: int) -> bool:
    """Return whether chunks of at most `chunk_values` have room for their levels, wherever cut."""
    budget, empties = _budget(levels), levels.num_entries - levels.num_visible
    values = min(chunk_values, levels.num_visible)
    if empties == 0 or empties + values <= budget:
        return True  # even if all entries without a value were adjacent
    return kernels.most_entries(levels.def_, levels.max_visible, values) <= budget


def split_rows(chain: pa.Array, levels: Levels) -> list[pa.Array]:
    """Split rows so that the entries of each piece keep within the budget where possible."""
    starts = levels.row_starts
    cuts = [0]
    while cuts[-1] < len(chain):
        reach = starts[cuts[-1]] + _budget(levels)
        end = int(np.searchsorted(starts, reach, side="right")) - 1
        cut = len(chain) if levels.num_entries <= reach else end
        cuts.append(min(max(cut, cuts[-1] + 1), len(chain)))
    return [chain.slice(a, b - a) for a, b in pairwise(cuts)]
