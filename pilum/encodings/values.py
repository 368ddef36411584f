"""Choose the encoding of the values of a page.

numbers    the smallest of flat, run-length and bit-packing
text       plain, as FSST codes if these are clearly smaller, or each string compressed by zstd

If lz4 or zstd is requested for numbers, a sample of the values is compressed in each possible inner
encoding, including byte-stream split. A `Choice` lists all candidates, so that `pilum.explain` can
report the reason. Source: docs/format/encodings-2.1.md, "What the writer
chooses".
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.blocks import BitBlock, FixedBlock, ListBlock, StringBlock, ValueBlock
from pilum.encodings.base import Candidate, Compressive
from pilum.encodings.compressive.byte_stream_split import ByteStreamSplit
from pilum.encodings.compressive.fixed_size_list import FixedSizeList
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.fsst import Fsst
from pilum.encodings.compressive.general import General
from pilum.encodings.compressive.inline_bitpacking import InlineBitpacking
from pilum.encodings.compressive.rle import Rle
from pilum.encodings.compressive.variable import Variable
from pilum.encodings.options import EncodingOptions
from pilum.encodings.structural.mini_block import PageDictionary

__all__ = [
    "Choice",
    "choose_fixed",
    "choose_text",
    "choose_zipped_text",
    "compressed_fixed",
    "list_encoding",
    "smallest",
]


class Choice(NamedTuple):
    """The chosen encoding of the values of a page.

    Attributes:
        block: Values in stored form: strings already compressed, or indices.
        encoding: Their description.
        candidates: All candidates that were compared.
        size_bytes: The approximate size of the values.
        dictionary: The dictionary, if the values are indices.
    """

    block: ValueBlock
    encoding: Compressive
    candidates: tuple[Candidate, ...]
    size_bytes: int
    dictionary: PageDictionary | None = None


def smallest(block: ValueBlock, costs: list[tuple[Compressive, int]]) -> Choice:
    """Return the encoding that takes the fewest bytes; the first one of equal candidates."""
    encoding, size_bytes = min(costs, key=lambda cost: cost[1])
    candidates = tuple([Candidate(other, cost) for other, cost in costs])
    return Choice(block, encoding, candidates, size_bytes)


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
    """Choose the smallest encoding within general compression, `plain` or another, by a sample."""
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


_FSST_MIN_BYTES = 32_768
_FSST_MIN_LENGTH = 5
_FSST_MAX_RATIO = 0.9
_ZIPPED_MIN_BYTES = 32_768


def choose_text(block: StringBlock, options: EncodingOptions) -> Choice:
    """Choose plain strings, or FSST codes if these are clearly smaller."""
    plain = Variable(block.offset_bits)
    candidates = [Candidate(plain, block.data_bytes)]
    if reason := _why_no_fsst(block, options):
        candidates.append(Candidate("fsst", None, reason))
        return Choice(block, plain, tuple(candidates), block.data_bytes)
    table, offsets, data = kernels.compress_fsst(block.offsets, block.data)
    coded = Fsst(table.tobytes(), plain)
    most = (1.0 if options.compression == "fsst" else _FSST_MAX_RATIO) * block.data_bytes
    if len(data) > most:
        candidates.append(Candidate(coded, len(data), f"more than {most:.0f} bytes"))
        return Choice(block, plain, tuple(candidates), block.data_bytes)
    candidates.append(Candidate(coded, len(data)))
    return Choice(_with_offsets(block, offsets, data), coded, tuple(candidates), len(data))


def _why_no_fsst(block: StringBlock, options: EncodingOptions) -> str:
    asked = options.compression
    if asked == "fsst":
        return ""
    if asked is not None:
        return f"compression {asked} is asked for"
    if not block.is_text:
        return "not text"
    if block.max_value_bytes < _FSST_MIN_LENGTH:
        return f"no string of {_FSST_MIN_LENGTH} bytes"
    if block.raw_bytes < _FSST_MIN_BYTES:
        return f"less than {_FSST_MIN_BYTES} bytes"
    return ""


def choose_zipped_text(block: StringBlock, options: EncodingOptions) -> Choice:
    """Choose zstd for each string if that is requested or promising, else `choose_text`."""
    if (level := _zstd_level(block, options)) is None:
        return choose_text(block, options)
    offsets, data = kernels.compress_zstd(block.offsets, block.data, level)
    plain = Variable(block.offset_bits)
    zstd = General("zstd", plain, level)
    if len(data) >= block.data_bytes:
        choice = choose_text(block, options)
        return choice._replace(candidates=(*choice.candidates, Candidate(zstd, len(data))))
    candidates = Candidate(plain, block.data_bytes), Candidate(zstd, len(data))
    return Choice(_with_offsets(block, offsets, data), zstd, candidates, len(data))


def _zstd_level(block: StringBlock, options: EncodingOptions) -> int | None:
    """Return the level of zstd; None if zstd is not to be tried."""
    if block.data_bytes < _ZIPPED_MIN_BYTES or options.compression in {"none", "fsst"}:
        return None
    if options.compression == "zstd":
        return options.compression_level or 0
    # Each value is a frame of its own, where lz4 is hardly faster; the reference does the same.
    long_values = block.max_value_bytes > _ZIPPED_MIN_BYTES
    return 0 if options.compression == "lz4" or long_values else None


def _with_offsets(
    block: StringBlock, offsets: NDArray[np.int64], data: NDArray[np.uint8]
) -> StringBlock:
    """Return the block with other bytes; offsets keep their width."""
    kind: np.dtype[Any] = block.offsets.dtype
    return StringBlock(offsets.astype(kind), data, block.num_values, block.is_text)
