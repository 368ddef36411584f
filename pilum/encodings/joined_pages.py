"""Encode the pages of many columns of numbers or booleans together, of which each has few rows.

    values     column 0: n values    column 1: n values    …
    pages      words, chunks         words, chunks         …      each padded

Tables of thousands of columns would otherwise cost much more calls than bytes. The pages are those
that `encode_pages` makes of each column. Not joined are columns that may have a dictionary, and
columns whose values are all null, or one value and nulls. From file version 2.2 on, a page of one
value has no buffers: the value is in its description.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum import kernels
from pilum.blocks import fixed_bytes, truths, validity_mask
from pilum.encodings.base import Compressive
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.options import EncodingOptions
from pilum.encodings.repeats import repeats_each
from pilum.encodings.structural.constant import (
    FEWEST_SLOTS_OF_A_SCALAR,
    Scalar,
    encode_constant,
)
from pilum.encodings.structural.mini_block_writer import (
    FEW_LEVELS,
    NO_LEVELS,
    LevelEncoding,
    encode_mini_blocks_of_each,
    null_encodings,
)
from pilum.encodings.values import MIN_DICTIONARY_VALUES, fixed_ways, most_distinct
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.version import FileVersion
from pilum.levels import ALL_VALID

__all__ = ["EqualColumns", "JoinedPages", "can_join", "join_pages", "scalar_layouts"]

_DEFAULTS = EncodingOptions()


@dataclass(frozen=True, slots=True)
class EqualColumns:
    """Columns of one type and length.

    Attributes:
        rows: Unsigned integers of the width of the type, shape (number of columns, rows of each),
            zeros for nulls; 0 or 1 for booleans.
        bits: The width of a value, 1 for booleans.
        valid: bool, of the same shape; None if there are no nulls.
    """

    rows: NDArray[Any]
    bits: int
    valid: NDArray[np.bool_] | None

    @classmethod
    def of(cls, arrays: list[pa.Array]) -> EqualColumns:
        """Join arrays of numbers of 8 to 64 bits, or of booleans."""
        joined, shape = pa.concat_arrays(arrays), (len(arrays), len(arrays[0]))
        valid = validity_mask(joined).reshape(shape) if joined.null_count else None
        if pt.is_boolean(joined.type):
            return cls(truths(joined).view(np.uint8).reshape(shape), 1, valid)
        bits = joined.type.bit_width
        return cls(fixed_bytes(joined).view(f"u{bits // 8}").reshape(shape), bits, valid)

    def only(self, columns: NDArray[Any]) -> EqualColumns:
        """Return some of the columns."""
        valid = None if self.valid is None else self.valid[columns]
        return EqualColumns(self.rows[columns], self.bits, valid)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of columns, and of the rows of each."""
        num_columns, num_rows = self.rows.shape
        return num_columns, num_rows

    @property
    def data(self) -> NDArray[np.uint8]:
        """The values as in memory, one column after the other."""
        flat = self.rows.reshape(-1)
        return np.packbits(flat, bitorder="little") if self.bits == 1 else flat.view(np.uint8)

    def are_alike(self, version: FileVersion) -> NDArray[np.bool_]:
        """Return which columns have no value, or only one where pages may have one."""
        num_columns, num_rows = self.shape
        may_be_one = version.has_scalar_pages and num_rows >= FEWEST_SLOTS_OF_A_SCALAR
        if self.valid is None:
            if not may_be_one:
                return np.zeros(num_columns, np.bool_)
            return _all_of(self.rows == self.rows[:, :1])
        if not may_be_one:
            return _all_of(~self.valid)
        first = self.valid.argmax(axis=1)[:, None]
        equal = self.rows == np.take_along_axis(self.rows, first, axis=1)
        return _all_of(equal | ~self.valid)

    def may_have_dictionaries(self) -> NDArray[np.bool_]:
        """Return which columns may have a dictionary."""
        num_columns, num_rows = self.shape
        if self.bits != 64 or num_rows < MIN_DICTIONARY_VALUES:
            return np.zeros(num_columns, np.bool_)
        bitmap = None if self.valid is None else np.packbits(self.valid, bitorder="little")
        return repeats_each(self.data, bitmap, num_rows, most_distinct(num_rows, _DEFAULTS))

    def encodings(self) -> list[tuple[Compressive, NDArray[np.bool_]]]:
        """Return the possible encodings of the values, and which columns have each."""
        num_columns, num_rows = self.shape
        if self.bits == 1:
            return [(Flat(1), np.ones(num_columns, np.bool_))]
        column_bytes = num_rows * self.bits // 8
        runs, packed = kernels.fixed_costs_each(self.data, self.bits, column_bytes)
        choices = np.argmin((np.full_like(packed, column_bytes), packed, runs), axis=0)
        ways = enumerate(fixed_ways(self.bits))
        return [(encoding, choices == number) for number, encoding in ways]

    def levels(self) -> NDArray[np.uint16] | None:
        """Return the definition levels, of the shape of the rows; None if there are no nulls."""
        return None if self.valid is None else (~self.valid).astype(np.uint16)

    def level_encodings(
        self, version: FileVersion
    ) -> list[tuple[LevelEncoding, NDArray[np.bool_]]]:
        """Return the possible encodings of the definition levels, and which columns have each."""
        levels = self.levels()
        if levels is None:
            return [(NO_LEVELS, np.ones(len(self.rows), np.bool_))]
        has_first, first, second = null_encodings(levels, version)
        return [(first, has_first), (second, ~has_first)]


def _all_of(holds: Any) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.all(holds, axis=1)
    return found


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
    """Return whether pages of so many rows may be joined."""
    few = 0 < num_rows <= FEW_LEVELS
    return few and version.has_mini_blocks and options == _DEFAULTS


def join_pages(
    columns: EqualColumns, version: FileVersion, padding: bytes
) -> Iterator[JoinedPages]:
    """Encode columns that are not alike and have no dictionary.

    Each buffer is padded to a multiple of the length of `padding`, with its first byte.
    """
    ways = product(columns.encodings(), columns.level_encodings(version))
    for (values, has_values), (level, has_level) in ways:
        own = np.flatnonzero(has_values & has_level)
        if len(own):
            some = columns.only(own)
            layout, data, sizes = encode_mini_blocks_of_each(
                some.data, some.bits, values, some.levels(), level, some.shape, version, padding
            )
            yield JoinedPages(own, layout, data, sizes)


def scalar_layouts(columns: EqualColumns, version: FileVersion) -> list[bytes]:
    """Serialise the descriptions of pages of one value each, of columns without nulls."""
    values = columns.rows[:, 0]
    width, num_rows = values.itemsize, columns.shape[1]
    page = encode_constant(ALL_VALID, num_rows, version, Scalar((bytes(width),)))
    layout = pb.PageLayout.FromString(page.layout.SerializeToString())
    data, found = values.tobytes(), []
    for start in range(0, len(data), width):
        layout.constant_layout.inline_value = data[start : start + width]
        found.append(layout.SerializeToString())
    return found
