"""Encode the pages of many columns of numbers together, of which each has few rows.

    values     column 0: n values    column 1: n values    …
    pages      words, chunks         words, chunks         …      each padded

Tables of thousands of columns would otherwise cost much more calls than bytes. The columns have no
nulls, and the pages are those that `encode_pages` makes of each column. From file version 2.2 on, a
page of one value has no buffers: the value is in its description.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.encodings.options import EncodingOptions
from pilum.encodings.structural.constant import (
    FEWEST_SLOTS_OF_A_SCALAR,
    Scalar,
    encode_constant,
)
from pilum.encodings.structural.mini_block_writer import encode_mini_blocks_of_each
from pilum.encodings.values import MIN_DICTIONARY_VALUES, fixed_ways
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.version import FileVersion
from pilum.levels import ALL_VALID

__all__ = ["JoinedPages", "can_join", "join_pages", "scalar_columns", "scalar_layouts"]

_DEFAULTS = EncodingOptions()
_WIDTHS = frozenset({8, 16, 32, 64})


class JoinedPages(NamedTuple):
    """The pages of some columns, which have one description.

    Attributes:
        columns: int64, shape (n,), the number of each column among those given.
        layout: The description.
        data: The buffers of the pages in turn, each padded.
        sizes: int64, shape (n, 2), the bytes of both buffers of each page, without padding.
    """

    columns: NDArray[np.int64]
    layout: pb.PageLayout
    data: NDArray[np.uint8]
    sizes: NDArray[np.int64]


def can_join(num_rows: int, version: FileVersion, options: EncodingOptions) -> bool:
    """Return whether pages of so few rows only differ in the encoding of their numbers."""
    # More rows may have a dictionary.
    few = 0 < num_rows < MIN_DICTIONARY_VALUES
    return few and version.has_mini_blocks and options == _DEFAULTS


def join_pages(
    values: NDArray[np.uint8], bits: int, num_rows: int, version: FileVersion, padding: bytes
) -> Iterator[JoinedPages]:
    """Encode columns of `num_rows` numbers of 8 to 64 bits, which lie one after the other.

    None of them has a page of one value, see `scalar_columns`. Each buffer is padded to a multiple
    of the length of `padding`, with its first byte.
    """
    assert bits in _WIDTHS
    column_bytes = num_rows * bits // 8
    runs, packed = kernels.fixed_costs_each(values, bits, column_bytes)
    choices = np.argmin((np.full_like(packed, column_bytes), packed, runs), axis=0)
    for number, encoding in enumerate(fixed_ways(bits)):
        columns = np.flatnonzero(choices == number)
        if len(columns):
            own = values.reshape(len(choices), column_bytes)[columns].reshape(-1)
            layout, data, sizes = encode_mini_blocks_of_each(
                own, bits, encoding, num_rows, version, padding
            )
            yield JoinedPages(columns, layout, data, sizes)


def scalar_columns(
    values: NDArray[np.uint8], bits: int, num_rows: int, version: FileVersion
) -> NDArray[np.bool_]:
    """Return which columns, as in `join_pages`, have a page of one value, without buffers."""
    if not version.has_scalar_pages or num_rows < FEWEST_SLOTS_OF_A_SCALAR:
        return np.zeros(len(values) * 8 // bits // num_rows, np.bool_)
    rows = values.reshape(-1, num_rows, bits // 8)
    same: NDArray[np.bool_] = (rows == rows[:, :1]).all(axis=(1, 2))
    return same


def scalar_layouts(
    values: NDArray[np.uint8], width: int, num_rows: int, version: FileVersion
) -> list[bytes]:
    """Serialise the descriptions of pages of one value each, of `width` bytes."""
    page = encode_constant(ALL_VALID, num_rows, version, Scalar((bytes(width),)))
    layout = pb.PageLayout.FromString(page.layout.SerializeToString())
    data, found = values.tobytes(), []
    for start in range(0, len(data), width):
        layout.constant_layout.inline_value = data[start : start + width]
        found.append(layout.SerializeToString())
    return found
