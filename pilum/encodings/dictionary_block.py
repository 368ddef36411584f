"""The dictionary of a page: distinct values in one block; the page stores their indices.

Fixed-width values are a plain or bit-packed block. Strings are one block:

    offset_bits  data_start  offsets[num_values + 1]  data

The first two numbers and the offsets, which start from 0, are u32 or u64. A block may be compressed
as a whole with lz4 or zstd. Source: docs/format/encodings-2.1.md, "Dictionary".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.blocks import StringBlock
from pilum.encodings.base import Compressive, demand
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.general import General
from pilum.encodings.compressive.variable import Variable
from pilum.encodings.page import DictionaryBlock

__all__ = ["PageDictionary", "join_strings", "read_dictionary"]

_MAX_DICTIONARY_VALUES = 1 << 24
_SPLIT = (Flat(1), Variable(32), Variable(64))
"""Encodings whose blocks this module splits itself."""


@dataclass(frozen=True, slots=True)
class PageDictionary:
    """An encoded dictionary: its description, its bytes, its number of values."""

    encoding: Compressive
    data: bytes
    num_values: int


def join_strings(block: StringBlock) -> bytes:
    """Serialise strings as a block: width of offsets, start of the data, offsets from 0, data."""
    kind = block.offsets.dtype
    first, last = int(block.offsets[0]), int(block.offsets[-1])
    head = np.array([block.offset_bits, kind.itemsize * (block.num_values + 3)], dtype=kind)
    return b"".join(
        (
            head.tobytes(),
            (block.offsets - first).astype(kind).tobytes(),
            block.data[first:last].tobytes(),
        )
    )


def read_dictionary(
    encoding: Compressive, data: NDArray[np.uint8], num_values: int
) -> DictionaryBlock:
    """Decode the dictionary of a page.

    Raises:
        CorruptFileError: If the bytes contradict its description.
    """
    if isinstance(encoding, General) and encoding.values in _SPLIT:
        data, encoding = kernels.decompress(encoding.scheme, data), encoding.values
    if isinstance(encoding, Variable):
        return DictionaryBlock(list(_split_strings(encoding, data, num_values)), num_values)
    if encoding == Flat(1):
        whole = len(data) == (num_values + 7) // 8
        demand(whole, f"dictionary: {num_values} bits in {len(data)} bytes")
        return DictionaryBlock([data], num_values)
    # Zero-width packing has no bytes that would bound the number of values that a file claims.
    bounded = num_values <= _MAX_DICTIONARY_VALUES
    demand(bounded, f"dictionary: {num_values} values in {len(data)} bytes")
    return DictionaryBlock([kernels.decode_block(encoding.block(), data, num_values)], num_values)


def _split_strings(
    encoding: Variable, data: NDArray[np.uint8], num_values: int
) -> tuple[NDArray[np.int32] | NDArray[np.int64], NDArray[np.uint8]]:
    """Split a block of strings: width of offsets, start of data, n + 1 offsets, data."""
    width = encoding.offset_bits // 8
    kind: np.dtype[Any] = np.dtype(np.int32 if width == 4 else np.int64)
    head = width * (num_values + 3)
    demand(len(data) >= head, f"dictionary, bytes: expected at least {head}, found {len(data)}")
    bits, start = (int(number) for number in data[: 2 * width].view(kind))
    demand(bits == encoding.offset_bits, f"dictionary offsets: {bits} bits")
    demand(start == head, f"dictionary data at {start}, expected {head}")
    # Whether buffers are aligned depends on the writer.
    offsets = np.require(data[2 * width : head].view(kind), requirements="A")
    ascending = offsets[0] == 0 and bool((np.diff(offsets) >= 0).all())
    demand(ascending and offsets[-1] <= len(data) - head, "dictionary offsets out of order")
    return offsets, data[head:]
