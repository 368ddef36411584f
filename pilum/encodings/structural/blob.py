"""Pages of blobs whose payloads lie elsewhere in the file (`PageLayout.blob_layout`).

The payloads are written before the page, each at a multiple of 64 bytes. The page is a
mini-block page within this one, whose values are 16 bytes (`PackedStruct[64, 64]`):

    u64 position    absolute, in this file        u64 size

Its own layers are all valid; this page has the layers of the column. An entry without a payload
has size 0, and its position holds its levels:

    null blob                   position = def << 16 | rep
    valid and empty             position 0, size 0

Source: docs/format/blobs.md, "Blob pages".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.blocks import FixedBlock
from pilum.encodings.base import (
    Children,
    Decoded,
    EncodedPage,
    Layer,
    Layout,
    PageRead,
    demand,
    layer_codes,
    layer_kinds,
)
from pilum.encodings.compressive.packed_struct import PackedStruct
from pilum.encodings.options import EncodingOptions
from pilum.encodings.structural.mini_block import MiniBlockLayout
from pilum.encodings.structural.mini_block_writer import encode_mini_block
from pilum.errors import UnsupportedFormatError
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.version import FileVersion
from pilum.levels import Levels
from pilum.storage.base import Plan

__all__ = ["BlobLayout", "encode_blob_page"]

_PLACES = PackedStruct((64, 64))
_DEFAULTS = EncodingOptions()
_NO_LEVELS = np.empty(0, dtype=np.uint16)


@dataclass(frozen=True)
class BlobLayout(Layout):
    """The layout of pages of positions and sizes of blobs."""

    inner: MiniBlockLayout
    layers: bytes

    @classmethod
    def from_proto(
        cls, layout: pb.BlobLayout, version: FileVersion, children: Children
    ) -> BlobLayout:
        """Read the description."""
        layers = layer_codes(layout.layers)
        if any(code in (2, 4, 5, 6) for code in layers):
            raise UnsupportedFormatError("blobs within lists")
        arm = layout.inner_layout.WhichOneof("layout")
        demand(arm == "mini_block_layout", f"blob page: descriptors in {arm}")
        inner = MiniBlockLayout.from_proto(layout.inner_layout.mini_block_layout, version, children)
        demand(inner.values == _PLACES, f"blob page: descriptors as {inner.values.arm}")
        demand(inner.layers == b"\1", f"blob page: layers {list(inner.layers)} of descriptors")
        return cls(inner, layers)

    def read(self, page: PageRead) -> Plan[Decoded]:
        """Read positions and sizes."""
        decoded = yield from self.inner.read(page.with_layout(self.inner))
        demand(decoded.dictionary is None, "blob page: descriptors in a dictionary")
        places = decoded.buffers[0].view("<u8").reshape(-1, 2)
        levels = np.where(places[:, 1] == 0, places[:, 0], 0)
        demand(int(levels.max(initial=0)) < 1 << 32, "blob page: levels of more than 32 bits")
        demand(not bool((levels & 0xFFFF).any()), "blob page: repetition without lists")
        def_ = (levels >> 16).astype(np.uint16)
        used = def_ if bool(def_.any()) else _NO_LEVELS
        layers = kernels.unravel(self.layers, _NO_LEVELS, used, len(places))
        return Decoded(
            _PLACES, decoded.buffers, decoded.num_values, [Layer(*layer) for layer in layers]
        )


def encode_blob_page(
    places: NDArray[np.uint64],
    levels: Levels,
    version: FileVersion,
    options: EncodingOptions = _DEFAULTS,
) -> EncodedPage:
    """Encode a page of positions and sizes (uint64, shape (n, 2)), which has no lists."""
    places = np.ascontiguousarray(places, dtype="<u8")
    if levels.max_def:
        places = places.copy()
        is_null = levels.def_ > 0
        places[is_null, 0] = levels.def_[is_null].astype(np.uint64) << np.uint64(16)
        places[is_null, 1] = 0
    count = len(places)
    plain = Levels(b"\1", _NO_LEVELS, _NO_LEVELS, count, count, 0, 0, 0)
    block = FixedBlock(places.reshape(-1).view(np.uint8), 128, count)
    inner = encode_mini_block(block, _PLACES, plain, count, version, None, options)
    layout = pb.BlobLayout(inner_layout=inner.layout, layers=layer_kinds(levels.codes))
    return EncodedPage(count, pb.PageLayout(blob_layout=layout), inner.buffers)
