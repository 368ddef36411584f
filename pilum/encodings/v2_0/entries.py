"""End offsets that also encode nulls, as used by strings and lists.

    stored[i] = end of entry i                   valid
    stored[i] = end of entry i + adjustment      null

All are u64, for entries of one page, without a leading zero: entry i begins where entry i - 1
ends, even a null one. The adjustment is larger than any end (writers take the last end plus one).
Source: docs/format/encodings-2.0.md, "Adjusted offsets".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum import kernels
from pilum.encodings.v2_0.base import ArrayEncoding, Bytes, Items
from pilum.format.rows import RowRanges
from pilum.storage.base import Plan

__all__ = ["ENTRY_BITS", "Entries", "adjusted", "entries_of", "read_entries"]

ENTRY_BITS = 64


@dataclass(frozen=True, slots=True)
class Entries:
    """Some entries of a page.

    Attributes:
        offsets: int32 or int64, shape (n + 1,), into the joined spans.
        spans: int64, shape (ranges of entries, 2): where their values lie in the page.
        validity: uint8 bitmap, or None if all are valid.
        null_count: Number of nulls.
    """

    offsets: NDArray[Any]
    spans: NDArray[np.int64]
    validity: Bytes | None
    null_count: int

    @property
    def wanted(self) -> RowRanges:
        """The spans that hold values, with adjacent spans joined."""
        spans = self.spans[self.spans[:, 0] < self.spans[:, 1]]
        if len(spans) < 2:
            return RowRanges(spans)
        opens = np.append(True, spans[1:, 0] != spans[:-1, 1])
        closes = np.append(opens[1:], True)
        return RowRanges(np.column_stack((spans[opens, 0], spans[closes, 1])))

    @property
    def buffers(self) -> list[pa.Buffer | None]:
        """Validity and offsets for Arrow."""
        validity = None if self.validity is None else pa.py_buffer(self.validity)
        return [validity, pa.py_buffer(self.offsets)]


def read_entries(
    ends: ArrayEncoding, adjustment: int, items: Items, offset_bits: int
) -> Plan[Entries]:
    """Read the selected entries, and for each range the preceding end.

    Raises:
        CorruptFileError: If ends go backwards, or do not fit the offsets of Arrow.
    """
    bounds = items.rows.bounds
    with_front = bounds - np.column_stack((bounds[:, 0] > 0, np.zeros(len(bounds), dtype=bool)))
    stored = yield from ends.raw(
        Items(items.buffers, items.total, RowRanges(with_front)), ENTRY_BITS
    )
    return entries_of(stored, adjustment, bounds, offset_bits)


def entries_of(
    stored: Bytes, adjustment: int, bounds: NDArray[np.int64], offset_bits: int
) -> Entries:
    """Build entries in ranges of rows from their ends and the end preceding each range.

    Raises:
        CorruptFileError: As `read_entries`.
    """
    offsets, spans, validity, null_count = kernels.adjusted_entries(
        np.ascontiguousarray(stored), adjustment, np.ascontiguousarray(bounds), offset_bits
    )
    return Entries(offsets, spans.reshape(-1, 2), validity, null_count)


def adjusted(
    ends: NDArray[np.int64], valid: NDArray[np.bool_] | None
) -> tuple[NDArray[np.uint64], int]:
    """Return the ends as stored, and their adjustment."""
    adjustment = int(ends[-1]) + 1 if len(ends) else 0
    if valid is None:
        return ends.view(np.uint64), adjustment
    return ends.view(np.uint64) + np.uint64(adjustment) * ~valid, adjustment
