"""Decide whether a page gets a dictionary, and build it.

A sample classifies most columns without counting their values. A dictionary is kept only if it is
clearly smaller, including its indices, than the values in their own best encoding.

The keys of Arrow dictionary arrays become the values of a page with that dictionary. Such columns
always get mini-block pages (or constant pages, if all values are null), and the keys keep their
width. The format represents nulls by levels only, so nulls within a dictionary are first converted
to nulls of the column. Source: docs/format/encodings-2.1.md, "Dictionary" and "What the writer
chooses".
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum import kernels
from pilum.blocks import BitBlock, FixedBlock, StringBlock, ValueBlock, block_of, integers
from pilum.encodings.base import Candidate
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.general import General
from pilum.encodings.compressive.out_of_line_bitpacking import OutOfLineBitpacking
from pilum.encodings.compressive.variable import Variable
from pilum.encodings.options import EncodingOptions
from pilum.encodings.structural.mini_block import PageDictionary, join_strings
from pilum.encodings.values import Choice, choose_fixed
from pilum.format.version import FileVersion

__all__ = ["choose_dictionary", "dictionary_below", "dictionary_choice", "dictionary_of"]

_MIN_VALUES = 100
_MAX_VALUES = 100_000
_SAMPLE = 4_096
_STRETCHES = 32

_SMALL_SAMPLE = 512
_SURELY_REPEATED = 16_384
"""Size of the small sample. With no more distinct values than that, it has eight repeats on
average, and none in one of three thousand samples; long strings take a while to compare."""


def choose_dictionary(
    leaf: pa.Array, block: ValueBlock, version: FileVersion, options: EncodingOptions
) -> Choice | Candidate:
    """Return indices and dictionary if they are clearly smaller; else the reason."""
    if not _may_have(block, version):
        return _no("not for such values")
    if len(leaf) < _MIN_VALUES:
        return _no(f"fewer than {_MIN_VALUES} values")
    if isinstance(block, FixedBlock) and block.bits == 64:
        # Two floats may be equal and yet have different bits.
        leaf = leaf.view(pa.int64())
    most = min(len(leaf) // options.dict_divisor, _MAX_VALUES)
    if not _repeats(leaf, most):
        return _no(f"more than {most} different values by a sample")
    if isinstance(block, FixedBlock) and block.bits == 64 and len(leaf) <= _SAMPLE:
        nulls = min(leaf.null_count, 1)  # all nulls are zeros in the block
        if kernels.exceeds_distinct(block.data, most + nulls):
            return _no(f"more than {most} different values")
    found = _distinct(leaf, block, most)
    if found is None:
        return _no(f"more than {most} different values")
    values, indices = found
    dictionary = dictionary_of(values, version, options)
    choice = choose_fixed(indices, options)
    total = len(dictionary.data) + choice.size_bytes
    most_bytes = int(options.dict_size_ratio * _plain_bytes(block, options))
    if total > most_bytes:
        return Candidate("dictionary", total, f"more than {most_bytes} bytes")
    candidates = (Candidate("dictionary", total), *choice.candidates)
    return Choice(indices, choice.encoding, candidates, total, dictionary)


def _distinct(leaf: pa.Array, block: ValueBlock, most: int) -> tuple[ValueBlock, FixedBlock] | None:
    """Return the distinct values and the index of each value; None if there are over `most`."""
    if isinstance(block, StringBlock):
        # Arrow would take twice as long.
        found = kernels.distinct_strings(block.offsets, block.data, _validity(leaf), most)
        if found is None:
            return None
        numbers, firsts = found
        values = block_of(leaf.take(integers(firsts)))
        return values, FixedBlock(numbers.view(np.uint8), 32, len(numbers))
    encoded = leaf.dictionary_encode()
    if len(encoded.dictionary) > most:
        return None
    indices = block_of(encoded.indices)
    assert isinstance(indices, FixedBlock)
    return block_of(encoded.dictionary), indices


def _validity(leaf: pa.Array) -> tuple[NDArray[np.uint8], int] | None:
    if leaf.null_count == 0:
        return None
    return np.frombuffer(leaf.buffers()[0], np.uint8), leaf.offset


def _no(reason: str) -> Candidate:
    return Candidate("dictionary", None, reason)


def _may_have(block: ValueBlock, version: FileVersion) -> bool:
    """Return whether the format has dictionaries of such values."""
    if isinstance(block, FixedBlock):
        return block.bits == 128 or (block.bits == 64 and version.has_wide_dictionaries)
    return isinstance(block, StringBlock)


def _plain_bytes(block: ValueBlock, options: EncodingOptions) -> int:
    """Return the bytes of the values without a dictionary."""
    if isinstance(block, FixedBlock) and options.structural_encoding != "fullzip":
        return choose_fixed(block, options).size_bytes
    return block.raw_bytes


def _repeats(leaf: pa.Array, most: int) -> bool:
    """Return whether a sample suggests at most `most` distinct values."""
    if len(leaf) <= _SAMPLE:
        return True
    if most < _SURELY_REPEATED and _distinct_share(leaf, _SMALL_SAMPLE) == 1:
        return False
    share = _distinct_share(leaf, _SAMPLE)
    return share < 0.98 and share * len(leaf) <= most


def _distinct_share(leaf: pa.Array, count: int) -> float:
    """Return the share of distinct values in a sample of stretches from all over the values."""
    step, size = len(leaf) // _STRETCHES, count // _STRETCHES
    sample = pa.concat_arrays([leaf.slice(i * step, size) for i in range(_STRETCHES)])
    return len(sample.unique()) / len(sample)


def dictionary_of(
    values: ValueBlock, version: FileVersion, options: EncodingOptions
) -> PageDictionary:
    """Return the smallest block encoding of the values (not lists) in a file version."""
    if isinstance(values, StringBlock):
        plain = PageDictionary(
            Variable(values.offset_bits), join_strings(values), values.num_values
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
    scheme, level = options.dict_scheme, options.dict_values_compression_level
    if scheme is None or not version.has_compressed_dictionaries:
        return plain
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
