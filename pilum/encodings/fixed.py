"""Choose the encoding of fixed-width values: the smallest of flat, run-length and bit-packing.

If lz4 or zstd is requested, a sample of the values is compressed in each possible inner encoding,
including byte-stream split. Source: docs/format/encodings-2.1.md, "What the writer chooses".
"""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.blocks import BitBlock, FixedBlock, ListBlock
from pilum.encodings.base import Compressive
from pilum.encodings.candidates import Choice, smallest
from pilum.encodings.compressive.byte_stream_split import ByteStreamSplit
from pilum.encodings.compressive.fixed_size_list import FixedSizeList
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.general import General
from pilum.encodings.compressive.inline_bitpacking import InlineBitpacking
from pilum.encodings.compressive.rle import Rle
from pilum.encodings.options import EncodingOptions

__all__ = ["choose_fixed", "compressed_fixed", "list_encoding"]

_SAMPLE_VALUES = 4_096
_SAMPLES = 4
_NO_LEVELS: NDArray[np.uint16] = np.empty(0, np.uint16)


def choose_fixed(block: FixedBlock | BitBlock | ListBlock, options: EncodingOptions) -> Choice:
    """Choose the smallest encoding without general compression."""
    if isinstance(block, ListBlock):
        return smallest(block, [(list_encoding(block), len(block.data))])
    if isinstance(block, BitBlock):
        return smallest(block, [(Flat(1), (block.num_values + 7) // 8)])
    if options.compression == "none" or block.bits not in (8, 16, 32, 64):
        return smallest(block, [(Flat(block.bits), len(block.data))])
    flat, packed, runs = _ways(block.bits)
    rle_bytes, packed_bytes = kernels.fixed_costs(block.data, block.bits)
    costs = [(flat, len(block.data)), (packed, packed_bytes)]
    if _runs_allow(block, options):
        costs.append((runs, rle_bytes))
    return smallest(block, costs)


@cache
def _ways(bits: int) -> tuple[Compressive, Compressive, Compressive]:
    return Flat(bits), InlineBitpacking(bits), Rle(bits)


def _runs_allow(block: FixedBlock, options: EncodingOptions) -> bool:
    share = options.rle_threshold
    if share is None:
        return True
    return kernels.count_runs(block.data, block.bits) < share * block.num_values


def compressed_fixed(
    block: FixedBlock,
    plain: Compressive,
    scheme: Literal["lz4", "zstd"],
    options: EncodingOptions,
) -> General:
    """Choose the smallest encoding within general compression, by a sample.

    Args:
        block: The values.
        plain: The choice without it.
        scheme: "lz4" or "zstd".
        options: The other encoding options.
    """
    splits = block.bits in (32, 64) and options.bss != "off"
    inner: list[Compressive] = [ByteStreamSplit(block.bits)] if splits else []
    if not splits or options.bss == "auto":
        inner += dict.fromkeys((plain, Flat(block.bits)))
    wrapped = [General.of(scheme, encoding, options.compression_level) for encoding in inner]
    if len(wrapped) == 1:
        return wrapped[0]
    sample = _sample(block)
    return min(wrapped, key=lambda encoding: _bytes_of(sample, encoding))


def _sample(block: FixedBlock) -> FixedBlock:
    """Return some stretches of the values."""
    if block.num_values <= _SAMPLES * _SAMPLE_VALUES:
        return block
    rows = block.data.reshape(block.num_values, -1)
    starts = np.linspace(0, block.num_values - _SAMPLE_VALUES, _SAMPLES).astype(int)
    parts = np.concatenate([rows[start : start + _SAMPLE_VALUES] for start in starts])
    return FixedBlock(parts.reshape(-1), block.bits, len(parts))


def _bytes_of(block: FixedBlock, encoding: General) -> int:
    coding, compression = encoding.chunk_coding()
    writer = kernels.MiniBlockWriter(coding, large=True, compression=compression)
    _, chunks, _ = writer.encode(block.page_values(), _NO_LEVELS, _NO_LEVELS)
    return len(chunks)


def list_encoding(block: FixedBlock | ListBlock) -> Flat | FixedSizeList:
    """Return the encoding of contiguous values or items."""
    if isinstance(block, FixedBlock):
        return Flat(block.bits)
    encoding: Flat | FixedSizeList = Flat(block.item_bits)
    for items, mask in reversed(list(zip(block.dimensions, block.validity, strict=True))):
        encoding = FixedSizeList(items, mask is not None, encoding)
    return encoding
