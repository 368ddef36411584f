"""Full-text search of a version: the best rows of a query, and their columns.

    query ──▶ columns: segments of an index, and the rows that none of them covers
          ──▶ hits: addresses and scores, without deleted rows ──▶ filter ──▶ columns of the rows

With a prefilter, only rows that match the filter are searched. Otherwise the filter is tested for
the best rows, so that fewer than the limit may remain. Source: docs/format/indices.md, "INVERTED".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from weakref import ref

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from pilum.errors import CorruptFileError, InvalidInputError, UnsupportedTypeError
from pilum.expressions.filter import BoundFilter, SqlFilter
from pilum.expressions.lists import is_list
from pilum.format.rows import MAX_ROWS, Addresses, addresses_of_rows, fragment_ids_of
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
    DocumentGranularity,
    FullTextQuery,
    MatchQuery,
    MultiMatchQuery,
    PhraseQuery,
    leaves,
)
from pilum.index.inverted.search import search
from pilum.index.inverted.tokens import Analyzer
from pilum.lazy import cached_property
from pilum.table.indices.index_use import IndexUse
from pilum.table.indices.live import allowed_rows, is_plain, matching_rows
from pilum.table.indices.open_segments import (
    OpenSegment,
    are_all_open,
    open_outlived_segments,
    open_segments,
)
from pilum.table.indices.rows import document_type, existing_fragments, indexed_column
from pilum.table.indices.searches import Found, Search
from pilum.table.indices.segments import segments
from pilum.table.read.scan import ScanOptions, scan
from pilum.table.read.snapshot import Snapshot

__all__ = ["ELEMENT", "SCORE", "TextSearch", "finds_elements"]

SCORE, ELEMENT = "_score", "_doc_index"
"""Columns of the result: the score, and the place in a list of a document that is an element."""

_OWN = {SCORE: pa.field(SCORE, pa.float32()), ELEMENT: pa.field(ELEMENT, pa.list_(pa.uint32()))}
_KEPT_BYTES = 512
"""The approximate memory of an entry of a cache without the rows."""

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
class TextSearch(Search):
    """A full-text search.

    Attributes:
        query: The query; text for all columns that have an index. Text in quotes is a phrase.
        is_prefilter: Whether only rows that match the filter are searched.
        among: See `Search`.
        has_elements: Whether the documents that it finds are elements of lists.
    """

    query: FullTextQuery | str
    is_prefilter: bool = False
    among: Search | None = None
    has_elements: bool = False

    score = SCORE

    @property
    def own(self) -> Mapping[str, pa.Field]:
        """See `Search.own`."""
        return _OWN

    @property
    def last(self) -> tuple[str, ...]:
        """See `Search.last`."""
        return (ELEMENT,) if self.has_elements else ()

    def found(self, snapshot: Snapshot, options: ScanOptions, use: IndexUse) -> Found:
        """See `Search.found`."""
        if self.is_prefilter:
            options = replace(options, filter=self.prefilter(snapshot, options, use))
        hits = _Search(snapshot, options, self, use).hits()
        ids = None if snapshot.has_stable_row_ids else hits.references
        return Found(hits.references, partial(_column, hits), ids)


def finds_elements(snapshot: Snapshot, query: FullTextQuery, use: IndexUse) -> bool:
    """Return whether the documents of a query of one column are elements of lists.

    The query says so, or else the index that is used.

    Args:
        snapshot: The version.
        query: The query.
        use: Which indices the search may use.

    Raises:
        ColumnNotFoundError: If the column does not exist.
    """
    if not isinstance(query, MatchQuery | PhraseQuery) or query.column is None:
        return False
    if query.document_granularity is not None:
        return query.document_granularity is DocumentGranularity.LIST_ELEMENT
    needs_positions = isinstance(query, PhraseQuery)
    key = finds_elements, query.column, needs_positions, use.segments
    known: tuple[bool] | None = snapshot.prepared.get(key)
    if known is None:
        found = _segments_of_index(snapshot, query.column, use, needs_positions=needs_positions)
        known = (bool(found) and _text_index(found[0]).parameters.list_elements,)
        if are_all_open(snapshot, query.column):
            snapshot.prepared.put(key, known, 1)
    return known[0]


def _segments_of_index(
    snapshot: Snapshot,
    path: str,
    use: IndexUse,
    *,
    needs_positions: bool,
    wants_elements: bool | None = None,
) -> Sequence[OpenSegment]:
    """Return the segments of one index of a column: the first, or the first that has positions.

    Its documents are rows or elements of lists, as the query says.
    """
    by_name: dict[str, list[OpenSegment]] = {}
    parameters: dict[str, InvertedParameters] = {}
    for segment in open_segments(snapshot, path) or open_outlived_segments(snapshot, path):
        is_wanted = use.segments is None or segment.segment.entry.uuid in use.segments
        index = segment.index
        if isinstance(index, InvertedIndex) and is_wanted:
            by_name.setdefault(segment.name, []).append(segment)
            parameters.setdefault(segment.name, index.parameters)
    groups = [name for name in by_name if wants_elements in {None, parameters[name].list_elements}]
    if by_name and not groups:
        wanted = DocumentGranularity.LIST_ELEMENT if wants_elements else DocumentGranularity.ROW
        raise InvalidInputError(
            f"full_text_query: column {path!r}: the query asks for documents of the kind "
            f"{wanted.value!r}, but those of the index {next(iter(by_name))!r} are others; "
            "leave document_granularity out, or create an index with it"
        )
    suited = [name for name in groups if parameters[name].with_position or not needs_positions]
    return by_name[(suited or groups)[0]] if groups else []


def _column(hits: Hits, name: str) -> pa.Array:
    if name != SCORE:
        return _elements(hits)
    scores = np.ascontiguousarray(hits.scores)
    return pa.Array.from_buffers(pa.float32(), len(scores), [None, pa.py_buffer(scores)])


def _elements(hits: Hits) -> pa.Array:
    found = hits.element_lists()
    if found is None:
        raise InvalidInputError(
            f"{ELEMENT}: no column that was searched has an index of list elements"
        )
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """The segments and fragments that a search of a column reads.

    Attributes:
        segments: The segments of its index.
        rest: The fragments that none of them covers, which are scanned.
    """

    segments: Sequence[OpenSegment]
    rest: BitMap


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
        sizes = [column.clauses.size_bytes for column in columns.values()]
        found = search(columns, query, most)
        if sizes != [column.clauses.size_bytes for column in columns.values()]:
            self._count_bytes(columns)
        if options.offset:
            found = found.take(np.arange(len(found))[options.offset :])
        if self.wanted.is_prefilter or (options.filter is None and self.wanted.among is None):
            return found
        rows = Found(found.references, partial(_column, found))
        return found.take(self.wanted.is_kept(self.snapshot, options.filter, self.use, rows))

    def _count_bytes(self, paths: Iterable[str]) -> None:
        """Update the size of indices in the session: posting lists were opened."""
        for path in paths:
            for segment in open_segments(self.snapshot, path):
                segment.count_bytes()

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
        own: Sequence[FullTextQuery] = (query,)
        if not isinstance(query, MatchQuery | PhraseQuery):
            own = [leaf for leaf in leaves(query) if path in leaf.columns_of()]
        source = self._source(path, own)
        if not source.segments or (source.rest and not self.use.only_covered):
            return self._column_with_rest(path, query, own, source)
        indices = [_text_index(segment) for segment in source.segments]
        if self.options.fragment_ids is not None or self._filter is not None:
            return TextColumn(indices[0].analyzer, self._parts(source.segments))
        # An index that the session evicts takes along what was derived from it.
        key = tuple([segment.version_key for segment in source.segments])
        found: TextColumn | None = indices[0].columns.get(key)
        if found is None:
            found = TextColumn(indices[0].analyzer, self._parts(source.segments))
            indices[0].columns.put(key, found, 1)
        return found

    def _column_with_rest(
        self, path: str, query: FullTextQuery, own: Sequence[FullTextQuery], source: _Source
    ) -> TextColumn:
        """Return a column with rows that no segment covers, unless these are left out."""
        if source.segments:
            used = _text_index(source.segments[0])
            analyzer, parameters = used.analyzer, used.parameters
        else:
            elements = _wants_elements(path, self._type_of(path), own)
            parameters = InvertedParameters.from_keywords(_PLAIN)
            parameters = replace(parameters, list_elements=bool(elements))
            analyzer = Analyzer(parameters)
        parts = self._parts(source.segments)
        if not source.rest:
            return TextColumn(analyzer, parts)
        flat = flat_partition(
            self._flat_documents(path, source.rest, parameters),
            analyzer,
            tokens_of(query, path, analyzer),
            rounds_lengths=parameters.block_size == 256,
        )
        return TextColumn(analyzer, parts, SearchPart(flat))

    def _source(self, path: str, queries: Sequence[FullTextQuery]) -> _Source:
        """Return what to read for queries of a column, which the version remembers."""
        kinds = frozenset(map(_kind_of, queries))
        key = _Source, path, kinds, self.use, self.options.fragment_ids
        found: _Source | None = self.snapshot.prepared.get(key)
        if found is None:
            elements = _wants_elements(path, self._type_of(path), queries)
            needs_positions = any(isinstance(query, PhraseQuery) for query in queries)
            segments = _segments_of_index(
                self.snapshot,
                path,
                self.use,
                needs_positions=needs_positions,
                wants_elements=elements,
            )
            covered: BitMap = BitMap().union(*(segment.fragments for segment in segments))
            found = _Source(segments, self._fragments - covered)
            if are_all_open(self.snapshot, path):
                self.snapshot.prepared.put(key, found, 1)
        return found

    def _type_of(self, path: str) -> pa.DataType:
        column = indexed_column(self.snapshot, path)
        try:
            INVERTED.require_supported(path, document_type(column))
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(f"full_text_query: {error}") from None
        return column.arrow.type

    def _parts(self, segments: Sequence[OpenSegment]) -> list[SearchPart]:
        parts: list[SearchPart] = []
        for segment in segments:
            index = _text_index(segment)
            parts += index.parts(self._allowed(segment, index), _locator(segment))
        return parts

    def _allowed(self, segment: OpenSegment, index: InvertedIndex) -> RowSet | None:
        """Return the rows of a segment to search; None for all.

        The session keeps those of a filter that is asked a second time, but not the filter, which
        may be a long list of values.
        """
        filter = self._filter
        if not isinstance(filter, SqlFilter) or not filter.is_lasting:
            return self._rows(segment, index)
        cache = self.snapshot.session.indices
        key = _Search, segment.version_key, id(filter), self.use, self.options.fragment_ids
        kept: tuple[ref[SqlFilter], RowSet | None] | None = cache.get(key)
        is_known = kept is not None and kept[0]() is filter
        if kept is not None and is_known and kept[1] is not None:
            return kept[1]
        allowed = self._rows(segment, index)
        if is_known and allowed is not None:
            cache.put(key, (ref(filter), allowed), _KEPT_BYTES + allowed.listed.nbytes)
        else:
            cache.put(key, (ref(filter), None), _KEPT_BYTES)
        return allowed

    def _rows(self, segment: OpenSegment, index: InvertedIndex) -> RowSet | None:
        has_others = not _are_covered(segment, index)
        return allowed_rows(
            segment, lambda: index.references, self._matching, has_others=has_others
        )

    @cached_property
    def _fragments(self) -> BitMap:
        existing, wanted = existing_fragments(self.snapshot), self.options.fragment_ids
        return existing if wanted is None else existing & BitMap(wanted)

    @cached_property
    def _matching(self) -> RowSet | None:
        """The addresses of the rows to search; None for all."""
        return matching_rows(self.snapshot, self._filter, self.options.fragment_ids, self.use)

    @property
    def _filter(self) -> BoundFilter | None:
        """The filter of the rows to search; None for none."""
        return self.options.filter if self.wanted.is_prefilter else None

    def _flat_documents(
        self, path: str, fragments: BitMap, parameters: InvertedParameters
    ) -> Iterator[DocumentBatch]:
        options = ScanOptions(
            columns=(path,),
            with_row_address=True,
            filter=self._filter,
            fragment_ids=tuple(int(one) for one in fragments),
        )
        for batch in scan(self.snapshot, options):
            rows = pa.RecordBatch.from_arrays(batch.columns, names=[VALUE, REFERENCE])
            yield from documents_of(rows, list_elements=parameters.list_elements)


def _text_index(segment: OpenSegment) -> InvertedIndex:
    index = segment.index
    assert isinstance(index, InvertedIndex)
    return index


def _are_covered(segment: OpenSegment, index: InvertedIndex) -> bool:
    """Return whether the documents of an index are rows of the covered fragments.

    Others are in fragments that were covered, but have other values since. The session remembers
    the answer. Addresses in segments that lost fragments, or whose rows moved, are looked up one by
    one anyway.

    Raises:
        CorruptFileError: If documents cannot be rows of the table.
    """
    cache, key = segment.snapshot.session.indices, (_are_covered, segment.version_key)
    known: bool | None = cache.get(key)
    if known is not None:
        return known
    num_elsewhere = 0
    for partition in index.partitions:
        references, _ = partition.in_order()
        if segment.has_ids:
            num_ids = segment.snapshot.manifest.next_row_id
            num_wrong = len(references) - int(references.searchsorted(np.uint64(num_ids)))
        else:
            num_others, num_wrong = _num_elsewhere(segment, references)
            num_elsewhere += num_others
        if num_wrong:
            raise CorruptFileError(
                f"documents that are no rows of the table: {num_wrong}", partition.path
            )
    cache.put(key, not num_elsewhere, 1)
    return not num_elsewhere


def _num_elsewhere(segment: OpenSegment, addresses: Addresses) -> tuple[int, int]:
    """Return how many sorted addresses are not in the covered fragments, and of no row ever.

    Both are 0 if some of these fragments are gone.
    """
    if not is_plain(segment) or segment.fragments != segment.segment.entry.fragments:
        return 0, 0
    fragments = np.array(segment.fragments, np.int64)
    sizes = np.array(segment.segment.sizes, np.int64)
    starts = addresses.searchsorted(addresses_of_rows(fragments, np.zeros_like(sizes)))
    ends = addresses.searchsorted(addresses_of_rows(fragments, sizes))
    lasts = addresses.searchsorted(addresses_of_rows(fragments, np.full_like(sizes, MAX_ROWS)))
    highest = segment.snapshot.manifest.highest_possible_fragment_id
    num_wrong = int((lasts - ends).sum()) + int((fragment_ids_of(addresses) > highest).sum())
    return len(addresses) - int((ends - starts).sum()), num_wrong


def _locator(segment: OpenSegment) -> Callable[[Addresses], Addresses] | None:
    """Return the function that converts references to addresses; None if they are the same."""
    return None if is_plain(segment) else lambda rows: segment.addresses(rows)[0]


def _kind_of(query: FullTextQuery) -> tuple[bool, DocumentGranularity | None]:
    """Return what the choice of an index depends on."""
    if isinstance(query, MatchQuery | PhraseQuery):
        return isinstance(query, PhraseQuery), query.document_granularity
    return False, None


def _wants_elements(path: str, kind: pa.DataType, queries: Sequence[FullTextQuery]) -> bool | None:
    """Return whether queries of a column ask for elements of lists; None if they do not say."""
    asked = {
        query.document_granularity
        for query in queries
        if isinstance(query, MatchQuery | PhraseQuery) and query.document_granularity is not None
    }
    if len(asked) > 1:
        raise InvalidInputError(
            f"full_text_query: column {path!r}: parts of the query differ in document_granularity"
        )
    if not asked:
        return None
    has_elements = DocumentGranularity.LIST_ELEMENT in asked
    if has_elements and not is_list(kind):
        raise InvalidInputError(
            f"full_text_query: column {path!r} of type {kind} has no lists, so "
            "document_granularity cannot be 'list_element'"
        )
    return has_elements
