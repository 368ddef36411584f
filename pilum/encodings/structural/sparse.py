"""Sparse pages: values, and positions of nulls and lists instead of levels (version 2.3).

    chunked     buffers of a mini-block page of the leaf slots, without levels
    zipped      buffers of a full-zip page of the valid leaf slots, without levels
    constant    one value for all valid slots; no buffers
    none        every slot is null; no buffers
    then        the payloads of the structure, see `sparse_structure.py`

Source: docs/format/encodings-2.1.md, "Version 2.3".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pilum.encodings.base import (
    Children,
    Decoded,
    DictionaryBlock,
    Layer,
    Layout,
    PageRead,
    StoredPage,
    demand,
)
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.planar import full_zip, mini_block
from pilum.encodings.structural.full_zip import FullZipLayout
from pilum.encodings.structural.mini_block import MiniBlockLayout
from pilum.encodings.structural.sparse_structure import Structure, num_payloads
from pilum.errors import UnsupportedFormatError
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.rows import RowRanges
from pilum.format.version import FileVersion
from pilum.storage.base import Plan

__all__ = ["SparseLayout"]

_ALL_VALID = (pb.ALL_VALID_ITEM,)


@dataclass(frozen=True)
class SparseLayout(Layout):
    """The layout of pages whose structure is sparse.

    Attributes:
        structure: The layers, outermost first.
        num_payloads: Number of their buffers, the last ones of a page.
        inner: The layout of the values; for chunks, without their number. None if there are none.
        scalar: The value of all valid slots, if there is one.
    """

    structure: Sequence[pb.SparseStructuralLayer]
    num_payloads: int
    children: Children
    inner: MiniBlockLayout | FullZipLayout | None = None
    scalar: bytes | None = None

    @classmethod
    def from_proto(
        cls, layout: pb.PlanarLayout, version: FileVersion, children: Children
    ) -> SparseLayout:
        """Read the description."""
        demand(version.has_sparse_pages, "a sparse page, which needs version 2.3")
        structure, values = layout.structure.sparse.layers, layout.values
        made = cls(structure, num_payloads(structure), children)
        arm = values.WhichOneof("codec")
        if arm == "none":
            return made
        if arm == "constant":
            return replace(made, scalar=values.constant.scalar)
        inner: MiniBlockLayout | FullZipLayout
        if arm == "chunked":
            described = mini_block(values.chunked, _ALL_VALID)
            inner = MiniBlockLayout.from_proto(described, version, children)
        elif arm == "zipped" and values.zipped.WhichOneof("addressing") == "bits_per_offset":
            zipped = full_zip(values.zipped, _ALL_VALID)
            inner = FullZipLayout.from_proto(zipped, version, children)
        else:
            raise UnsupportedFormatError(f"a sparse page with {arm} values is not supported")
        return replace(made, inner=inner)

    def read(self, page: PageRead) -> Plan[Decoded]:
        """Read rows of a page."""
        buffers = page.stored.buffers
        first = len(buffers) - self.num_payloads
        demand(first >= 0, f"sparse page: {len(buffers)} buffers")
        payloads = yield from page.stored.fetch(*range(first, len(buffers)))
        structure = Structure.read(
            self.structure, page.stored.num_rows, iter(payloads), self.children
        )
        layers, slots = structure.project(page.rows)
        if self.scalar is not None:
            value = DictionaryBlock([np.frombuffer(self.scalar, np.uint8)], 1)
            indices = np.zeros(len(slots), np.uint8)
            return Decoded(Flat(8), [indices], len(slots), layers, value)
        if self.inner is None or len(slots) == 0:
            return Decoded(None, [], len(slots), layers)
        place = page.stored.first_row, buffers[:first]
        if isinstance(self.inner, MiniBlockLayout):
            chunks = replace(self.inner, num_items=structure.num_slots)
            found = yield from chunks.read(
                _within(page, chunks, *place, structure.num_slots, slots)
            )
            return found._replace(layers=layers)
        valid = structure.leaf.of(slots)
        if not valid.any():
            return Decoded(None, [], len(slots), layers)
        ranks, count = structure.leaf.ranks(slots[valid]), structure.leaf.count(structure.num_slots)
        found = yield from self.inner.read(_within(page, self.inner, *place, count, ranks))
        return _spread(found, valid, layers)


def _within(
    page: PageRead,
    layout: Layout,
    first_row: int,
    buffers: tuple[tuple[int, int], ...],
    num_rows: int,
    rows: NDArray[np.int64],
) -> PageRead:
    """Return a read of the values of a page."""
    stored = StoredPage(first_row, num_rows, buffers)
    return PageRead(layout, stored, RowRanges.of_rows(rows), page.source, page.column, page.number)


def _spread(found: Decoded, valid: NDArray[np.bool_], layers: list[Layer]) -> Decoded:
    """Return strings with empty ones in null slots, which have no value."""
    offsets, data = found.buffers
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(valid)))
    return found._replace(buffers=[offsets[ends], data], num_values=len(valid), layers=layers)
