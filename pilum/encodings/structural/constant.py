"""Pages without values (`PageLayout.constant_layout`): every value is null, or there is none.

    no buffers    all rows are null
    2 buffers     repetition levels, definition levels: u16 each, either may be empty

Columns of only empty or null lists are stored so, too. Source: docs/format/encodings-2.1.md,
"Constant".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.encodings.base import demand
from pilum.encodings.page import (
    Decoded,
    EncodedPage,
    Layer,
    Page,
    StoredPage,
    layer_codes,
    layer_kinds,
)
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.rows import RowRanges
from pilum.levels import Levels
from pilum.storage.base import Plan

__all__ = ["ConstantPage", "encode_constant"]

_NULLABLE_ITEM = bytes([3])
_NO_LEVELS = np.empty(0, dtype=np.uint16)


@dataclass
class ConstantPage(Page):
    """A page without values."""

    stored: StoredPage
    layers: bytes

    @classmethod
    def from_proto(cls, layout: pb.ConstantLayout, stored: StoredPage) -> ConstantPage:
        """Reads the description of a page.

        Raises:
            CorruptFileError: If it contradicts file version 2.1.
        """
        newer = (
            layout.HasField("inline_value")
            or layout.HasField("rep_compression")
            or layout.HasField("def_compression")
        )
        demand(not newer, "constant page: a scalar or compressed levels, which need version 2.2")
        demand(
            len(stored.buffers) in (0, 2),
            f"constant page: expected 0 or 2 buffers, found {len(stored.buffers)}",
        )
        return cls(stored, layer_codes(layout.layers))

    def read(self, rows: RowRanges) -> Plan[Decoded]:
        """Reads rows of the page."""
        if not self.stored.buffers:
            validity = np.zeros((rows.num_rows + 7) // 8, dtype=np.uint8)
            layer = Layer(rows.num_rows, validity, rows.num_rows, None)
            return Decoded(None, [], rows.num_rows, [layer] * len(self.layers))
        rep, def_ = yield from self.stored.fetch(0, 1)
        demand(len(rep) % 2 == len(def_) % 2 == 0, "constant page: levels of odd size")
        levels = rep.view(np.uint16), def_.view(np.uint16)
        count = max(len(level) for level in levels)
        demand(all(len(level) in (0, count) for level in levels), "constant page: uneven levels")
        picked = _entries_of(levels[0], count, rows, self.stored.num_rows)
        rep16, def16 = (level[picked] if len(level) else _NO_LEVELS for level in levels)
        layers = kernels.unravel(self.layers, rep16, def16, len(picked))
        decoded = [Layer(*layer) for layer in layers]
        demand(
            decoded[-1].length == rows.num_rows,
            f"constant page, rows: expected {rows.num_rows}, found {decoded[-1].length}",
        )
        return Decoded(None, [], decoded[0].length, decoded)


def _entries_of(
    rep: NDArray[np.uint16], count: int, rows: RowRanges, num_rows: int
) -> NDArray[np.int64]:
    """Entries of some rows."""
    if len(rep) == 0:
        demand(count == num_rows, f"constant page, levels: expected {num_rows}, found {count}")
        return rows.rows()
    starts = np.flatnonzero(rep == rep.max())
    demand(
        len(starts) == num_rows, f"constant page, rows: expected {num_rows}, found {len(starts)}"
    )
    bounds = np.append(starts, count)
    return RowRanges(np.column_stack((bounds[rows.starts], bounds[rows.stops]))).rows()


def encode_constant(levels: Levels, num_rows: int) -> EncodedPage:
    """Stores rows whose values are all null, or that have none."""
    # Without levels these are structs without members, which have no form of their own.
    codes = levels.codes if levels.max_rep or levels.max_def else _NULLABLE_ITEM
    layout = pb.PageLayout(constant_layout=pb.ConstantLayout(layers=layer_kinds(codes)))
    buffers = () if codes == _NULLABLE_ITEM else (levels.rep, levels.def_)
    return EncodedPage(num_rows, layout, buffers)
