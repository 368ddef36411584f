"""Full-text search of a version: the best rows of a query, and their columns.

    query ──▶ columns: segments of an index, and the rows that none of them covers
          ──▶ hits: addresses and scores, without deleted rows ──▶ filter ──▶ columns of the rows

With a prefilter, only rows that match the filter are searched. Otherwise the filter is tested for
the best rows, so that fewer than the limit may remain. Source: docs/format/indices.md, "INVERTED".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from pilum.errors import InvalidInputError, UnsupportedTypeError
from pilum.format.meta_columns import ROW_ADDRESS, ROW_ID
from pilum.format.row_address import Addresses, addresses_in, fragment_ids_of
from pilum.index.answers import RowSet
from pilum.index.base import REFERENCE, VALUE
from pilum.index.inverted.building import DocumentBatch, documents_of
from pilum.index.inverted.columns import SearchPart, TextColumn
from pilum.index.inverted.flat import flat_partition, tokens_of
from pilum.index.inverted.hits import Hits
from pilum.index.inverted.index import InvertedIndex
from pilum.index.inverted.inverted import INVERTED
from pilum.index.inverted.parameters import InvertedParameters
from pilum.index.inverted.queries import (
    FullTextQuery,
    MatchQuery,
    MultiMatchQuery,
    PhraseQuery,
    leaves,
)
from pilum.index.inverted.search import search
from pilum.index.inverted.tokens import Analyzer
from pilum.table.indices.rows import existing_fragments, indexed_column
from pilum.table.indices.segments import OpenSegment, open_segments, segments
from pilum.table.indices.use import IndexUse, with_selection
from pilum.table.read.scan import ScanOptions, scan, scan_schema
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import take_addresses

__all__ = ["ELEMENT", "SCORE", "TextSearch", "count_found", "search_rows", "search_schema"]

SCORE, ELEMENT = "_score", "_doc_index"
"""Columns of the result: the score, and the place in a list of a document that is an element."""

_PLAIN = {
    "base_tokenizer": "simple",
    "lower_case": False,
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
    "max_token_length": None,
}
"""Analysis of columns without an index."""


@dataclass(frozen=True)
class TextSearch:
    """A full-text search.

    Attributes:
        query: The query; text for all columns that have an index. Text in quotes is a phrase.
        is_prefilter: Whether only rows that match the filter are searched.
    """

    query: FullTextQuery | str
    is_prefilter: bool = False


def search_schema(snapshot: Snapshot, options: ScanOptions) -> pa.Schema:
    """Return the schema of the rows that `search_rows` returns.

    Raises:
        ColumnNotFoundError: If a column does not exist.
    """
    scanned = scan_schema(snapshot, replace(options, columns=_stored(options)))
    fields = {field.name: field for field in scanned}
    own = {SCORE: pa.field(SCORE, pa.float32()), ELEMENT: pa.field(ELEMENT, pa.list_(pa.uint32()))}
    names = options.columns
    if names is None:
        names = (*snapshot.schema.names, SCORE)
    meta = [(ROW_ID, options.with_row_id), (ROW_ADDRESS, options.with_row_address)]
    names = (*names, *(name for name, wanted in meta if wanted and name not in names))
    return pa.schema([own.get(name) or fields[name] for name in names], scanned.metadata)


def search_rows(
    snapshot: Snapshot, options: ScanOptions, wanted: TextSearch, use: IndexUse
) -> pa.Table:
    """Search, and return the rows that were found, best first.

    Args:
        snapshot: The version.
        options: Columns, which may include `SCORE` and `ELEMENT`, filter, limit, offset, fragments.
        wanted: The search.
        use: Which indices it may use.

    Raises:
        InvalidInputError: If the query cannot be answered.
        ColumnNotFoundError: If a column does not exist.
        CorruptFileError: If a file is damaged.
    """
    hits = _Search(snapshot, options, wanted, use).hits()
    schema = search_schema(snapshot, options)
    own = {SCORE: pa.array(hits.scores)}
    if ELEMENT in schema.names:
        own[ELEMENT] = _elements(hits)
    stored = [name for name in schema.names if name not in own]
    table = take_addresses(snapshot, hits.references, stored or [ROW_ADDRESS])
    if not schema.names:
        return table.select([])
    columns = [own[name] if name in own else table[name] for name in schema.names]
    return pa.Table.from_arrays(columns, schema=schema)


def count_found(snapshot: Snapshot, options: ScanOptions, wanted: TextSearch, use: IndexUse) -> int:
    """Return the number of rows that `search_rows` returns."""
    return len(_Search(snapshot, options, wanted, use).hits())


def _stored(options: ScanOptions) -> tuple[str, ...] | None:
    if options.columns is None:
        return None
    return tuple(name for name in options.columns if name not in {SCORE, ELEMENT})


def _elements(hits: Hits) -> pa.Array:
    found = hits.element_lists()
    if found is None:
        raise InvalidInputError(
            f"{ELEMENT}: no column that was searched has an index of list elements"
        )
    return found


@dataclass
class _Search:
    """One search of a version."""

    snapshot: Snapshot
    options: ScanOptions
    wanted: TextSearch
    use: IndexUse

    def hits(self) -> Hits:
        """Return the addresses and scores of the rows, after limit and filter."""
        options, query = self.options, self._query()
        most = None if options.limit is None else options.limit + options.offset
        columns = {name: self._column(name, query) for name in query.columns_of()}
        found = search(columns, query, most)
        found = found.take(np.arange(len(found))[options.offset :])
        if options.filter is None or self.wanted.is_prefilter:
            return found
        return found.take(self._is_match(found.references))

    def _query(self) -> FullTextQuery:
        query = self.wanted.query
        if isinstance(query, FullTextQuery):
            return query
        names = self._indexed_columns()
        if not names:
            raise InvalidInputError(
                f"full_text_query: no column of {self.snapshot.store.uri} has a full-text index; "
                "create one, or name the column with MatchQuery"
            )
        text = query.strip()
        if len(text) > 1 and text[0] == text[-1] == '"':
            if len(names) > 1:
                raise InvalidInputError(
                    f"full_text_query: a phrase in columns {', '.join(names)}; use PhraseQuery"
                )
            return PhraseQuery(text[1:-1], names[0])
        return MatchQuery(text, names[0]) if len(names) == 1 else MultiMatchQuery(text, names)

    def _indexed_columns(self) -> list[str]:
        schema = self.snapshot.schema
        own = (one for one in segments(self.snapshot) if one.type is INVERTED)
        paths = (schema.path(one.field_id) for one in own)
        return list(dict.fromkeys(path for path in paths if path is not None))

    def _column(self, path: str, query: FullTextQuery) -> TextColumn:
        column = indexed_column(self.snapshot, path)
        try:
            INVERTED.require_supported(path, column.arrow.type)
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(f"full_text_query: {error}") from None
        own = [leaf for leaf in leaves(query) if path in leaf.columns_of()]
        used = self._segments(path, needs_positions=any(isinstance(x, PhraseQuery) for x in own))
        if used:
            analyzer, parameters = used[0][1].analyzer, used[0][1].parameters
        else:
            parameters = InvertedParameters.from_keywords(_PLAIN)
            analyzer = Analyzer(parameters)
        parts = [part for segment, index in used for part in self._parts(segment, index)]
        covered: BitMap = BitMap().union(*(segment.fragments for segment, _ in used))
        rest = self._fragments - covered
        if not rest or (self.use.only_covered and used):
            return TextColumn(analyzer, parts)
        flat = flat_partition(
            self._flat_documents(path, rest, parameters),
            analyzer,
            tokens_of(query, path, analyzer),
            rounds_lengths=parameters.block_size == 256,
        )
        return TextColumn(analyzer, parts, SearchPart(flat))

    def _segments(
        self, path: str, needs_positions: bool
    ) -> list[tuple[OpenSegment, InvertedIndex]]:
        """Return the segments of one index: the first, or the first that has positions."""
        by_name: dict[str, list[tuple[OpenSegment, InvertedIndex]]] = {}
        for segment in open_segments(self.snapshot, path):
            is_wanted = self.use.segments is None or segment.segment.entry.uuid in self.use.segments
            if isinstance(segment.index, InvertedIndex) and is_wanted:
                by_name.setdefault(segment.name, []).append((segment, segment.index))
        groups = list(by_name.values())
        suited = [
            one for one in groups if one[0][1].parameters.with_position or not needs_positions
        ]
        return next(iter(suited or groups), [])

    def _parts(self, segment: OpenSegment, index: InvertedIndex) -> list[SearchPart]:
        is_plain = _is_plain(segment)
        allowed = _live(self.snapshot, segment, index)
        if self._matching is not None:
            if is_plain:
                own = self._matching
            else:
                references = np.unique(index.references)
                addresses, is_there = segment.addresses(references)
                own = references[is_there & np.isin(addresses, self._matching)]
            allowed = RowSet(own) if allowed is None else RowSet(own) & allowed
        locate = None if is_plain else lambda rows: segment.addresses(rows)[0]
        return [replace(part, locate=locate) for part in index.parts(allowed)]

    @cached_property
    def _fragments(self) -> BitMap:
        existing, wanted = existing_fragments(self.snapshot), self.options.fragment_ids
        return existing if wanted is None else existing & BitMap(wanted)

    @cached_property
    def _matching(self) -> Addresses | None:
        """The addresses of the rows to search; None for all."""
        options = self.options
        filter = options.filter if self.wanted.is_prefilter else None
        if filter is None and options.fragment_ids is None:
            return None
        asked = ScanOptions(
            columns=(),
            with_row_address=True,
            filter=filter,
            fragment_ids=options.fragment_ids,
        )
        rows = scan(self.snapshot, with_selection(self.snapshot, asked, self.use))
        found = [batch.column(0).to_numpy() for batch in rows]
        return np.sort(np.concatenate([np.empty(0, dtype=np.uint64), *found]))

    def _flat_documents(
        self, path: str, fragments: BitMap, parameters: InvertedParameters
    ) -> Iterator[DocumentBatch]:
        options = ScanOptions(
            columns=(path,),
            with_row_address=True,
            filter=self.options.filter if self.wanted.is_prefilter else None,
            fragment_ids=tuple(int(one) for one in fragments),
        )
        for batch in scan(self.snapshot, options):
            rows = pa.RecordBatch.from_arrays(batch.columns, names=[VALUE, REFERENCE])
            yield from documents_of(rows, list_elements=parameters.list_elements)

    def _is_match(self, addresses: Addresses) -> Any:
        filter = self.options.filter
        assert filter is not None
        distinct, back = np.unique(addresses, return_inverse=True)
        rows = take_addresses(self.snapshot, distinct, filter.columns or [ROW_ID])
        masks = [filter.mask(batch) for batch in rows.combine_chunks().to_batches()]
        found = [mask.to_numpy(zero_copy_only=False) for mask in masks]
        return np.concatenate([np.empty(0, dtype=np.bool_), *found])[back]


def _is_plain(segment: OpenSegment) -> bool:
    """Return whether the index refers to rows by addresses that did not change."""
    return segment.moved is None and not segment.has_ids


def _live(snapshot: Snapshot, segment: OpenSegment, index: InvertedIndex) -> RowSet | None:
    """Return the rows of a segment that still exist, as it refers to them; None for all."""
    manifest, cache = snapshot.manifest, snapshot.session.indices
    place = (manifest.version, manifest.transaction_file, segment.segment.entry.uuid)
    key = (TextSearch, snapshot.store.identity, *place)
    found: tuple[RowSet | None] | None = cache.get(key)
    if found is None:
        rows = _live_rows(snapshot, segment, index)
        size_bytes = 64 if rows is None else rows.listed.nbytes + 64
        found = cache.put_if_absent(key, (rows,), size_bytes)
    return found[0]


def _live_rows(snapshot: Snapshot, segment: OpenSegment, index: InvertedIndex) -> RowSet | None:
    deleted = _deleted(snapshot, segment.fragments)
    if _is_plain(segment) and segment.fragments == segment.segment.entry.fragments:
        return RowSet(deleted, True) if len(deleted) else None
    references = np.unique(index.references)
    addresses, is_live = segment.addresses(references)
    is_live &= np.isin(fragment_ids_of(addresses), np.array(segment.fragments.to_array(), np.int64))
    is_live &= ~np.isin(addresses, deleted)
    return None if is_live.all() else RowSet(references[is_live])


def _deleted(snapshot: Snapshot, fragment_ids: BitMap) -> Addresses:
    """Return the addresses of the deleted rows of fragments, ascending."""
    found = [np.empty(0, dtype=np.uint64)]
    for fragment in sorted(snapshot.manifest.fragments, key=lambda one: one.id):
        deletions = snapshot.deletions(fragment) if fragment.id in fragment_ids else None
        if deletions is not None:
            found.append(addresses_in(fragment.id, deletions.offsets))
    return np.concatenate(found)
