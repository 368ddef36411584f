"""Full-zip pages: wide values, each stored next to its levels (`PageLayout.full_zip_layout`).

    buffer 0    the entries
    buffer 1    rows + 1 byte offsets into buffer 0, of 1, 2, 4 or 8 bytes each; only for lists and
                for values of varying length

One entry:

    control word    rep << bits_def | def, in 0, 1, 2 or 4 bytes by bits_rep + bits_def
    fixed width     the value, also for nulls; nothing for lists without items
    varying length  length (4 or 8 bytes) and the stored bytes; nothing unless valid

One row is read with one request if it has fixed width, else with two: one of the index, and one of
the row. Takes from local files keep short indices (`known_pages`). Source:
docs/format/encodings-2.1.md, "Full-zip".
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.blocks import BitBlock, FixedBlock, ListBlock, StringBlock, ValueBlock
from pilum.encodings.base import (
    Children,
    Compressive,
    Decoded,
    EncodedPage,
    Layer,
    Layout,
    PageRead,
    demand,
    layer_codes,
    layer_kinds,
)
from pilum.encodings.compressive.fixed_size_list import FixedSizeList
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.fsst import Fsst
from pilum.encodings.compressive.general import General
from pilum.encodings.compressive.variable_packed_struct import VariablePackedStruct
from pilum.errors import UnsupportedTypeError
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.rows import RowRanges
from pilum.format.version import FileVersion
from pilum.lazy import cached_property
from pilum.levels import Levels
from pilum.storage.base import Fetched, Plan, Ranges

__all__ = ["FullZipLayout", "encode_full_zip", "index_ranges", "located", "value_parts"]

_DENSE_BYTES = 1024
"""With a row in so many bytes, copying all of them costs about as much as to find each in a map."""


@dataclass(frozen=True)
class FullZipLayout(Layout):
    """The layout of full-zip pages."""

    values: Compressive
    bits_rep: int
    bits_def: int
    layers: bytes
    value_bytes: int | None
    page: kernels.FullZip

    @classmethod
    def from_proto(
        cls, layout: pb.FullZipLayout, version: FileVersion, children: Children
    ) -> FullZipLayout:
        """Read the description."""
        values = children(layout.value_compression)
        if isinstance(values, VariablePackedStruct):
            values = values.with_offset_bits(layout.bits_per_offset)
        demand(
            layout.bits_rep <= 16 and layout.bits_def <= 16, "full-zip: levels wider than 16 bits"
        )
        layers = layer_codes(layout.layers)
        has_lists = any(code in (2, 4, 5, 6) for code in layers)
        demand((layout.bits_rep > 0) == has_lists, "full-zip: repetition levels without lists")
        fixed = isinstance(values, Flat | FixedSizeList)
        demand(
            fixed == (layout.WhichOneof("details") == "bits_per_value"),
            "full-zip: width and encoding of the values disagree",
        )
        value_bytes = None
        if fixed:
            demand(
                layout.bits_per_value % 8 == 0, f"full-zip: {layout.bits_per_value} bits a value"
            )
            value_bytes = layout.bits_per_value // 8
            demand(value_bytes == _stored_bytes(values), "full-zip: width of the values")
        bits = layout.bits_rep, layout.bits_def
        page = kernels.FullZip(values.plan(), layers, *bits)
        found = cls(values, *bits, layers, value_bytes, page)
        demand(found.has_index or found.stride > 0, "full-zip: entries without bytes")
        return found

    @property
    def has_index(self) -> bool:
        """Whether rows are located by an index."""
        return self.value_bytes is None or self.bits_rep > 0

    @property
    def stride(self) -> int:
        """Bytes of one row of fixed width."""
        return _control_bytes(self.bits_rep + self.bits_def) + (self.value_bytes or 0)

    def read(self, page: PageRead) -> Plan[Decoded]:
        """Read rows of a page."""
        rows = page.rows
        start, size = page.stored.buffer(0)
        if page.is_whole:
            offsets, sizes = np.array([0]), np.array([size])
        elif self.has_index:
            places, width = index_ranges(page)
            offsets, sizes = located((yield places), width, size)
        else:
            demand(int(rows.bounds[-1, 1]) * self.stride <= size, f"full-zip: {size} bytes of rows")
            if self._is_plain() and self.are_dense(rows):
                return (yield from self._pick(rows, start))
            offsets, sizes = rows.starts * self.stride, (rows.stops - rows.starts) * self.stride
        fetched = yield Ranges(offsets + start, sizes, len(sizes) == 1 and self._is_plain())
        if len(fetched) == 1 and self._is_plain():
            return self.as_they_are(fetched[0], rows.num_rows)
        return self.decoded(fetched)

    def decoded(self, entries: Fetched) -> Decoded:
        """Decode rows, whose entries may be of several pages of this form."""
        places = np.column_stack((entries.starts, entries.sizes))
        buffers, num_values, layers = self.page.decode(entries.data, places)
        return Decoded(self.values, buffers, num_values, [Layer(*layer) for layer in layers])

    @cached_property
    def form(self) -> Hashable:
        """A value that layouts share whose rows can become one array, however compressed."""
        values = self.values
        while isinstance(values, General):
            values = values.values
        decompressed = values.values if isinstance(values, Fsst) else values
        return FullZipLayout, decompressed, self.bits_rep, self.bits_def, self.layers

    @cached_property
    def plain_bytes(self) -> int | None:  # a read asks for it page by page
        """See `Layout.plain_bytes`."""
        return self.stride if not self.has_index and self._is_plain() else None

    def are_dense(self, rows: RowRanges) -> bool:
        """Return whether everything between the rows costs no more than each of them alone."""
        num_ranges = len(rows.bounds)
        span = int(rows.bounds[-1, 1] - rows.bounds[0, 0])
        return num_ranges > 1 and span * self.stride <= num_ranges * _DENSE_BYTES

    def _pick(self, rows: RowRanges, start: int) -> Plan[Decoded]:
        """Read rows without levels out of a range with all of them, which may be a map."""
        first, stop = int(rows.bounds[0, 0]), int(rows.bounds[-1, 1])
        offsets, sizes = start + first * self.stride, (stop - first) * self.stride
        fetched = yield Ranges(np.array([offsets]), np.array([sizes]), is_result=True)
        stored = fetched[0].view(np.uint64 if self.stride == 8 else f"V{self.stride}")
        picked = stored[rows.rows(-first)].view(np.uint8)
        return self.as_they_are(picked, rows.num_rows)

    def mask(self, page: PageRead, condition: kernels.Condition) -> Plan[NDArray[np.uint8] | None]:
        """Test values of fixed width without levels where they are stored, or mapped; and texts.

        Texts are decoded first: they are long, so that the values cost most.
        """
        is_text = self.value_bytes is None and not isinstance(self.values, VariablePackedStruct)
        is_number = isinstance(self.values, Flat) and self._is_plain() and self.value_bytes != 1
        if self.bits_rep or not (is_text or is_number):
            return None  # a byte may be a boolean, for which conditions test a bit
        decoded = yield from self.read(page)
        with page.located():
            if len(decoded.buffers) == 1:
                bits = condition.of_fixed(decoded.buffers[0], decoded.num_values)
            else:
                offsets, data = decoded.buffers
                bits = condition.of_texts(offsets, data)
            return _with_nulls(bits, decoded.layers, condition.null)

    def _is_plain(self) -> bool:
        no_masks = isinstance(self.values, Flat) or (
            isinstance(self.values, FixedSizeList) and not self.values.validity_counts()
        )
        return no_masks and self.bits_rep + self.bits_def == 0

    def as_they_are(self, data: NDArray[np.uint8], num_rows: int) -> Decoded:
        """Return values without levels, which need no copy."""
        bytes_wanted = num_rows * self.stride
        demand(
            len(data) == bytes_wanted,
            f"full-zip values, bytes: expected {bytes_wanted}, found {len(data)}",
        )
        layers = [Layer(num_rows, None, 0, None) for _ in self.layers]
        return Decoded(self.values, [data], num_rows, layers)


def _with_nulls(
    bits: NDArray[np.uint8], layers: list[Layer], is_null_in: bool
) -> NDArray[np.uint8]:
    """Return the bits of values, and for rows with a null in any layer whether null is in a set."""
    for layer in layers:
        if layer.validity is not None:
            bits = bits | ~layer.validity if is_null_in else bits & layer.validity
    return bits


def index_ranges(page: PageRead) -> tuple[Ranges, int]:
    """Return where the index has the ranges of rows, and the width of its numbers in bytes."""
    start, size = page.stored.buffer(1)
    width, rest = divmod(size, page.stored.num_rows + 1)
    demand(rest == 0 and width in (1, 2, 4, 8), f"full-zip index: {size} bytes")
    starts, counts = page.rows.starts, page.rows.stops - page.rows.starts + 1
    return Ranges(start + starts * width, counts * width), width


def located(
    index: Fetched, widths: int | NDArray[np.int64], limits: int | NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the offsets, within buffer 0, and sizes of ranges of rows.

    Args:
        index: The numbers of the index, by range.
        widths: Their bytes; one for all ranges, or of each.
        limits: The bytes of buffer 0, as well.
    """
    firsts = _unsigned(index.data, index.starts, widths)
    lasts = _unsigned(index.data, index.starts + index.sizes - widths, widths)
    ordered = bool(((firsts >= 0) & (firsts <= lasts) & (lasts <= limits)).all())
    demand(ordered, "full-zip index: offsets out of order")
    return firsts, lasts - firsts


_WIDEST = np.arange(8, dtype=np.int64)


def _unsigned(
    data: NDArray[np.uint8], starts: NDArray[np.int64], widths: int | NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the little-endian numbers of so many bytes at `starts`."""
    digits = data.take(starts[:, None] + _WIDEST, mode="clip")
    digits *= np.asarray(widths).reshape(-1, 1) > _WIDEST
    return digits.view("<i8").reshape(-1)


def _control_bytes(bits: int) -> int:
    if bits == 0:
        return 0
    return 1 if bits <= 8 else 2 if bits <= 16 else 4


def _stored_bytes(values: Compressive) -> int:
    """Return the bytes of one value, including the bitmaps of its items."""
    if isinstance(values, FixedSizeList):
        return values.bits // 8 + sum((count + 7) // 8 for count in values.validity_counts())
    assert isinstance(values, Flat)
    return values.bits // 8


def encode_full_zip(
    block: ValueBlock, values: Compressive, levels: Levels, num_rows: int
) -> EncodedPage:
    """Zip values in stored form, such as compressed strings, and levels.

    UnsupportedTypeError is raised for lists of booleans that do not fill bytes.
    """
    if isinstance(block, ListBlock) and block.bits % 8:
        raise UnsupportedTypeError(
            "full-zip pages, which are asked for or needed for a row of very many empty lists, "
            "hold no fixed-size lists of booleans that do not fill bytes"
        )
    bits_rep, bits_def = levels.max_rep.bit_length(), levels.max_def.bit_length()
    layout = pb.FullZipLayout(
        bits_rep=bits_rep,
        bits_def=bits_def,
        num_items=levels.num_entries,
        num_visible_items=levels.num_visible,
        value_compression=values.to_proto(),
        layers=layer_kinds(levels.codes),
    )
    writer = kernels.FullZipWriter(
        bits_rep=bits_rep,
        bits_def=bits_def,
        max_rep=levels.max_rep,
        max_visible=levels.max_visible,
        num_entries=levels.num_entries,
    )
    buffers: tuple[Any, ...]
    if isinstance(block, StringBlock):
        layout.bits_per_offset = block.offset_bits
        data, starts = writer.encode_strings(block.offsets, block.data, levels.rep, levels.def_)
        buffers = (data, _index(starts))
    else:
        layout.bits_per_value = 8 * _stored_bytes(values)
        parts = value_parts(block)
        if len(parts) == 1 and bits_rep + bits_def == 0:
            buffers = (parts[0][0],)
        else:
            data, starts = writer.encode_fixed(parts, levels.rep, levels.def_)
            buffers = (data, _index(starts)) if bits_rep else (data,)
    return EncodedPage(num_rows, pb.PageLayout(full_zip_layout=layout), buffers)


def value_parts(block: FixedBlock | BitBlock | ListBlock) -> list[tuple[NDArray[np.uint8], int]]:
    """Return the parts of a value: bitmaps of items, then the items, with widths in bytes."""
    if isinstance(block, FixedBlock):
        return [(block.data, block.bits // 8)]
    if isinstance(block, BitBlock):
        bits = np.unpackbits(block.data, count=block.first + block.num_values, bitorder="little")
        return [(bits[block.first :], 1)]
    parts = []
    for mask in block.validity:
        if mask is not None:
            count = block.num_values * mask.per_row
            bits = np.unpackbits(mask.bitmap, count=mask.first + count, bitorder="little")
            rows = bits[mask.first :].reshape(block.num_values, mask.per_row)
            packed = np.packbits(rows, axis=1, bitorder="little")
            parts.append((packed.reshape(-1), packed.shape[1]))
    return [*parts, (block.data, block.bits // 8)]


def _index(starts: NDArray[np.uint64]) -> NDArray[Any]:
    """Return the row starts in the narrowest width that holds the last one."""
    last = int(starts[-1])
    width = next(width for width in (1, 2, 4, 8) if last < 1 << (8 * width))
    return starts.astype(f"<u{width}")
