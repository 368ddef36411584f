"""NGRAM: the rows of each trigram, three adjacent letters or digits of a text.

    ngram_postings.lance

| column | type | |
|---|---|---|
| `tokens` | uint32 | trigram, in ascending order; 0 for rows that are null |
| `posting_list` | binary | its rows, as a Roaring bitmap of 64 bits |

Texts are in lower case and folded to ASCII before trigrams are cut. A trigram is the number
`(a * 37 + b) * 37 + c`, where digits count from 1 and letters from 11. A text that is searched for
can only be in rows that have all of its trigrams; these rows are tested again. Rows are addresses
or stable row ids. Source: docs/format/indices.md, "NGRAM".
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.arguments import require_known
from pilum.blocks import StringBlock, block_of
from pilum.cache import Cache
from pilum.errors import CorruptFileError, UnsupportedTypeError
from pilum.format.rows import Addresses
from pilum.index.answers import Answer, RowSet
from pilum.index.base import REFERENCE, VALUE, Index, IndexRows, IndexType, Part, References
from pilum.index.files import IndexFile, IndexFolder, IndexFolderWriter
from pilum.index.queries import HasTexts, Query
from pilum.index.scalar.stored_sets import StoredSets
from pilum.kernels import (
    RowBitmap,
    TrigramPostings,
    intersect_rows,
    pack_row_sets,
    trigrams_of,
    unpack_row_sets,
)

__all__ = ["NGRAM", "Ngram"]

_FILE = "ngram_postings.lance"
_TOKENS, _POSTINGS = "tokens", "posting_list"
_SCHEMA = pa.schema(
    [
        pa.field(_TOKENS, pa.uint32()),
        pa.field(_POSTINGS, pa.binary(), False, {"lance-encoding:compression": "none"}),
    ]
)
_NUM_TOKENS = 37**3
_CACHE_BYTES = 64 << 20
_TOKENS_TOGETHER = 4096
"""Tokens whose rows are merged together, in memory."""
_PAGE_BYTES = 1 << 20
"""Bytes of posting lists that are written together, and of a page, which is in memory several times
while it is encoded."""

_Sets: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""Serialized sets of rows, and the end of each in bytes, with a first 0."""


class Ngram(Index):
    """An open segment; the rows of trigrams are read when they are searched for, and kept."""

    def __init__(self, file: IndexFile) -> None:
        """Read the trigrams.

        Raises:
            CorruptFileError: If they are damaged.
        """
        self.file = file
        column = file.read([_TOKENS])[_TOKENS].combine_chunks()
        if column.type != pa.uint32() or column.null_count:
            raise CorruptFileError(f"tokens of {column.type}, with nulls", file.path)
        self.tokens: NDArray[np.uint32] = column.to_numpy()
        if not (self.tokens[:-1] < self.tokens[1:]).all():
            raise CorruptFileError("tokens that are not in ascending order", file.path)
        self._postings = StoredSets(file, _POSTINGS)
        self._bitmaps = Cache(_CACHE_BYTES)
        self._last: tuple[Query, Answer | None] | None = None

    @property
    def size_bytes(self) -> int:
        """See `Index.size_bytes`."""
        return self.tokens.nbytes + self._postings.nbytes + self._bitmaps.size_bytes

    def search(self, query: Query) -> Answer | None:
        """See `Index.search`."""
        last = self._last
        if last is None or last[0] != query:
            last = self._last = (query, self._search(query))
        return last[1]

    def _search(self, query: Query) -> Answer | None:
        if not isinstance(query, HasTexts):
            return None
        distinct: set[int] = set()
        for text in query.texts:
            distinct.update(trigrams_of(text).tolist())
        if not distinct:
            return None
        wanted = np.array(sorted(distinct), np.uint32)
        places = self.tokens.searchsorted(wanted)
        if places[-1] == len(self.tokens) or (self.tokens[places] != wanted).any():
            return Answer(RowSet(), is_exact=False)
        try:
            rows = intersect_rows(self._bitmaps_at(places.tolist()))
        except CorruptFileError as error:
            raise error if error.where else error.at(self.file.path) from None
        return Answer(RowSet(rows), is_exact=False)

    def _bitmaps_at(self, places: list[int]) -> list[RowBitmap]:
        """Return the rows of the tokens at some ascending places."""
        found: list[RowBitmap | None] = self._bitmaps.get_all(places)
        missing = [place for place, one in zip(places, found, strict=True) if one is None]
        if missing:
            data, ends = self.sets(np.array(missing, np.int64))
            read = {
                place: RowBitmap(data[start:end])
                for place, (start, end) in zip(missing, pairwise(ends.tolist()), strict=True)
            }
            for place, one in read.items():
                self._bitmaps.put(place, one, one.size_bytes)
            found = [read.get(place, one) for place, one in zip(places, found, strict=True)]
        return [one for one in found if one is not None]

    def estimate(self, query: Query) -> int | None:
        """See `Index.estimate`; the posting lists of few trigrams are read for it."""
        answer = self.search(query)
        return None if answer is None else len(answer.rows.listed)

    def sets(self, places: NDArray[np.int64]) -> _Sets:
        """Return the serialized sets of the tokens at some ascending places.

        Raises:
            CorruptFileError: If the file is damaged.
        """
        return _serialized(self._postings.at(places))

    def statistics(self) -> dict[str, Any]:
        """See `Index.statistics`."""
        return {"num_ngrams": len(self.tokens)}

    def prewarm(self) -> None:
        """See `Index.prewarm`."""
        self._postings.load()


def _serialized(column: pa.Array) -> _Sets:
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset).astype(np.int64)
    return np.frombuffer(data or b"", np.uint8), ends


class _NgramType(IndexType[Ngram]):
    """See the module."""

    name = "NGRAM"
    type_url = "/lance.table.NGramIndexDetails"
    references = References.ROW_IDS
    files = (_FILE,)

    def require_supported(self, column: str, type: pa.DataType) -> None:
        """See `IndexType.require_supported`."""
        if not (pt.is_string(type) or pt.is_large_string(type)):
            raise UnsupportedTypeError(f"NGRAM index column {column} must be a string, not {type}")

    def parameters(self, given: Mapping[str, Any], type: pa.DataType) -> None:
        """See `IndexType.parameters`."""
        require_known("NGRAM has", given, ())

    def train(self, rows: IndexRows, parameters: None, folder: IndexFolderWriter) -> bytes:
        """See `IndexType.train`."""
        postings = _collected(rows)
        with folder.file(_FILE, _SCHEMA, _PAGE_BYTES) as file:
            while len((taken := postings.take(_PAGE_BYTES))[0]):
                file.write(_table(*taken))
        return b""

    def open(self, folder: IndexFolder, details: bytes, index_version: int) -> Ngram:
        """See `IndexType.open`."""
        return Ngram(folder.open(_FILE))

    def merge(
        self, parts: Sequence[Part[Ngram]], rows: IndexRows | None, folder: IndexFolderWriter
    ) -> bytes:
        """See `IndexType.merge`."""
        added = None if rows is None else _collected(rows).take(sys.maxsize)
        with folder.file(_FILE, _SCHEMA) as file:
            for first in range(0, _NUM_TOKENS, _TOKENS_TOGETHER):
                found = list(_pairs(parts, added, first, first + _TOKENS_TOGETHER))
                tokens, references = map(np.concatenate, zip(*found, strict=True))
                order = np.lexsort((references, tokens))
                tokens, references = tokens[order], references[order]
                firsts = np.flatnonzero(np.diff(tokens, prepend=-1))
                bounds = np.append(firsts, len(tokens)).astype(np.int64)
                file.write(_table(tokens[firsts], *pack_row_sets(references, bounds)))
        return b""


NGRAM = _NgramType()


def _collected(rows: IndexRows) -> TrigramPostings:
    """Collect the rows of each trigram, and those that are null."""
    postings = TrigramPostings()
    for batch in rows.batches:
        values, references = batch.column(VALUE), batch.column(REFERENCE).to_numpy()
        if values.null_count:
            is_null = values.is_null().to_numpy(zero_copy_only=False)
            postings.add_nulls(references[is_null])
            values, references = values.drop_null(), references[~is_null]
        if len(values):
            block = block_of(values)
            assert isinstance(block, StringBlock)
            postings.add(block.offsets, block.data, references)
    return postings


def _table(
    tokens: NDArray[np.uint32], data: NDArray[np.uint8], ends: NDArray[np.int64]
) -> pa.Table:
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    lists = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(tokens), buffers)
    columns = [pa.array(tokens.astype(np.uint32)), lists.cast(pa.binary())]
    return pa.Table.from_arrays(columns, schema=_SCHEMA)


def _pairs(
    parts: Sequence[Part[Ngram]],
    added: tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.int64]] | None,
    first: int,
    end: int,
) -> Iterator[tuple[NDArray[np.int64], Addresses]]:
    """Yield tokens from `first` to before `end` and a row of each, of every source."""
    yield np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64)
    for part in parts:
        tokens = part.index.tokens
        start, stop = tokens.searchsorted([first, end]).tolist()
        if start == stop:
            continue
        try:
            rows, counts = unpack_row_sets(*part.index.sets(np.arange(start, stop)))
        except CorruptFileError as error:
            raise error.at(part.index.file.path) from None
        own = np.repeat(tokens[start:stop].astype(np.int64), np.diff(counts))
        if part.moves is not None:
            rows, is_there = part.moves(rows)
            own, rows = own[is_there], rows[is_there]
        yield own, rows
    if added is not None:
        tokens, data, ends = added
        start, stop = tokens.searchsorted([first, end]).tolist()
        rows, counts = unpack_row_sets(data, ends[start : stop + 1])
        yield np.repeat(tokens[start:stop].astype(np.int64), np.diff(counts)), rows
