"""Mini-block pages: narrow values in chunks of some kilobytes (`PageLayout.mini_block_layout`).

    buffer 0    chunk words, see `chunks.py`
    buffer 1    the chunks, one after the other
    buffer 2    the dictionary, if there is one
    last        the repetition index, if there are lists

A chunk holds, each part padded to 8 bytes from its start:

    u16  num_levels                 entries of its levels, 0 if it has none
    u16  rep_size, u16 def_size     only those that the page has
    uN   value_size[num_buffers]    N = 16; 32 with large chunks (2.2)
    repetition levels, definition levels, value buffers

Chunks are the unit of I/O; within a chunk, single flat, bit-packed and variable values are accessed
without decoding the others. Source: docs/format/encodings-2.1.md, "Mini-block".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.blocks import BitBlock, FixedBlock, ListBlock, StringBlock, ValueBlock
from pilum.encodings.base import Compressive, demand
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.general import General
from pilum.encodings.compressive.variable import Variable
from pilum.encodings.level_budget import LEVEL_BYTES, most_values
from pilum.encodings.options import EncodingOptions
from pilum.encodings.page import (
    Decoded,
    DictionaryBlock,
    EncodedPage,
    Layer,
    Page,
    StoredPage,
    layer_codes,
    layer_kinds,
)
from pilum.encodings.registry import compressive_of
from pilum.encodings.structural.chunks import ChunkTable
from pilum.encodings.structural.level_blocks import LevelEncoding, level_encodings
from pilum.errors import UnsupportedTypeError
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.rows import RowRanges
from pilum.format.version import FileVersion
from pilum.kernels import Block
from pilum.levels import Levels
from pilum.storage.base import Fetched, Plan, Ranges

__all__ = [
    "Lookup",
    "MiniBlockPage",
    "PageDictionary",
    "encode_mini_block",
    "join_strings",
    "read_dictionary",
]


_LISTS = frozenset({2, 4, 5, 6})
"""Kinds of layers that are lists."""

_ZERO = np.zeros(1, dtype=np.int64)
_MAX_DICTIONARY_VALUES = 1 << 24
_SPLIT = (Flat(1), Variable(32), Variable(64))
"""Dictionary encodings whose blocks this module splits itself."""
_MAX_SMALL_CHUNK = 32_768
_MAX_HEAD = 512
"""Bytes of a chunk's header and padding, and of the growth of incompressible values."""
_DEFAULTS = EncodingOptions()
_SMALL_DESCRIPTION = 256
_NOWHERE = StoredPage(0, 0, ())
_LOOKUP_BYTES = 1024
"""The approximate size of the objects around the arrays."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """Metadata that is read once per page and cached.

    Attributes:
        chunks: The table of its chunks.
        dictionary: The dictionary, if its values are indices.
    """

    chunks: ChunkTable
    dictionary: DictionaryBlock | None

    def owned(self) -> Lookup:
        """Return a copy in memory of its own."""
        return Lookup(self.chunks, self.dictionary and self.dictionary.owned())

    @property
    def size_bytes(self) -> int:
        """The approximate bytes in memory."""
        dictionary = self.dictionary.size_bytes if self.dictionary else 0
        return _LOOKUP_BYTES + self.chunks.size_bytes + dictionary


@dataclass
class MiniBlockPage(Page):
    """A mini-block page of a file."""

    stored: StoredPage
    values: Compressive
    rep: Block | None
    def_: Block | None
    dictionary: Compressive | None
    num_dictionary_items: int
    layers: bytes
    num_items: int
    large: bool
    kernel_page: kernels.MiniBlock | None
    _plan: kernels.Plan = field(init=False)

    def __post_init__(self) -> None:
        self._plan = self.values.plan()

    @classmethod
    def from_proto(
        cls, layout: pb.MiniBlockLayout, stored: StoredPage, version: FileVersion
    ) -> MiniBlockPage:
        """Read the description of a page.

        Raises:
            CorruptFileError: If it contradicts the format.
        """
        data = layout.SerializeToString()
        if len(data) > _SMALL_DESCRIPTION:
            return cls._read(layout, stored, version)
        return _known_page(data, version)._at(stored)

    def _at(self, stored: StoredPage) -> MiniBlockPage:
        """Return a page of the same description at another place."""
        page = object.__new__(MiniBlockPage)
        vars(page).update(vars(self))
        page.stored = stored
        return page

    @classmethod
    def _read(
        cls, layout: pb.MiniBlockLayout, stored: StoredPage, version: FileVersion
    ) -> MiniBlockPage:
        large = version.has_large_chunks
        demand(layout.has_large_chunk == large, "mini-block: chunk words of another file version")
        values = compressive_of(layout.value_compression)
        demand(
            layout.num_buffers == values.num_buffers,
            f"value buffers: expected {values.num_buffers}, found {layout.num_buffers}",
        )
        layers = layer_codes(layout.layers)
        has_lists = not _LISTS.isdisjoint(layers)
        has_rep = layout.HasField("rep_compression")
        demand(has_rep == has_lists, "mini-block: repetition levels without lists, or the reverse")
        demand(layout.repetition_index_depth == has_lists, "mini-block: no repetition index")
        def_ = (
            compressive_of(layout.def_compression) if layout.HasField("def_compression") else None
        )
        has_dictionary = layout.HasField("dictionary")
        return cls(
            stored,
            values,
            compressive_of(layout.rep_compression).block() if has_rep else None,
            def_.block() if def_ else None,
            compressive_of(layout.dictionary) if has_dictionary else None,
            layout.num_dictionary_items,
            layers,
            layout.num_items,
            large,
            None if has_rep else _kernel_page(values, def_, layers, large),
        )

    def known_lookup(self) -> Lookup | None:
        """The cached metadata for random access, if there are any."""
        slot = self.stored.lookup
        return None if slot is None else slot.get()

    def read(self, rows: RowRanges) -> Plan[Decoded]:
        """Read rows of the page; a whole page with one request."""
        lookup = self.known_lookup()
        if lookup is None and rows.covers(self.stored.num_rows):
            fetched, chunks, lookup = yield from self._fetch_all()
        else:
            lookup = lookup or (yield from self._look_up())
            fetched, chunks = yield from self._fetch_chunks(lookup.chunks, rows)
        buffers, num_values, layers = kernels.decode_mini_block(
            self._plan,
            self.rep,
            self.def_,
            self.layers,
            self.values.num_buffers,
            self.large,
            fetched.data,
            chunks,
            rows.bounds,
        )
        return Decoded(
            self.values, buffers, num_values, [*map(Layer._make, layers)], lookup.dictionary
        )

    def _fetch_chunks(
        self, table: ChunkTable, rows: RowRanges
    ) -> Plan[tuple[Fetched, NDArray[np.int64]]]:
        """Read the chunks of rows, coalescing adjacent chunks.

        Returns:
            The fetched bytes, and the lines of the chunk table with positions in them.
        """
        body = self.stored.buffer(1)[0]
        numbers = table.covering(rows)
        if isinstance(numbers, slice):
            chunks = table.table[numbers].copy()
            start = int(chunks[0, 0])
            size = int(chunks[-1, 0] + chunks[-1, 1]) - start
            fetched = yield Ranges(np.array([start + body]), np.array([size]))
            chunks[:, 0] += fetched.starts[0] - start
            return fetched, chunks
        chunks = table.table[numbers]
        start = int(chunks[0, 0])
        size = int(chunks[-1, 0] + chunks[-1, 1]) - start
        if size <= 2 * int(chunks[:, 1].sum()):
            # The gaps are small: one range is cheaper than many.
            fetched = yield Ranges(np.array([start + body]), np.array([size]))
            chunks[:, 0] += fetched.starts[0] - start
            return fetched, chunks
        cuts = np.flatnonzero(numbers[1:] - numbers[:-1] != 1) + 1
        first = np.concatenate((_ZERO, cuts))
        begins = chunks[first, 0]
        last = np.append(cuts, len(numbers)) - 1
        sizes = chunks[last, 0] + chunks[last, 1] - begins
        fetched = yield Ranges(begins + body, sizes)
        chunks[:, 0] += np.repeat(fetched.starts - begins, last - first + 1)
        return fetched, chunks

    def _fetch_all(self) -> Plan[tuple[Fetched, NDArray[np.int64], Lookup]]:
        """Read the whole page without caching anything."""
        fetched = yield Ranges.of(self.stored.buffer(1), *self._lookup_buffers())
        _, *buffers = fetched
        lookup = self._parse(buffers)
        chunks = lookup.chunks.table.copy()
        chunks[:, 0] += fetched.starts[0]
        return fetched, chunks, lookup

    def _look_up(self) -> Plan[Lookup]:
        """Read the metadata for random access, and cache them."""
        fetched = yield Ranges.of(*self._lookup_buffers())
        lookup = self._parse(list(fetched))
        if self.stored.lookup:
            lookup = lookup.owned()
            self.stored.lookup.put(lookup, lookup.size_bytes)
        return lookup

    def _lookup_buffers(self) -> list[tuple[int, int]]:
        if self.dictionary is None and self.rep is None:
            return [self.stored.buffer(0)]
        wanted = [0]
        if self.dictionary is not None:
            wanted.append(2)
        if self.rep is not None:
            wanted.append(len(self.stored.buffers) - 1)
        return [self.stored.buffer(index) for index in wanted]

    def _parse(self, buffers: list[NDArray[np.uint8]]) -> Lookup:
        words, *others = buffers
        chunks = ChunkTable.parse(
            words,
            others[-1] if self.rep is not None else None,
            large=self.large,
            num_items=self.num_items,
            num_rows=self.stored.num_rows,
            body_bytes=self.stored.buffer(1)[1],
        )
        dictionary = None
        if self.dictionary is not None:
            dictionary = read_dictionary(self.dictionary, others[0], self.num_dictionary_items)
        return Lookup(chunks, dictionary)


@lru_cache(maxsize=256)
def _kernel_page(
    values: Compressive, def_: Compressive | None, layers: bytes, large: bool
) -> kernels.MiniBlock:
    """Return the kernel description, shared by pages without lists that differ only in length."""
    levels = def_.block() if def_ else None
    return kernels.MiniBlock(values.plan(), levels, layers, values.num_buffers, large)


@lru_cache(maxsize=256)
def _known_page(data: bytes, version: FileVersion) -> MiniBlockPage:
    """Parse a description, cached because columns of one type and length share one."""
    return MiniBlockPage._read(pb.MiniBlockLayout.FromString(data), _NOWHERE, version)


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


@dataclass(frozen=True, slots=True)
class PageDictionary:
    """An encoded dictionary: its description, its bytes, its number of values."""

    encoding: Compressive
    data: bytes
    num_values: int


def encode_mini_block(
    block: ValueBlock,
    values: Compressive,
    levels: Levels,
    num_rows: int,
    version: FileVersion,
    dictionary: PageDictionary | None = None,
    options: EncodingOptions = _DEFAULTS,
) -> EncodedPage:
    """Cut values and levels into chunks.

    Args:
        block: Values in stored form (strings already compressed, or indices).
        values: Their description.
        levels: Levels of the rows.
        num_rows: Rows of the page.
        version: File version.
        dictionary: The dictionary, if the values are indices.
        options: Options of the chunks.

    Raises:
        UnsupportedTypeError: For values too wide for chunks, of which each has two.
    """
    rep, def_ = level_encodings(levels, version)
    try:
        words, chunks, index = kernels.encode_mini_block(
            *_kernel_values(block, values),
            block.num_values,
            levels.rep,
            levels.def_,
            (rep.block, def_.block),
            levels.max_rep,
            levels.max_visible,
            version.has_large_chunks,
            *_chunking(levels, version, options),
            _compression(values),
        )
    except ValueError as error:
        raise UnsupportedTypeError(
            f"no mini-block chunk holds two of the values: {error}; full-zip pages would"
        ) from error
    layout = _layout(
        _Description(
            values,
            rep,
            def_,
            levels.codes,
            levels.max_rep > 0,
            block.num_values,
            version.has_large_chunks,
            dictionary.encoding if dictionary else None,
            dictionary.num_values if dictionary else 0,
        )
    )
    buffers: list[object] = [words, chunks]
    if dictionary is not None:
        buffers.append(dictionary.data)
    if levels.max_rep:
        buffers.append(index)
    return EncodedPage(num_rows, layout, tuple(buffers))


class _Description(NamedTuple):
    values: Compressive
    rep: LevelEncoding
    def_: LevelEncoding
    codes: bytes
    has_lists: bool
    num_items: int
    large: bool
    dictionary: Compressive | None
    num_dictionary_items: int


@lru_cache(maxsize=256)
def _layout(found: _Description) -> pb.PageLayout:
    """Return the message, which is immutable because many columns share it."""
    layout = pb.MiniBlockLayout(
        rep_compression=found.rep.to_proto(),
        def_compression=found.def_.to_proto(),
        value_compression=found.values.to_proto(),
        dictionary=found.dictionary.to_proto() if found.dictionary else None,
        num_dictionary_items=found.num_dictionary_items,
        layers=layer_kinds(found.codes),
        num_buffers=found.values.num_buffers,
        repetition_index_depth=int(found.has_lists),
        num_items=found.num_items,
        has_large_chunk=found.large,
    )
    return pb.PageLayout(mini_block_layout=layout)


def _chunking(
    levels: Levels, version: FileVersion, options: EncodingOptions
) -> tuple[int, int | None]:
    """Return the most values of a chunk, and its target size in bytes."""
    most, target = most_values(levels, options.minichunk_values), options.minichunk_size
    if target is not None and not version.has_large_chunks:
        has_levels = levels.max_rep or levels.max_def
        room = _MAX_SMALL_CHUNK - _MAX_HEAD - (LEVEL_BYTES if has_levels else 0)
        target = min(target, room)
    return most, target


def _compression(values: Compressive) -> tuple[str, int] | None:
    return (values.scheme, values.level or 0) if isinstance(values, General) else None


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


def _kernel_values(
    block: ValueBlock, values: Compressive
) -> tuple[
    str,
    str,
    NDArray[np.uint8],
    int,
    int,
    NDArray[np.int32] | NDArray[np.int64] | None,
    list[tuple[NDArray[np.uint8], int, int]],
]:
    coding = values.values.coding if isinstance(values, General) else values.coding
    if isinstance(block, FixedBlock):
        return "fixed", coding, block.data, block.bits, 0, None, []
    if isinstance(block, BitBlock):
        return "bits", coding, block.data, 1, block.first, None, []
    if isinstance(block, StringBlock):
        return "strings", coding, block.data, block.offset_bits, 0, block.offsets, []
    assert isinstance(block, ListBlock)
    masks = [(mask.bitmap, mask.first, mask.per_row) for mask in block.validity if mask is not None]
    return "lists", coding, block.data, block.bits, 0, None, masks
