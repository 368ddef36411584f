"""Mini-block pages: narrow values in chunks of some kilobytes (`PageLayout.mini_block_layout`).

    buffer 0    chunk words, see `chunks.py`
    buffer 1    the chunks, one after the other
    buffer 2    the dictionary, if there is one
    last        the repetition index, if there are lists

A chunk consists of these parts, each padded to 8 bytes from its start:

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

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.encodings.base import Compressive, demand
from pilum.encodings.dictionary_block import read_dictionary
from pilum.encodings.page import (
    Decoded,
    DictionaryBlock,
    Layer,
    Page,
    StoredPage,
    layer_codes,
)
from pilum.encodings.registry import compressive_of
from pilum.encodings.structural.chunks import ChunkTable
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.rows import RowRanges
from pilum.format.version import FileVersion
from pilum.kernels import Block
from pilum.storage.base import Fetched, Plan, Ranges

__all__ = [
    "Lookup",
    "MiniBlockPage",
]


_LISTS = frozenset({2, 4, 5, 6})
"""Kinds of layers that are lists."""

_ZERO = np.zeros(1, dtype=np.int64)
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
        """Return the cached metadata for random access, or None."""
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
