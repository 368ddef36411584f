"""Posting lists of tokens as rows: read from an index file, or made in memory.

    part_0_invert.lance   row = token id
    _posting              list<large_binary>     blocks of documents and frequencies
    _length               uint32                 number of documents
    _max_score, _impacts                         hints for readers, which searches here do not use
    _compressed_position, _position_block_offset positions as one stream (format versions 2 and 3)
    _position             list<list<large_binary>>  positions of each document (version 1)

    metadata    posting_tail_codec  fixed32_v1 (also if absent) or varint_delta_v1
                posting_block_size  128 (also if absent) or 256
                positions_codec     packed_delta_v1; varints if absent

Source: docs/format/indices.md, "INVERTED".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.errors import CorruptFileError, UnsupportedFeatureError
from pilum.format.rows import RowRanges
from pilum.index.files import IndexFile
from pilum.kernels import Entries, PostingLayout, bm25_norms

__all__ = [
    "BLOCK_SIZE",
    "FIXED_TAIL",
    "POSITIONS_CODEC",
    "POSITIONS_LAYOUT",
    "TAIL_CODEC",
    "VARINT_TAIL",
    "BinaryLists",
    "MadeRows",
    "PostingRows",
    "PostingTable",
    "StoredPositions",
    "StoredRows",
]

TAIL_CODEC, BLOCK_SIZE = "posting_tail_codec", "posting_block_size"
POSITIONS_LAYOUT, POSITIONS_CODEC = "positions_layout", "positions_codec"
FIXED_TAIL, VARINT_TAIL = "fixed32_v1", "varint_delta_v1"

_POSTING, _LENGTH = "_posting", "_length"
_STREAM, _BLOCKS, _PIECES = "_compressed_position", "_position_block_offset", "_position"

BinaryLists: TypeAlias = "tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.uint8]]"
"""Offsets of lists, offsets of their binary items, and the bytes of these."""

StoredPositions: TypeAlias = (
    "tuple[bool, NDArray[np.int64], NDArray[np.uint8], NDArray[np.int32], NDArray[np.uint32]]"
    " | tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], NDArray[np.uint8]]"
)
"""Streams: whether they are packed, offsets, bytes, and lists of block starts. Or pieces."""


@dataclass(frozen=True, slots=True)
class PostingTable:
    """Rows of posting lists.

    Attributes:
        rows: The row of each token that was requested.
        postings: The blocks of each row.
        positions: The positions of each row, if they were requested.
    """

    rows: NDArray[np.int64]
    postings: BinaryLists
    positions: StoredPositions | None = None


class PostingRows(ABC):
    """The posting lists of all tokens of a partition.

    Attributes:
        layout: How blocks are stored.
        rounds_lengths: Whether scores use rounded lengths of documents.
        has_positions: Whether positions are stored.
    """

    layout: PostingLayout
    rounds_lengths: bool
    has_positions: bool

    @property
    @abstractmethod
    def lengths(self) -> NDArray[np.uint32]:
        """The number of documents of each token."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """The memory in use."""

    @abstractmethod
    def read(self, ids: NDArray[np.int64], *, with_positions: bool) -> PostingTable:
        """Return the rows of token ids, in any order.

        Raises:
            CorruptFileError: If the file is damaged.
        """


class MadeRows(PostingRows):
    """Rows that the kernels made.

    Args:
        layout: How blocks are stored.
        made: The rows of the tokens that occur.
        counts: The number of documents of each token, which may be 0.
        rounds_lengths: Whether scores use rounded lengths of documents.
    """

    def __init__(
        self,
        layout: PostingLayout,
        made: Mapping[str, Any],
        counts: NDArray[np.int64],
        *,
        rounds_lengths: bool,
    ) -> None:
        self.layout = layout
        self.rounds_lengths = rounds_lengths
        self.has_positions = "positions" in made
        self._lengths = counts.astype(np.uint32)
        self._rows = np.cumsum(counts > 0) - 1
        self._postings: BinaryLists = made["postings"]
        self._positions: StoredPositions | None = None
        if self.has_positions:
            self._positions = (True, *made["positions"])

    @classmethod
    def of(
        cls,
        entries: Entries,
        lengths: NDArray[np.uint32],
        *,
        rounds_lengths: bool = False,
        has_positions: bool = True,
    ) -> MadeRows:
        """Write the entries of all tokens.

        Args:
            entries: The entries.
            lengths: The number of tokens of each document.
            rounds_lengths: Whether scores use rounded lengths of documents.
            has_positions: Whether the entries have positions.
        """
        layout = PostingLayout(128, False)
        counts = np.diff(entries.ends, prepend=np.int64(0))
        total = int(lengths.sum(dtype=np.uint64))
        norms = bm25_norms(lengths, len(lengths), total, rounds_lengths)
        kind = "stream" if has_positions else "none"
        made = entries.write(lengths, norms, layout, kind)
        return cls(layout, made, counts, rounds_lengths=rounds_lengths)

    @property
    def lengths(self) -> NDArray[np.uint32]:
        """The number of documents of each token."""
        return self._lengths

    @property
    def size_bytes(self) -> int:
        """The memory in use."""
        arrays = [self._lengths, self._rows, *self._postings, *(self._positions or ())[1:]]
        return sum(array.nbytes for array in arrays)

    def read(self, ids: NDArray[np.int64], *, with_positions: bool) -> PostingTable:
        """Return the rows of token ids, which occur."""
        positions = self._positions if with_positions else None
        return PostingTable(self._rows[ids], self._postings, positions)


class StoredRows(PostingRows):
    """Rows of an index file.

    Args:
        file: The file.
        defaults: Metadata of the index, for keys that the file does not have.

    Raises:
        CorruptFileError: If the metadata is damaged.
        UnsupportedFeatureError: If a codec is unknown.
    """

    def __init__(self, file: IndexFile, defaults: Mapping[str, str]) -> None:
        self.file = file
        metadata = {**defaults, **file.metadata}
        tail = _known(metadata, TAIL_CODEC, FIXED_TAIL, VARINT_TAIL)
        size = metadata.get(BLOCK_SIZE) or "128"
        if size not in ("128", "256") or (size == "256" and tail == FIXED_TAIL):
            raise CorruptFileError(f"posting blocks of {size} entries, tail {tail}", file.path)
        self.layout = PostingLayout(int(size), tail == FIXED_TAIL)
        self.rounds_lengths = size == "256"
        self._packed = _known(metadata, POSITIONS_CODEC, _VARINTS, _PACKED) == _PACKED
        names = set(file.schema.names)
        self._in_pieces = _PIECES in names
        self.has_positions = self._in_pieces or _STREAM in names
        self._lengths: NDArray[np.uint32] | None = None
        self._all: PostingTable | None = None
        self._all_bytes = 0

    @property
    def num_tokens(self) -> int:
        """The number of tokens."""
        return self.file.num_rows

    @property
    def lengths(self) -> NDArray[np.uint32]:
        """The number of documents of each token."""
        if self._lengths is None:
            column = self.file.read([_LENGTH]).column(0).combine_chunks()
            self._lengths = _fixed(column, pa.uint32(), _LENGTH)
        return self._lengths

    @property
    def size_bytes(self) -> int:
        """The memory in use."""
        lengths = 0 if self._lengths is None else self._lengths.nbytes
        return lengths + self._all_bytes

    def load(self) -> None:
        """Load all rows into memory."""
        if self._all is None:
            table = self.file.read(self._columns(with_positions=self.has_positions))
            rows = np.empty(0, np.int64)
            self._all = self._table(table, rows, with_positions=self.has_positions)
            self._all_bytes = int(table.nbytes)

    def read(self, ids: NDArray[np.int64], *, with_positions: bool) -> PostingTable:
        """Return the rows of token ids, in any order.

        Raises:
            CorruptFileError: If the file is damaged.
        """
        if with_positions and not self.has_positions:
            raise CorruptFileError("no positions are stored", self.file.path)
        if self._all is not None:
            kept = self._all.positions if with_positions else None
            return PostingTable(ids, self._all.postings, kept)
        distinct, rows = np.unique(ids, return_inverse=True)
        columns = self._columns(with_positions=with_positions)
        table = self.file.read(columns, RowRanges.of_rows(distinct))
        try:
            return self._table(table, rows, with_positions=with_positions)
        except CorruptFileError as error:
            raise error.at(self.file.path) from None

    def _table(
        self, table: pa.Table, rows: NDArray[np.int64], *, with_positions: bool
    ) -> PostingTable:
        postings = _binary_lists(_column(table, _POSTING), _POSTING)
        if not with_positions:
            return PostingTable(rows, postings)
        if self._in_pieces:
            column = _column(table, _PIECES)
            outer = _offsets(column, _PIECES)
            return PostingTable(rows, postings, (outer, *_binary_lists(column.values, _PIECES)))
        blocks = _column(table, _BLOCKS)
        starts = _fixed(blocks.values, pa.uint32(), _BLOCKS)
        stream = _binary(_column(table, _STREAM), _STREAM)
        lists = _offsets(blocks, _BLOCKS)
        return PostingTable(rows, postings, (self._packed, *stream, lists, starts))

    def _columns(self, *, with_positions: bool) -> Sequence[str]:
        if not with_positions:
            return [_POSTING]
        return [_POSTING, _PIECES] if self._in_pieces else [_POSTING, _STREAM, _BLOCKS]


_PACKED, _VARINTS = "packed_delta_v1", "varint_doc_delta_v2"


def _known(metadata: Mapping[str, str], key: str, default: str, other: str) -> str:
    value = metadata.get(key) or default
    if value not in (default, other):
        raise UnsupportedFeatureError(f"full-text index: {key} is {value!r}")
    return value


def _column(table: pa.Table, name: str) -> pa.Array:
    return table.column(name).combine_chunks()


def _fixed(array: pa.Array, kind: pa.DataType, name: str) -> NDArray[Any]:
    if array.type != kind or array.null_count:
        raise CorruptFileError(f"{name}: expected {kind} without nulls, found {array.type}")
    return np.asarray(array.to_numpy())


def _offsets(array: pa.Array, name: str) -> NDArray[np.int32]:
    if not pt.is_list(array.type) or array.null_count:
        raise CorruptFileError(f"{name}: expected lists without nulls, found {array.type}")
    return np.asarray(array.offsets.to_numpy())


def _binary(array: pa.Array, name: str) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    if not pt.is_large_binary(array.type) or array.null_count:
        raise CorruptFileError(f"{name}: expected binary without nulls, found {array.type}")
    _, offsets, data = array.buffers()
    if offsets is None or offsets.size == 0:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    view = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8)
    own = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return view, own


def _binary_lists(array: pa.Array, name: str) -> BinaryLists:
    return _offsets(array, name), *_binary(array.values, name)
