"""Whether a page gets a dictionary, and what it then consists of.

A sample tells most columns apart without counting their values. A dictionary is kept only if it is
clearly smaller, indices and all, than the values in their own best encoding. Source:
docs/format/encodings-2.1.md, "What the writer chooses".
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.blocks import FixedBlock, StringBlock, ValueBlock, block_of
from pilum.encodings.base import Compressive
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.general import General
from pilum.encodings.compressive.variable import Variable
from pilum.encodings.fixed import fixed_encoding
from pilum.encodings.structural.mini_block import PageDictionary, join_strings
from pilum.format.version import FileVersion

__all__ = ["with_dictionary"]

_MIN_VALUES = 100
_MAX_VALUES = 100_000
_SAMPLE = 4_096
_MAX_RATIO = 0.8
_LZ4 = pa.Codec("lz4_raw")


def with_dictionary(
    leaf: pa.Array, block: ValueBlock, version: FileVersion
) -> tuple[FixedBlock, PageDictionary] | None:
    """Indices and dictionary, if they are clearly smaller than the values.

    Args:
        leaf: The values.
        block: The same as the encodings see them.
        version: Of the file.
    """
    raw_bytes = _raw_bytes(leaf, block, version)
    if raw_bytes is None or len(leaf) < _MIN_VALUES:
        return None
    if isinstance(block, FixedBlock) and block.bits == 64:
        # Two floats may be equal and yet have different bits.
        leaf = leaf.view(pa.int64())
    if not _repeats(leaf):
        return None
    encoded = pc.dictionary_encode(leaf)
    dictionary = _dictionary_of(block_of(encoded.dictionary), version)
    indices = block_of(encoded.indices)
    assert isinstance(indices, FixedBlock)
    total = len(dictionary.data) + fixed_encoding(indices)[0]
    if dictionary.num_values > _most(leaf) or total > _MAX_RATIO * raw_bytes:
        return None
    return indices, dictionary


def _raw_bytes(leaf: pa.Array, block: ValueBlock, version: FileVersion) -> int | None:
    """Bytes without a dictionary; None for values that cannot have one."""
    if isinstance(block, StringBlock):
        return block.data_bytes + block.offsets.nbytes
    if not isinstance(block, FixedBlock):
        return None
    if block.bits == 64 and version.has_wide_dictionaries:
        return fixed_encoding(block)[0]
    return len(block.data) if pt.is_decimal128(leaf.type) else None


def _most(leaf: pa.Array) -> int:
    return min(len(leaf) // 2, _MAX_VALUES)


def _repeats(leaf: pa.Array) -> bool:
    """Whether a sample promises few enough distinct values."""
    if len(leaf) <= _SAMPLE:
        return True
    step = len(leaf) // 32
    sample = pa.concat_arrays([leaf.slice(i * step, _SAMPLE // 32) for i in range(32)])
    ratio = len(sample.unique()) / len(sample)
    return ratio < 0.98 and ratio * len(leaf) <= _most(leaf)


def _dictionary_of(values: ValueBlock, version: FileVersion) -> PageDictionary:
    if isinstance(values, StringBlock):
        encoding: Compressive = Variable(values.offset_bits)
        data = join_strings(values)
    else:
        assert isinstance(values, FixedBlock)
        encoding, data = Flat(values.bits), values.data.tobytes()
    if version.has_compressed_dictionaries:
        packed = len(data).to_bytes(4, "little") + _LZ4.compress(data, asbytes=True)
        if len(packed) < len(data):
            encoding, data = General("lz4", encoding), packed
    return PageDictionary(encoding, data, values.num_values)
