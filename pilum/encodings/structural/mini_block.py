"""Mini-block pages: narrow values in chunks of some kilobytes (`PageLayout.mini_block_layout`).

    buffer 0    chunk words, see rust/kernels/src/chunks.rs
    buffer 1    the chunks, one after the other
    buffer 2    the dictionary, if there is one
    last        the repetition index, if there are lists

A chunk consists of these parts, each padded to 8 bytes from its start:

    u16  num_levels                 entries of its levels, 0 if it has none
    u16  rep_size, u16 def_size     only those that the page has
    uN   value_size[num_buffers]    N = 16; 32 with large chunks (2.2)
    repetition levels, definition levels, value buffers

Chunks are the unit of I/O; within a chunk, single flat, bit-packed and variable values are accessed
without decoding the others. Pages are read together, as tables of many columns have many small
ones, and takes read little of each:

    one request      chunk words, indices and dictionaries of which only some chunks are read,
                     unless they are cached
    one request      those chunks; all other pages as a whole
    one kernel call  for all pages

Tables of many small files have many small pages of one column. If these are in memory and have the
same description and dictionary, they are decoded into one array.

The dictionary has the distinct values in one block; the page stores their indices. Fixed-width
values are a plain or bit-packed block. Strings are one block:

    offset_bits  data_start  offsets[num_values + 1]  data

The first two numbers and the offsets, which start from 0, are u32 or u64. A block may be compressed
as a whole with lz4 or zstd. Source: docs/format/encodings-2.1.md, "Mini-block" and "Dictionary".
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.blocks import StringBlock
from pilum.encodings.base import (
    Children,
    Compressive,
    Decoded,
    DictionaryBlock,
    Layer,
    Layout,
    PageRead,
    demand,
    layer_codes,
)
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.general import General
from pilum.encodings.compressive.variable import Variable
from pilum.errors import CorruptFileError
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.version import FileVersion
from pilum.storage.base import Fetched, Plan, Ranges, Source, run_plan

__all__ = [
    "MiniBlockLayout",
    "PageDictionary",
    "PageLookup",
    "is_picked",
    "join_strings",
    "joint_key",
    "look_up",
    "read_dictionary",
    "read_mini_blocks",
    "read_picked",
]

T = TypeVar("T")

_Columns: TypeAlias = "tuple[list[NDArray[Any]], int, list[Any]]"
"""Buffers, number of values, and layers of some rows."""

_ALL_VALID = 1
"""Kind of a layer of values or structs without nulls."""
_LISTS = frozenset({2, 4, 5, 6})
"""Kinds of layers that are lists."""

_LOOKUP_BYTES = 1024
"""The approximate size of the objects around the arrays."""
_SMALL_DICTIONARY = 4096


@dataclass(frozen=True, eq=False)
class MiniBlockLayout(Layout):
    """The layout of mini-block pages.

    Attributes:
        values: How values are stored, or indices if there is a dictionary.
        layers: Kind of each layer, inner-most first.
        has_lists: Whether one of them is a list.
        dictionary: How the dictionary is stored; None without one.
        num_dictionary_items: Number of its values.
        num_items: Number of values of a page.
        chunks: The layout of the chunks.
        form: The description without `num_items`: pages of equal form can be decoded together.
    """

    keeps_rows = True

    values: Compressive
    layers: bytes
    has_lists: bool
    dictionary: Compressive | None
    num_dictionary_items: int
    num_items: int
    chunks: kernels.MiniBlock
    form: bytes

    @classmethod
    def from_proto(
        cls, layout: pb.MiniBlockLayout, version: FileVersion, children: Children
    ) -> MiniBlockLayout:
        """Read the description."""
        large = version.has_large_chunks
        demand(layout.has_large_chunk == large, "mini-block: chunk words of another file version")
        values = children(layout.value_compression)
        demand(
            layout.num_buffers == values.num_buffers,
            f"value buffers: expected {values.num_buffers}, found {layout.num_buffers}",
        )
        layers = layer_codes(layout.layers)
        has_lists = not _LISTS.isdisjoint(layers)
        has_rep, has_def = layout.HasField("rep_compression"), layout.HasField("def_compression")
        demand(has_rep == has_lists, "mini-block: repetition levels without lists, or the reverse")
        demand(layout.repetition_index_depth == has_lists, "mini-block: no repetition index")
        chunks = kernels.MiniBlock(
            values.plan(),
            layers,
            values.num_buffers,
            rep=children(layout.rep_compression).block() if has_rep else None,
            def_=children(layout.def_compression).block() if has_def else None,
            large=large,
            num_indexed=layout.num_dictionary_items if layout.HasField("dictionary") else None,
        )
        form = pb.MiniBlockLayout()
        form.CopyFrom(layout)
        form.ClearField("num_items")
        return cls(
            values,
            layers,
            has_lists,
            children(layout.dictionary) if layout.HasField("dictionary") else None,
            layout.num_dictionary_items,
            layout.num_items,
            chunks,
            form.SerializeToString(),
        )

    @property
    def has_no_nulls(self) -> bool:
        """Whether no value or struct of a page can be null."""
        return set(self.layers) == {_ALL_VALID}

    @property
    def has_dictionary(self) -> bool:
        """See `Layout.has_dictionary`."""
        return self.dictionary is not None

    def read(self, page: PageRead) -> Plan[Decoded]:
        """Read rows of a page."""
        [decoded] = yield from read_mini_blocks([page])
        return decoded

    def mask(self, page: PageRead, condition: kernels.Condition) -> Plan[NDArray[np.uint8] | None]:
        """Test rows where they are stored; of a dictionary, each value is tested once."""
        if self.has_lists:
            return None
        if condition.every_value is not None and self.has_no_nulls:
            return _equal_bits(page, condition)
        reads, fetched, [dictionary] = yield from _fetch([page])
        with page.located():
            if dictionary is not None:
                found = dictionary.mask(condition)
                condition = condition.of_indices(found, dictionary.num_values)
                if condition.every_value is not None and self.has_no_nulls:
                    return _equal_bits(page, condition)
            [bits] = reads.mask([(fetched.data, fetched.starts)], condition)
        return bits


def _equal_bits(page: PageRead, condition: kernels.Condition) -> NDArray[np.uint8]:
    """Return the bits of the rows of a page if all values or none are in a set."""
    value = 0xFF if condition.every_value else 0
    return np.full((page.rows.num_rows + 7) // 8, value, np.uint8)


class PageLookup(NamedTuple):
    """Metadata that are read once per page and cached: its chunks, and its dictionary if any."""

    chunks: kernels.ChunkTable
    dictionary: DictionaryBlock | None

    def owned(self) -> PageLookup:
        """Return a copy in memory of its own."""
        return PageLookup(self.chunks, self.dictionary and self.dictionary.owned())

    @property
    def size_bytes(self) -> int:
        """The approximate bytes in memory."""
        dictionary = self.dictionary.size_bytes if self.dictionary else 0
        return _LOOKUP_BYTES + self.chunks.size_bytes + dictionary


def read_mini_blocks(pages: Sequence[PageRead]) -> Plan[list[Decoded]]:
    """Read rows of mini-block pages of one file."""
    if not pages:
        return []
    reads, fetched, dictionaries = yield from _fetch(pages)
    columns = _decode(reads, pages, [fetched], None)
    return [
        _decoded(page, found, dictionary)
        for page, found, dictionary in zip(pages, columns, dictionaries, strict=True)
    ]


_Fetch: TypeAlias = tuple[kernels.PageReads, Fetched, list[DictionaryBlock | None]]
"""What to read, the bytes, and the dictionary of each page."""


def _fetch(pages: Sequence[PageRead]) -> Plan[_Fetch]:
    """Fetch the chunks and dictionaries of rows of pages."""
    lookups = yield from _look_up(pages)
    reads = _reads(pages, lookups)
    offsets, sizes = reads.ranges()
    unknown = [
        page
        for page, lookup in zip(pages, lookups, strict=True)
        if lookup is None and _layout(page).dictionary is not None
    ]
    next_dictionary = len(offsets)
    if unknown:
        dictionaries = np.array([_buffer(page, 2) for page in unknown], np.int64)
        offsets = np.concatenate((offsets, dictionaries[:, 0]))
        sizes = np.concatenate((sizes, dictionaries[:, 1]))
    fetched = yield Ranges(offsets, sizes)
    found: list[DictionaryBlock | None] = []
    for page, lookup in zip(pages, lookups, strict=True):
        if lookup is None and _layout(page).dictionary is not None:
            found.append(_dictionary(page, fetched[next_dictionary]))
            next_dictionary += 1
        else:
            found.append(None if lookup is None else lookup.dictionary)
    return reads, fetched, found


def is_picked(page: PageRead) -> bool:
    """Return whether `read_picked` can read a page.

    It cannot if the page is read as a whole from a file and has a dictionary.
    """
    layout = page.layout
    if not isinstance(layout, MiniBlockLayout):
        return False
    return page.memory is not None or not page.is_whole or layout.dictionary is None


def read_picked(groups: Sequence[Sequence[PageRead]]) -> list[Decoded]:
    """Read rows of groups of pages of any files, each group into one array.

    The files are local: one is read after the other. Pages of a group have equal `joint_key`.
    """
    pages = [page for group in groups for page in group]
    order = _by_source(pages)
    lookups = _lookups(pages, order)
    columns = _decode_files(pages, lookups, order, [len(group) for group in groups])
    decoded, first = [], 0
    for group, found in zip(groups, columns, strict=True):
        page, lookup = group[0], lookups[first]
        dictionary = None if lookup is None else lookup.dictionary
        if lookup is None and _layout(page).dictionary is not None:
            dictionary = _dictionary(page, _dictionary_in_memory(page))
        decoded.append(_decoded(page, found, dictionary))
        first += len(group)
    return decoded


def look_up(pages: Sequence[PageRead]) -> list[PageLookup | None]:
    """Read what is needed to find rows of pages of local files, and cache it."""
    return _lookups(pages, _by_source(pages))


def _lookups(
    pages: Sequence[PageRead], order: list[tuple[Source, list[int]]]
) -> list[PageLookup | None]:
    """Return the lookups of pages, grouped by their file; those that are not cached are read."""
    lookups: list[PageLookup | None] = [
        None if page.lookup is None else page.lookup.get() for page in pages
    ]
    for source, places in order:
        if pages[places[0]].memory is not None or all(lookups[place] for place in places):
            continue
        own = run_plan(_look_up([pages[place] for place in places]), source)
        for place, lookup in zip(places, own, strict=True):
            lookups[place] = lookup
    return lookups


def _by_source(pages: Sequence[PageRead]) -> list[tuple[Source, list[int]]]:
    """Group pages by their file; return the places of each."""
    found: dict[int, tuple[Source, list[int]]] = {}
    for place, page in enumerate(pages):
        own = found.get(id(page.source))
        if own is None:
            found[id(page.source)] = page.source, [place]
        else:
            own[1].append(place)
    return list(found.values())


def _decode_files(
    pages: Sequence[PageRead],
    lookups: Sequence[PageLookup | None],
    order: list[tuple[Source, list[int]]],
    group_sizes: Sequence[int],
) -> list[_Columns]:
    """Fetch what pages need, with one request for each file, and decode groups of pages."""
    placed = [place for _, places in order for place in places]
    number_of = dict(zip(placed, range(len(placed)), strict=True))
    numbers = iter(range(len(placed)))
    groups = [[number_of[next(numbers)] for _ in range(size)] for size in group_sizes]
    every = [pages[place] for place in placed]
    reads = _reads(every, [lookups[place] for place in placed])
    fetched: list[Fetched] = []
    offsets, sizes = reads.ranges()
    ends, first, count = reads.ends, 0, 0
    for source, places in order:
        count += len(places)
        last = ends[count - 1]
        if last > first:  # otherwise the file is in memory
            fetched.append(source.read(Ranges(offsets[first:last], sizes[first:last])))
        first = last
    return _decode(reads, every, fetched, groups)


def joint_key(page: PageRead) -> Hashable | None:
    """Return a key that equals that of other pages if they can become one array.

    None for a page that cannot.
    """
    layout = page.layout
    if not isinstance(layout, MiniBlockLayout):
        return None
    if page.memory is None and layout.dictionary is not None:
        return None
    if layout.dictionary is None:
        return layout.form
    if len(page.stored.buffers) < 3 or page.stored.buffer(2)[1] > _SMALL_DICTIONARY:
        return None
    return layout.form, _dictionary_in_memory(page).tobytes()


def _layout(page: PageRead) -> MiniBlockLayout:
    assert isinstance(page.layout, MiniBlockLayout)
    return page.layout


def _buffer(page: PageRead, index: int) -> tuple[int, int]:
    buffers = page.stored.buffers
    if index < len(buffers):
        return buffers[index]
    with page.located():
        return page.stored.buffer(index)


def _dictionary_in_memory(page: PageRead) -> NDArray[np.uint8]:
    assert page.memory is not None
    offset, size = _buffer(page, 2)
    return page.memory[offset : offset + size]


def _reads(pages: Sequence[PageRead], lookups: Sequence[PageLookup | None]) -> kernels.PageReads:
    """Plan what to read of pages; only some chunks of those with a lookup."""
    wanted = []
    for page, lookup in zip(pages, lookups, strict=True):
        layout, stored = _layout(page), page.stored
        table = None if lookup is None else lookup.chunks
        bounds = None if page.is_whole else page.rows.bounds
        place = layout.chunks, stored.buffers, layout.num_items, stored.num_rows
        wanted.append((*place, table, bounds, page.kept, page.memory, page.num_layers))
    return _located(
        pages, lambda: kernels.PageReads(wanted), lambda i: kernels.PageReads([wanted[i]])
    )


def _decode(
    reads: kernels.PageReads,
    pages: Sequence[PageRead],
    fetched: Sequence[Fetched],
    groups: list[list[int]] | None,
) -> list[_Columns]:
    found = [(one.data, one.starts) for one in fetched]
    return _located(
        pages, lambda: reads.decode(found, groups), lambda i: reads.decode(found, [[i]])
    )


def _located(
    pages: Sequence[PageRead], run: Callable[[], T], run_one: Callable[[int], object]
) -> T:
    """Call a kernel for all pages; if it fails, for each page, to name the damaged one."""
    try:
        return run()
    except CorruptFileError:
        for number, page in enumerate(pages):
            with page.located():
                run_one(number)
        raise


def _decoded(page: PageRead, found: _Columns, dictionary: DictionaryBlock | None) -> Decoded:
    buffers, num_values, layers = found
    made = [*map(Layer._make, layers)]
    return Decoded(_layout(page).values, buffers, num_values, made, dictionary)


def _dictionary(page: PageRead, data: NDArray[np.uint8]) -> DictionaryBlock:
    layout = _layout(page)
    assert layout.dictionary is not None
    with page.located():
        return read_dictionary(layout.dictionary, data, layout.num_dictionary_items)


def _look_up(pages: Sequence[PageRead]) -> Plan[list[PageLookup | None]]:
    """Return the lookups of the pages of which some chunks are read, and cache those read for it.

    Pages in memory and pages that are read as a whole need none.
    """
    lookups: list[PageLookup | None] = [None] * len(pages)
    missing: list[tuple[int, PageRead]] = []
    for number, page in enumerate(pages):
        if page.is_whole or page.memory is not None:
            continue
        lookups[number] = None if page.lookup is None else page.lookup.get()
        if lookups[number] is None:
            missing.append((number, page))
    if not missing:
        return lookups
    places = [_lookup_places(page) for _, page in missing]
    fetched = yield Ranges.of(*chain.from_iterable(places))
    buffers = iter(range(len(fetched)))
    for (number, page), own in zip(missing, places, strict=True):
        lookup = _parse(page, [fetched[next(buffers)] for _ in own])
        if page.lookup is not None:
            lookup = lookup if lookup.dictionary is None else lookup.owned()
            page.lookup.put(lookup, lookup.size_bytes)
        lookups[number] = lookup
    return lookups


def _lookup_places(page: PageRead) -> list[tuple[int, int]]:
    layout, wanted = _layout(page), [0]
    if layout.dictionary is not None:
        wanted.append(2)
    if layout.has_lists:
        wanted.append(len(page.stored.buffers) - 1)
    return [_buffer(page, index) for index in wanted]


def _parse(page: PageRead, buffers: list[NDArray[np.uint8]]) -> PageLookup:
    layout = _layout(page)
    with page.located():
        chunks = kernels.ChunkTable(
            layout.chunks,
            buffers[0],
            buffers[-1] if layout.has_lists else None,
            layout.num_items,
            page.stored.num_rows,
            page.stored.buffer(1)[1],
        )
    has_dictionary = layout.dictionary is not None
    return PageLookup(chunks, _dictionary(page, buffers[1]) if has_dictionary else None)


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
    """Decode the dictionary of a page."""
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
