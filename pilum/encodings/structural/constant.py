"""Pages that store no value for each row (`PageLayout.constant_layout`).

In file version 2.1 every value is null, or there is none (only empty and null lists):

    no buffers    all rows are null
    2 buffers     repetition levels, definition levels: u16 each, either may be empty

Since 2.2 levels may be compressed blocks, and one scalar may represent all values:

    inline value, no buffers     fixed width, up to 32 bytes; a bool is one byte
    inline value, 2 buffers      the same, with levels
    1 buffer                     the scalar as the buffers of an Arrow array of one element
    3 buffers                    the same, then levels

A scalar in a buffer is u32 n, u32 size[n] and then n buffers (without validity):

    "hello"    02000000 08000000 05000000   00000000 05000000   68656c6c6f

The writer stores one scalar where all values are equal (`scalar_of`). Source:
docs/format/encodings-2.1.md, "Constant" and "Version 2.2".
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pilum import kernels
from pilum.blocks import (
    BitBlock,
    FixedBlock,
    ListBlock,
    StringBlock,
    ValueBlock,
    block_of,
    number_array,
    value_bytes,
)
from pilum.encodings.base import (
    Children,
    Decoded,
    DictionaryBlock,
    EncodedPage,
    Layer,
    Layout,
    PageRead,
    StoredPage,
    demand,
    layer_codes,
    layer_kinds,
)
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.structural.mini_block_writer import level_encodings
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.rows import RowRanges
from pilum.format.version import FileVersion
from pilum.levels import Levels
from pilum.storage.base import Plan, Source, run_plan

__all__ = [
    "FEWEST_SLOTS_OF_A_SCALAR",
    "ConstantLayout",
    "ConstantRows",
    "Scalar",
    "constant_form",
    "encode_constant",
    "read_constants",
    "scalar_of",
]

_NULLABLE_ITEM = bytes([3])
_NO_LEVELS = np.empty(0, dtype=np.uint16)
_MAX_LEVELS = 1 << 28
_MAX_INLINE_BYTES = 32
_MAX_KEPT_BYTES = 4096


@dataclass(frozen=True)
class ConstantLayout(Layout):
    """The layout of pages that store no value for each row."""

    layers: bytes
    has_scalars: bool
    inline_value: bytes | None = None
    rep: _Levels | None = None
    def_: _Levels | None = None

    @classmethod
    def from_proto(
        cls, layout: pb.ConstantLayout, version: FileVersion, children: Children
    ) -> ConstantLayout:
        """Read the description."""
        inline = layout.inline_value if layout.HasField("inline_value") else None
        rep = _Levels.of(layout, "rep_compression", layout.num_rep_values, children)
        def_ = _Levels.of(layout, "def_compression", layout.num_def_values, children)
        found = cls(layer_codes(layout.layers), version.has_scalar_pages, inline, rep, def_)
        found._check(0)
        return found

    def read(self, page: PageRead) -> Plan[Decoded]:
        """Read rows of a page."""
        self._check(len(page.stored.buffers))
        buffers: list[NDArray[np.uint8]] = []
        if page.stored.buffers:
            buffers = yield from page.stored.fetch(*range(len(page.stored.buffers)))
        value = self._value(buffers)
        if len(buffers) > 1:
            layers = self._layers(buffers[-2:], page.rows, page.stored.num_rows)
        else:
            layers = self.flat(page.rows.num_rows, value)
        return self.decoded(value, layers)

    def without_levels(self, stored: StoredPage, source: Source) -> ConstantRows | None:
        """Return what rows of a page are made of; None if it has levels, or a long scalar."""
        buffers = stored.buffers
        if len(buffers) > 1 or sum([size for _, size in buffers]) > _MAX_KEPT_BYTES:
            return None
        self._check(len(buffers))
        fetched = run_plan(stored.fetch(*range(len(buffers))), source) if buffers else []
        value = self._value(fetched)
        return ConstantRows(self, value and value.owned())

    def decoded(self, value: DictionaryBlock | None, layers: list[Layer]) -> Decoded:
        """Return rows with a value, or nulls, given their layers."""
        count = layers[0].length
        if value is None:
            return Decoded(None, [], count, layers)
        # A scalar is a dictionary of one value, to which every index is 0.
        return Decoded(Flat(8), [np.zeros(count, dtype=np.uint8)], count, layers, value)

    def mask(self, page: PageRead, condition: kernels.Condition) -> Plan[NDArray[np.uint8] | None]:
        """Test the one value of the page, and which rows are null."""
        decoded = yield from self.read(page)
        leaf = decoded.layers[0]
        if any(layer.offsets is not None for layer in decoded.layers):
            return None
        with page.located():
            value = decoded.dictionary
            is_in = value is not None and bool(value.mask(condition)[0])
        valid = leaf.validity
        if valid is None:
            valid = np.full((leaf.length + 7) // 8, 0xFF, np.uint8)
        nothing = np.zeros_like(valid)
        return (valid if is_in else nothing) | (~valid if condition.null else nothing)

    def _check(self, num_buffers: int) -> None:
        """Raise an error if pages cannot have that many buffers."""
        is_inline = self.inline_value is not None
        newer = is_inline or self.rep is not None or self.def_ is not None or num_buffers % 2 == 1
        demand(
            self.has_scalars or not newer,
            "constant page: a scalar or compressed levels, which need version 2.2",
        )
        known = num_buffers in ((0, 2) if is_inline else (0, 1, 2, 3))
        demand(known, f"constant page: {num_buffers} buffers")

    def _value(self, buffers: list[NDArray[np.uint8]]) -> DictionaryBlock | None:
        if self.inline_value is not None:
            return DictionaryBlock([np.frombuffer(self.inline_value, np.uint8)], 1)
        return _scalar(buffers[0]) if len(buffers) % 2 else None

    def flat(self, num_rows: int, value: DictionaryBlock | None) -> list[Layer]:
        """Return the layers of a page without levels: all null, or all valid."""
        layer = Layer(num_rows, None, 0, None)
        if value is None:
            validity = np.zeros((num_rows + 7) // 8, dtype=np.uint8)
            layer = Layer(num_rows, validity, num_rows, None)
        return [layer] * len(self.layers)

    def _layers(
        self, buffers: list[NDArray[np.uint8]], rows: RowRanges, num_rows: int
    ) -> list[Layer]:
        levels = _decode(self.rep, buffers[0]), _decode(self.def_, buffers[1])
        count = max(len(level) for level in levels)
        demand(all(len(level) in (0, count) for level in levels), "constant page: uneven levels")
        picked = _entries_of(levels[0], count, rows, num_rows)
        rep, def_ = (level[picked] if len(level) else _NO_LEVELS for level in levels)
        decoded = [Layer(*layer) for layer in kernels.unravel(self.layers, rep, def_, len(picked))]
        demand(
            decoded[-1].length == rows.num_rows,
            f"constant page, rows: expected {rows.num_rows}, found {decoded[-1].length}",
        )
        return decoded


@dataclass(frozen=True, slots=True)
class ConstantRows:
    """The value of all rows of a page without levels; None if all are null."""

    layout: ConstantLayout
    value: DictionaryBlock | None

    def rows(self, num_rows: int) -> Decoded:
        """Return so many rows."""
        return self.layout.decoded(self.value, self.layout.flat(num_rows, self.value))


def constant_form(page: PageRead) -> Hashable | None:
    """Return a value that pages in memory share if they have no levels, and the same value.

    None for pages that `read_constants` does not read.
    """
    layout, buffers = page.layout, page.stored.buffers
    if not isinstance(layout, ConstantLayout) or page.memory is None or len(buffers) > 1:
        return None
    if not buffers:
        return layout
    offset, size = buffers[0]
    if size > _MAX_KEPT_BYTES:
        return None
    return layout, page.memory[offset : offset + size].tobytes()


def read_constants(groups: Sequence[Sequence[PageRead]]) -> list[Decoded]:
    """Read rows of groups of pages, each group into one array.

    Pages of a group have equal forms (`constant_form`).

    Raises:
        CorruptFileError: If a page is damaged.
    """
    decoded = []
    for first, *more in groups:
        assert isinstance(first.layout, ConstantLayout)
        with first.located():
            found = first.layout.without_levels(first.stored, first.source)
        assert found is not None
        decoded.append(found.rows(sum([page.rows.num_rows for page in (first, *more)])))
    return decoded


@dataclass(frozen=True, slots=True)
class _Levels:
    """The compression and the number of levels."""

    block: kernels.Block
    count: int

    @classmethod
    def of(
        cls, layout: pb.ConstantLayout, name: str, count: int, children: Children
    ) -> _Levels | None:
        if not layout.HasField(name):
            return None
        demand(count <= _MAX_LEVELS, f"constant page: {count} levels")
        return cls(children(getattr(layout, name)).block(), count)


def _decode(levels: _Levels | None, data: NDArray[np.uint8]) -> NDArray[np.uint16]:
    if levels is not None:
        data = kernels.decode_block(levels.block, data, levels.count)
    demand(len(data) % 2 == 0, "constant page: levels of odd size")
    return np.require(data.view(np.uint16), requirements="A")


def _scalar(data: NDArray[np.uint8]) -> DictionaryBlock:
    """Split a value buffer into the buffers of an array of one element."""
    demand(len(data) >= 4, f"scalar, bytes: {len(data)}")
    count = int.from_bytes(data[:4].tobytes(), "little")
    head = 4 + 4 * count
    demand(count in (1, 2) and len(data) >= head, f"scalar of {count} buffers")
    sizes = [int(size) for size in np.frombuffer(data[4:head].tobytes(), np.uint32)]
    demand(sum(sizes) == len(data) - head, f"scalar, bytes: expected {sum(sizes)}")
    first = data[head : head + sizes[0]]
    if count == 1:
        return DictionaryBlock([first], 1)
    demand(sizes[0] in (8, 16), f"offsets of a scalar: {sizes[0]} bytes")
    offsets = np.frombuffer(first.tobytes(), np.int32 if sizes[0] == 8 else np.int64)
    return DictionaryBlock([offsets, data[head + sizes[0] :]], 1)


def _entries_of(
    rep: NDArray[np.uint16], count: int, rows: RowRanges, num_rows: int
) -> NDArray[np.int64]:
    """Return the entries of some rows."""
    if len(rep) == 0:
        demand(count == num_rows, f"constant page, levels: expected {num_rows}, found {count}")
        return rows.rows()
    starts = np.flatnonzero(rep == rep.max())
    demand(
        len(starts) == num_rows, f"constant page, rows: expected {num_rows}, found {len(starts)}"
    )
    bounds = np.append(starts, count)
    return RowRanges(np.column_stack((bounds[rows.starts], bounds[rows.stops]))).rows()


def encode_constant(
    levels: Levels, num_rows: int, version: FileVersion, scalar: Scalar | None = None
) -> EncodedPage:
    """Encode rows whose values are all null or all equal, or that have no values."""
    if scalar is not None:
        return _encode_scalar(levels, num_rows, scalar)
    # Without levels these are structs without members, which have no encoding of their own.
    codes = levels.codes if levels.max_rep or levels.max_def else _NULLABLE_ITEM
    layout = pb.ConstantLayout(layers=layer_kinds(codes))
    buffers: tuple[Any, ...] = () if codes == _NULLABLE_ITEM else (levels.rep, levels.def_)
    if buffers and version.has_scalar_pages:
        rep, def_ = level_encodings(levels, version)
        layout = pb.ConstantLayout(
            layers=layer_kinds(codes),
            rep_compression=rep.to_proto(),
            def_compression=def_.to_proto(),
            num_rep_values=len(levels.rep),
            num_def_values=len(levels.def_),
        )
        buffers = tuple(
            level if block is None else kernels.encode_levels(level, block)
            for level, block in ((levels.rep, rep.block), (levels.def_, def_.block))
        )
    return EncodedPage(num_rows, pb.PageLayout(constant_layout=layout), buffers)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value as the buffers of an Arrow array of one element, without validity."""

    buffers: tuple[bytes, ...]

    @property
    def is_inline(self) -> bool:
        """Whether it fits in the description of a page."""
        return len(self.buffers) == 1 and len(self.buffers[0]) <= _MAX_INLINE_BYTES

    def pack(self) -> bytes:
        """Serialise the value buffer of a page."""
        sizes = [len(buffer) for buffer in self.buffers]
        head = np.array([len(sizes), *sizes], dtype="<u4").tobytes()
        return b"".join((head, *self.buffers))


def _encode_scalar(levels: Levels, num_rows: int, scalar: Scalar) -> EncodedPage:
    layout = pb.ConstantLayout(layers=layer_kinds(levels.codes))
    buffers: list[Any] = []
    if scalar.is_inline:
        layout.inline_value = scalar.buffers[0]
    else:
        buffers.append(scalar.pack())
    if levels.max_rep or levels.max_def:
        buffers.extend((levels.rep, levels.def_))
    return EncodedPage(num_rows, pb.PageLayout(constant_layout=layout), tuple(buffers))


FEWEST_SLOTS_OF_A_SCALAR = 2
"""Fewest slots that are worth a description of their own.

A description with a value cannot be shared with other pages: a table of one row and thousands of
columns would have as many descriptions to parse.
"""
_SAMPLE = 64


def scalar_of(leaf: pa.Array, block: ValueBlock, levels: Levels) -> Scalar | None:
    """Return the value of all valid slots, if they are equal, bit for bit."""
    if isinstance(block, ListBlock):
        return None
    # A few values rule out most pages, so that only likely ones are compared as a whole.
    head: Sequence[int] = range(min(block.num_values, _SAMPLE))
    if levels.max_def:
        head = _valid(levels, levels.def_[:_SAMPLE]).tolist()
    if not _may_be_same(block, head):
        return None
    values = leaf
    if levels.max_def:
        values = leaf.take(number_array(_valid(levels, levels.def_)))
    if len(values) == 0:
        return None
    if not _all_same(values):
        return None
    one = block_of(values.slice(0, 1))
    if isinstance(one, BitBlock):
        return Scalar((bytes([values[0].as_py()]),))
    if isinstance(one, FixedBlock):
        return Scalar((one.data.tobytes(),))
    assert isinstance(one, StringBlock)
    first, last = int(one.offsets[0]), int(one.offsets[1])
    offsets = (one.offsets - first).astype(one.offsets.dtype)
    return Scalar((offsets.tobytes(), one.data[first:last].tobytes()))


def _valid(levels: Levels, def_: NDArray[np.uint16]) -> NDArray[np.int64]:
    """Return which of the values of some entries are not null."""
    return np.flatnonzero(def_[def_ <= levels.max_visible] == 0)


def _may_be_same(block: FixedBlock | BitBlock | StringBlock, some: Sequence[int]) -> bool:
    """Return whether some sampled values are equal, if there are any."""
    values = (value_bytes(block, index) for index in some)
    first = next(values, b"")
    return all(value == first for value in values)


def _all_same(values: pa.Array) -> bool:
    """Return whether all values are equal, bit for bit."""
    block = block_of(values)
    if isinstance(block, BitBlock):
        return values.true_count in (0, len(values))
    if isinstance(block, FixedBlock):
        rows = block.data.reshape(block.num_values, -1)
        return bool((rows == rows[0]).all())
    return bool(pc.all(pc.equal(values, values[0])).as_py())
