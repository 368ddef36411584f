"""Search of the rows of a version whose texts are nearly the same as a text.

    covered by the index    candidates with a key of the text ──▶ distances of their signatures
    not covered             texts ──▶ signatures, of which those with a key of the text count
    both ──▶ the k nearest ──▶ postfilter ──▶ offset and limit

Source: docs/format/indices.md, "MINHASHLSH".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap

from pilum.blocks import number_array, number_values
from pilum.errors import CorruptFileError, InvalidInputError
from pilum.expressions.filter import BoundFilter
from pilum.format.meta_columns import ROW_ID
from pilum.format.rows import Addresses
from pilum.index.answers import RowSet
from pilum.index.minhash.index import MinHashIndex
from pilum.index.minhash.minhash_lsh import MINHASH_LSH
from pilum.index.minhash.parameters import MinHashParameters
from pilum.index.minhash.queries import MinHashQuery
from pilum.index.minhash.signatures import Signatures, Signer, distances
from pilum.lazy import cached_property
from pilum.table.indices.index_use import IndexUse
from pilum.table.indices.live import live_addresses, matching_rows, require_rows
from pilum.table.indices.nearest import DISTANCE
from pilum.table.indices.open_segments import OpenSegment, are_all_open, open_segments
from pilum.table.indices.ranking import Nearest
from pilum.table.indices.rows import existing_fragments, indexed_column
from pilum.table.indices.searches import Found, Search
from pilum.table.indices.segments import segments
from pilum.table.indices.use import with_selection
from pilum.table.read.scan import ScanOptions, scan_tables
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import addresses_of_ids

__all__ = ["NearDuplicateSearch"]

_DEFAULT_ROWS = 10
_OWN = {DISTANCE: pa.field(DISTANCE, pa.float32())}


@dataclass(frozen=True)
class NearDuplicateSearch(Search):
    """A search of near duplicates.

    Attributes:
        query: The text and the column.
        is_prefilter: Whether only rows that match the filter are searched.
        among: See `Search`.
    """

    query: MinHashQuery
    is_prefilter: bool = False
    among: Search | None = None

    score = DISTANCE

    @property
    def own(self) -> Mapping[str, pa.Field]:
        """See `Search.own`."""
        return _OWN

    def found(self, snapshot: Snapshot, options: ScanOptions, use: IndexUse) -> Found:
        """See `Search.found`."""
        limit = _DEFAULT_ROWS if options.limit is None else options.limit
        source = _Source.of(snapshot, self.query.column, use)
        query = source.signer.sign_query(self.query.text)
        run = _Run(snapshot, source, query, limit + options.offset)
        prefilter = self.prefilter(snapshot, options, use)
        best = run.nearest(prefilter, options.fragment_ids, use)
        addresses = best.ids
        if snapshot.has_stable_row_ids:
            addresses = addresses_of_ids(snapshot, best.ids)[0]
        found = Found(addresses, lambda _: number_array(best.distances), best.ids)
        return self.limited(snapshot, options, use, found)

    def steps(self, snapshot: Snapshot, options: ScanOptions, use: IndexUse) -> Iterator[str]:
        """See `Search.steps`."""
        source = _Source.of(snapshot, self.query.column, use)
        limit = _DEFAULT_ROWS if options.limit is None else options.limit
        filtered = ""
        if options.filter is not None or self.among is not None:
            filtered = ", prefilter" if self.is_prefilter else ", postfilter"
        yield (
            f"MinHashSearch: column={self.query.column}, limit={limit + options.offset}, "
            f"segments={len(source.segments)}{filtered}"
        )
        rest = source.rest(snapshot, options.fragment_ids, use)
        if rest:
            yield f"MinHashFlatSearch: {len(rest)} fragments that the index does not cover"


@dataclass(frozen=True, eq=False)
class _Source:
    """The index that answers searches of a column.

    Attributes:
        path: The column.
        parameters: The parameters of the index.
        segments: Its segments that cover any fragment.
    """

    path: str
    parameters: MinHashParameters
    segments: tuple[OpenSegment, ...]

    @classmethod
    def of(cls, snapshot: Snapshot, path: str, use: IndexUse) -> _Source:
        """Return the first index of a column.

        Raises:
            ColumnNotFoundError: If the column does not exist.
            InvalidInputError: If it has no index of near duplicates, or not the segments named.
            CorruptFileError: If an entry of the manifest is damaged.
        """
        key = cls, path, use.segments
        known: _Source | None = snapshot.prepared.get(key)
        if known is None:
            known = cls._new(snapshot, path, use)
            if are_all_open(snapshot, path):
                snapshot.prepared.put(key, known, 1)
        return known

    @classmethod
    def _new(cls, snapshot: Snapshot, path: str, use: IndexUse) -> _Source:
        leaf = indexed_column(snapshot, path).leaf
        own = [
            one
            for one in segments(snapshot)
            if one.type is MINHASH_LSH and leaf is not None and one.field_id == leaf.id
        ]
        own = [one for one in own if one.name == own[0].name]
        if not own:
            raise InvalidInputError(
                f"nearest: column {path!r} has no index of the type MINHASHLSH; create one with "
                f"create_scalar_index({path!r}, 'MINHASHLSH')"
            )
        wanted = {one.entry.uuid for one in own}
        if use.segments is not None:
            if not use.segments or use.segments - wanted:
                raise InvalidInputError(
                    f"index_segments: expected uuids of segments of the index {own[0].name!r}, "
                    f"which has {sorted(wanted)}; found {sorted(use.segments)}"
                )
            wanted &= use.segments
        details = [one.entry.message.index_details.value for one in own]
        MINHASH_LSH.require_same_parameters(details)
        found = [one for one in open_segments(snapshot, path) if one.segment.entry.uuid in wanted]
        return cls(path, MinHashParameters.from_details(details[0]), tuple(found))

    @cached_property
    def signer(self) -> Signer:
        """Return what makes the signature of a text."""
        return Signer(self.parameters)

    def rest(
        self, snapshot: Snapshot, fragment_ids: tuple[int, ...] | None, use: IndexUse
    ) -> BitMap:
        """Return the fragments whose texts are searched without the index."""
        if use.only_covered or use.segments is not None:
            return BitMap()
        key = existing_fragments, self
        uncovered: BitMap | None = snapshot.prepared.get(key)
        if uncovered is None:
            covered = BitMap().union(*(segment.fragments for segment in self.segments))
            uncovered = existing_fragments(snapshot) - covered
            snapshot.prepared.put(key, uncovered, 1)
        return uncovered if fragment_ids is None else uncovered & BitMap(fragment_ids)


@dataclass(frozen=True, eq=False)
class _Run:
    """One search of a version.

    Attributes:
        snapshot: The version.
        source: The index.
        query: The signature of the text; none if it has no tokens.
        k: Maximum number of rows.
    """

    snapshot: Snapshot
    source: _Source
    query: Signatures
    k: int

    def nearest(
        self, filter: BoundFilter | None, fragment_ids: tuple[int, ...] | None, use: IndexUse
    ) -> Nearest:
        """Return the nearest of the rows that match a filter."""
        if not len(self.query) or not self.k:
            return Nearest.of((), self.k)
        parts = []
        if self.source.segments:
            matching = matching_rows(self.snapshot, filter, fragment_ids, use)
            parts += [self._by_index(segment, matching) for segment in self.source.segments]
        rest = self.source.rest(self.snapshot, fragment_ids, use)
        if rest:
            parts.append(self._by_scan(rest, filter, use))
        best = Nearest.of(parts, self.k)
        if len(set(best.ids.tolist())) < len(best):
            raise CorruptFileError("the index names a row twice", f"column {self.source.path!r}")
        return best

    def _by_index(self, segment: OpenSegment, matching: RowSet | None) -> Nearest:
        index, best = segment.index, Nearest.of((), self.k)
        assert isinstance(index, MinHashIndex)
        for references, values in index.candidates(self.query):
            addresses, is_found = live_addresses(segment, references)
            if matching is not None:
                is_found &= matching.contains(addresses)
            require_rows(segment, addresses[is_found])
            ids = references if segment.has_ids else addresses
            best = self._better(best, ids, values, is_found)
        segment.count_grown(index)
        return best

    def _by_scan(self, fragments: BitMap, filter: BoundFilter | None, use: IndexUse) -> Nearest:
        asked = ScanOptions(
            columns=(self.source.path,),
            with_row_id=True,
            filter=filter,
            fragment_ids=tuple(int(one) for one in fragments),
        )
        best = Nearest.of((), self.k)
        for table in scan_tables(self.snapshot, with_selection(self.snapshot, asked, use)):
            for batch in table.to_batches():
                own = self.source.signer.sign(batch.column(0), number_values(batch.column(ROW_ID)))
                is_candidate = (own.keys == self.query.keys).any(axis=1)
                best = self._better(best, own.references, own.values, is_candidate)
        return best

    def _better(
        self,
        best: Nearest,
        ids: Addresses,
        values: NDArray[np.uint16],
        is_found: NDArray[np.bool_],
    ) -> Nearest:
        """Return the nearest of the best rows so far and those of others that were found."""
        if not is_found.all():
            ids, values = ids[is_found], values[is_found]
        more = Nearest.ordered(ids, distances(values, self.query), self.k)
        return Nearest.of((best, more), self.k) if len(best) else more
