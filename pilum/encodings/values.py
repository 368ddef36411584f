"""Choose the encoding of the values of a page.

    numbers       the smallest of flat, run-length and bit-packing
    text          plain, FSST codes if these are clearly smaller, or each string compressed by zstd
    repetitions   a dictionary, if it and its indices are clearly smaller than that

If lz4 or zstd is requested for numbers, a sample of the values is compressed in each possible inner
encoding, including byte-stream split. A sample also classifies most columns as unfit for a
dictionary without counting their values (`repeats.py`). A `Choice` lists all candidates, so that
`pilum.explain` can report the reason.

The keys of Arrow dictionary arrays become the values of a page with that dictionary. Such columns
always get mini-block pages (or constant pages, if all values are null), and the keys keep their
width. The format represents nulls by levels only, so nulls within a dictionary are first converted
to nulls of the column. Source: docs/format/encodings-2.1.md, "Dictionary" and "What the writer
chooses".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum import kernels
from pilum.blocks import (
    BitBlock,
    FixedBlock,
    ListBlock,
    StringBlock,
    ValueBlock,
    block_of,
    number_array,
)
from pilum.encodings.base import Candidate, Compressive
from pilum.encodings.compressive.bitpacking import InlineBitpacking, OutOfLineBitpacking
from pilum.encodings.compressive.byte_stream_split import ByteStreamSplit
from pilum.encodings.compressive.fixed_size_list import FixedSizeList
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.fsst import Fsst
from pilum.encodings.compressive.general import General
from pilum.encodings.compressive.rle import Rle
from pilum.encodings.compressive.variable import Variable
from pilum.encodings.options import EncodingOptions
from pilum.encodings.repeats import repeats, validity_bits
from pilum.encodings.structural.mini_block import PageDictionary, join_strings
from pilum.format.version import FileVersion
from pilum.lazy import cached_property

__all__ = [
    "MIN_DICTIONARY_VALUES",
    "Choice",
    "PlainValues",
    "choose_dictionary",
    "choose_fixed",
    "choose_text",
    "choose_zipped_text",
    "compressed_decimals",
    "compressed_fixed",
    "dictionary_below",
    "dictionary_choice",
    "dictionary_of",
    "fixed_ways",
    "list_encoding",
    "most_distinct",
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
_LZ4_MAX_RATIO = 0.7
_VALUE_BITS = 128
_BY_VALUE_MAX_GROWTH = 1.25
"""Values with a sequence each are decoded several times as fast, and found without the others."""
_NO_LEVELS: NDArray[np.uint16] = np.empty(0, np.uint16)


def choose_fixed(block: FixedBlock | BitBlock | ListBlock, options: EncodingOptions) -> Choice:
    """Choose the smallest encoding without general compression."""
    if isinstance(block, ListBlock):
        return smallest(block, [(list_encoding(block), len(block.data))])
    if isinstance(block, BitBlock):
        return smallest(block, [(Flat(1), (block.num_values + 7) // 8)])
    if options.compression == "none" or block.bits not in (8, 16, 32, 64):
        return smallest(block, [(Flat(block.bits), len(block.data))])
    flat, packed, runs = fixed_ways(block.bits)
    rle_bytes, packed_bytes = kernels.fixed_costs(block.data, block.bits)
    costs = [(flat, len(block.data)), (packed, packed_bytes)]
    if _runs_allow(block, options):
        costs.append((runs, rle_bytes))
    return smallest(block, costs)


@cache
def fixed_ways(bits: int) -> tuple[Compressive, Compressive, Compressive]:
    """Return the encodings of numbers in the order in which equal sizes are preferred."""
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


def compressed_decimals(choice: Choice, options: EncodingOptions) -> General | None:
    """Return lz4 for wide values of which a sample becomes clearly smaller, as decimals do."""
    block = choice.block
    if not isinstance(block, FixedBlock) or block.bits not in (128, 256):
        return None
    if options.requested is not None or options.prefer == "speed":
        return None
    sample = _sample(block)
    encoding = General("lz4", choice.encoding)
    size = _bytes_of(sample, encoding)
    if block.bits == _VALUE_BITS:
        by_value = replace(encoding, by_value=True)
        size_by_value = _bytes_of(sample, by_value)
        if size_by_value <= _BY_VALUE_MAX_GROWTH * size:
            encoding, size = by_value, size_by_value
    return encoding if size < _LZ4_MAX_RATIO * len(sample.data) else None


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


@cache
def _plain_text(offset_bits: int) -> Variable:
    return Variable(offset_bits)


def choose_text(block: StringBlock, options: EncodingOptions) -> Choice:
    """Choose plain strings, or FSST codes if these are clearly smaller."""
    plain = _plain_text(block.offset_bits)
    candidates = [Candidate(plain, block.data_bytes)]
    if reason := _why_no_fsst(block, options):
        candidates.append(Candidate("fsst", None, reason))
        return Choice(block, plain, tuple(candidates), block.data_bytes)
    table, offsets, data = kernels.compress_fsst(block.offsets, block.data)
    coded = Fsst(table.tobytes(), plain)
    most = (1.0 if options.requested == "fsst" else _FSST_MAX_RATIO) * block.data_bytes
    if len(data) > most:
        candidates.append(Candidate(coded, len(data), f"more than {most:.0f} bytes"))
        return Choice(block, plain, tuple(candidates), block.data_bytes)
    candidates.append(Candidate(coded, len(data)))
    return Choice(_with_offsets(block, offsets, data), coded, tuple(candidates), len(data))


def _why_no_fsst(block: StringBlock, options: EncodingOptions) -> str:
    asked = options.requested
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
    plain = _plain_text(block.offset_bits)
    zstd = General("zstd", plain, level)
    if len(data) >= block.data_bytes:
        choice = choose_text(block, options)
        return choice._replace(candidates=(*choice.candidates, Candidate(zstd, len(data))))
    candidates = Candidate(plain, block.data_bytes), Candidate(zstd, len(data))
    return Choice(_with_offsets(block, offsets, data), zstd, candidates, len(data))


def _zstd_level(block: StringBlock, options: EncodingOptions) -> int | None:
    """Return the level of zstd; None if zstd is not to be tried."""
    if block.data_bytes < _ZIPPED_MIN_BYTES or options.requested in {"none", "fsst"}:
        return None
    if options.requested == "zstd":
        return options.compression_level or 0
    # Each value is a frame of its own, where lz4 is hardly faster; the reference does the same.
    long_values = block.max_value_bytes > _ZIPPED_MIN_BYTES
    return 0 if options.requested == "lz4" or long_values else None


def _with_offsets(
    block: StringBlock, offsets: NDArray[np.int64], data: NDArray[np.uint8]
) -> StringBlock:
    """Return the block with other bytes; offsets keep their width."""
    kind: np.dtype[Any] = block.offsets.dtype
    return StringBlock(offsets.astype(kind), data, block.num_values, block.is_text)


MIN_DICTIONARY_VALUES = 100
"""Fewest values of a page that may get a dictionary."""
_DICTIONARY_MAX_VALUES = 100_000
_SHORT_BITS = 16
"""Bit-packed numbers of 32 bits that need no more than this get no dictionary."""


@dataclass(frozen=True)
class PlainValues:
    """Values that may get a dictionary, and what they are without one, which is found out once."""

    block: ValueBlock
    options: EncodingOptions

    @cached_property
    def fixed(self) -> Choice:
        """The choice for values of fixed width."""
        assert not isinstance(self.block, StringBlock)
        return choose_fixed(self.block, self.options)

    @property
    def size_bytes(self) -> int:
        """Bytes of the values without a dictionary."""
        is_fixed = isinstance(self.block, FixedBlock)
        if is_fixed and self.options.structural_encoding != "fullzip":
            return self.fixed.size_bytes
        return self.block.raw_bytes


def choose_dictionary(
    leaf: pa.Array, plain: PlainValues, version: FileVersion
) -> Choice | Candidate:
    """Return indices and dictionary if they are clearly smaller; else the reason."""
    block, options = plain.block, plain.options
    if not isinstance(block, FixedBlock | StringBlock) or not _may_have(block, options):
        return _no("not for such values")
    if len(leaf) < MIN_DICTIONARY_VALUES:
        return _no(f"fewer than {MIN_DICTIONARY_VALUES} values")
    most = most_distinct(len(leaf), options)
    if not repeats(leaf, block, most):
        return _no(f"more than {most} different values by a sample")
    if _is_short(block) and 8 * plain.size_bytes <= _SHORT_BITS * len(leaf):
        return _no(f"at most {_SHORT_BITS} bits a value without one")
    found = _distinct(leaf, block, most)
    if found is None:
        return _no(f"more than {most} different values")
    values, indices = found
    dictionary = dictionary_of(values, version, options)
    choice = choose_fixed(indices, options)
    total = len(dictionary.data) + choice.size_bytes
    most_bytes = int(options.dict_size_ratio * plain.size_bytes)
    if total > most_bytes:
        return Candidate("dictionary", total, f"more than {most_bytes} bytes")
    candidates = (Candidate("dictionary", total), *choice.candidates)
    return Choice(indices, choice.encoding, candidates, total, dictionary)


def most_distinct(count: int, options: EncodingOptions) -> int:
    """Return how many distinct values a dictionary for `count` values may have."""
    return min(count // options.dict_divisor, _DICTIONARY_MAX_VALUES)


def _distinct(
    leaf: pa.Array, block: FixedBlock | StringBlock, most: int
) -> tuple[ValueBlock, FixedBlock] | None:
    """Return the distinct values and the index of each value; None if there are over `most`."""
    if isinstance(block, StringBlock):
        # Arrow would take twice as long.
        found = kernels.distinct_strings(block.offsets, block.data, validity_bits(leaf), most)
        if found is None:
            return None
        numbers, firsts = found
        values = block_of(leaf.take(number_array(firsts)))
        return values, FixedBlock(numbers.view(np.uint8), 32, len(numbers))
    width = block.bits // 8
    # All nulls are zeros in the block.
    found = kernels.distinct_words(block.data, width, most + min(leaf.null_count, 1))
    if found is None:
        return None
    numbers, firsts = found
    words = block.data.reshape(-1, width)[firsts]
    values = FixedBlock(words.reshape(-1), block.bits, len(firsts))
    return values, FixedBlock(numbers.view(np.uint8), 32, len(numbers))


def _no(reason: str) -> Candidate:
    return Candidate("dictionary", None, reason)


def _may_have(block: FixedBlock | StringBlock, options: EncodingOptions) -> bool:
    """Return whether the format has dictionaries of such values, and they are not too slow."""
    if isinstance(block, FixedBlock):
        return block.bits == 128 or (block.bits in (32, 64) and options.prefer != "speed")
    return True


def _is_short(block: FixedBlock | StringBlock) -> bool:
    return isinstance(block, FixedBlock) and block.bits == 32


def dictionary_of(
    values: ValueBlock, version: FileVersion, options: EncodingOptions
) -> PageDictionary:
    """Return the smallest block encoding of the values (not lists) in a file version."""
    if isinstance(values, StringBlock):
        plain = PageDictionary(
            _plain_text(values.offset_bits), join_strings(values), values.num_values
        )
        return _compressed(plain, version, options)
    if isinstance(values, BitBlock):
        return _compressed(_bitmap(values), version, options)
    assert isinstance(values, FixedBlock)
    plain = PageDictionary(Flat(values.bits), values.data.tobytes(), values.num_values)
    made = [plain, _compressed(plain, version, options)]
    if values.bits == 64:
        width, packed = kernels.pack_block(values.data, values.bits)
        encoding = OutOfLineBitpacking(values.bits, width)
        made.append(PageDictionary(encoding, packed.tobytes(), values.num_values))
    return min(made, key=lambda dictionary: len(dictionary.data))


def _bitmap(values: BitBlock) -> PageDictionary:
    bits = np.unpackbits(values.data, count=values.first + values.num_values, bitorder="little")
    data = np.packbits(bits[values.first :], bitorder="little").tobytes()
    return PageDictionary(Flat(1), data, values.num_values)


def _compressed(
    plain: PageDictionary, version: FileVersion, options: EncodingOptions
) -> PageDictionary:
    """Compress a block as a whole with lz4 or zstd, if that is smaller."""
    if not version.has_compressed_dictionaries or (scheme := options.dict_scheme) is None:
        return plain
    level = options.dict_values_compression_level
    packed = kernels.compress(scheme, np.frombuffer(plain.data, np.uint8), level or 0)
    if len(packed) >= len(plain.data):
        return plain
    encoding = General.of(scheme, plain.encoding, level)
    return PageDictionary(encoding, packed.tobytes(), plain.num_values)


def dictionary_choice(
    leaf: pa.DictionaryArray, version: FileVersion, options: EncodingOptions
) -> Choice:
    """Return the keys and their dictionary.

    The dictionary is kept in its order. If it has more values than there are keys, values without a
    key are left out.
    """
    keys, values = leaf.indices, leaf.dictionary
    if len(values) > len(keys):
        keys, values = _used(keys, values)
    block = block_of(keys)
    assert isinstance(block, FixedBlock)
    dictionary = dictionary_of(block_of(values), version, options)
    choice = choose_fixed(block, options)
    total = choice.size_bytes + len(dictionary.data)
    candidates = (Candidate("dictionary", total, "of the column's type"), *choice.candidates)
    return Choice(block, choice.encoding, candidates, total, dictionary)


def _used(keys: pa.Array, values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the used values, in the order of the dictionary, and the keys to these."""
    used = np.zeros(len(values), dtype=np.bool_)
    used[keys.drop_null().to_numpy()] = True
    places = pa.array(np.maximum(np.cumsum(used) - 1, 0)).cast(keys.type)
    return places.take(keys), values.filter(pa.array(used))


def dictionary_below(chain: pa.Array) -> pa.Array | None:
    """Return the dictionary of the leaf of a chain (see `pilum.levels`), if it has one."""
    while not pt.is_dictionary(chain.type):
        if chain.type.num_fields == 0:
            return None
        chain = chain.field(0) if pt.is_struct(chain.type) else chain.values
    return chain.dictionary
