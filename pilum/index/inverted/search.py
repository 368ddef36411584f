"""Full-text search: the documents of queries with the greatest scores.

    query ──▶ words of each column ──▶ a clause for each partition ──▶ its best k documents ──▶ hits

All partitions of an index share one set of totals, so their scores can be compared. Each search of
a partition begins with the k-th best score of those before it, and leaves out what cannot reach
it. A query of several columns is answered column by column, by row reference.

Source: docs/format/indices.md, "INVERTED".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from pilum.errors import InvalidInputError
from pilum.index.answers import RowSet
from pilum.index.inverted.columns import SearchPart, TextColumn
from pilum.index.inverted.combined_fields import combined_fields
from pilum.index.inverted.hits import Hits
from pilum.index.inverted.partition import Partition
from pilum.index.inverted.queries import (
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    FullTextOperator,
    FullTextQuery,
    MatchQuery,
    MultiMatchQuery,
    Occur,
    PhraseQuery,
)
from pilum.index.inverted.words import Scope, Words, analysed
from pilum.kernels import Clause, Posting

__all__ = ["search"]

_CLAUSE_BYTES = 512
"""The approximate memory of a clause, without posting lists."""


def search(columns: Mapping[str, TextColumn], query: FullTextQuery, k: int | None = None) -> Hits:
    """Search columns.

    Args:
        columns: Each column of the query.
        query: The query.
        k: Most rows to return; None for all that match.

    Returns:
        Rows with their scores, best first; of equal scores, the lowest row reference first.

    Raises:
        InvalidInputError: If the query cannot be answered: a phrase without positions, or text
            that is not a valid query of JSON documents.
        CorruptFileError: If an index is damaged.
    """
    if isinstance(query, MatchQuery | PhraseQuery):
        return _search_column(columns[query.column], query.column, query, k).best(k)
    return _hits(columns, query, k).best(k)


def _hits(columns: Mapping[str, TextColumn], query: FullTextQuery, k: int | None) -> Hits:
    if isinstance(query, CombinedFieldsQuery):
        return combined_fields(columns, query)
    if isinstance(query, MultiMatchQuery):
        return _greatest(columns, query, k)
    names = query.columns_of()
    if len(names) == 1 and not _has_several_columns(query):
        return _search_column(columns[names[0]], names[0], query, k)
    if isinstance(query, BooleanQuery):
        return _boolean(columns, query)
    if isinstance(query, BoostQuery):
        positive = _hits(columns, query.positive, None)
        negative = _hits(_within_all(columns, positive), query.negative, None)
        factor = np.float32(query.negative_boost)
        return positive.plus(negative, -factor)
    raise InvalidInputError(f"not a full-text query: {query!r}")


def _greatest(columns: Mapping[str, TextColumn], query: MultiMatchQuery, k: int | None) -> Hits:
    """Return each row with its greatest score of a column.

    A row among the best k is among the best k of the column that gives its score. What does not
    reach the k-th best score of the columns before it is left out.
    """
    found, floor = Hits.joined([]), np.float32(-np.inf)
    for match in query.matches():
        column = columns[match.column]
        more = _search_column(column, match.column, match, k, float(floor))
        found = Hits.joined([found, more]).greatest() if len(found) else more.greatest()
        if k is not None and len(found) >= k > 0:
            floor = np.nextafter(np.partition(found.scores, -k)[-k], np.float32(-np.inf))
    return found


def _boolean(columns: Mapping[str, TextColumn], query: BooleanQuery) -> Hits:
    """Combine the answers of clauses on several columns.

    As in the reference, the scores of MUST and those of SHOULD are added up by themselves, in the
    order of the clauses: sums of floats depend on their order.
    """
    must: Hits | None = None
    for clause in query.of(Occur.MUST):
        if must is None:
            must = _hits(columns, clause, None)
        else:
            must = must.both(_hits(_within_all(columns, must), clause, None))
    within = columns if must is None else _within_all(columns, must)
    should: Hits | None = None
    for clause in query.of(Occur.SHOULD):
        more = _hits(within, clause, None)
        should = more if should is None else should.any(more)
    result = should if must is None else must
    if must is not None and should is not None:
        result = must.plus(should)
    assert result is not None
    for clause in query.of(Occur.MUST_NOT):
        result = result.without(_hits(_within_all(columns, result), clause, None))
    return result


def _search_column(
    column: TextColumn,
    name: str,
    query: FullTextQuery,
    k: int | None,
    floor: float = -math.inf,
) -> Hits:
    """Search one column with the kernels, for scores above a floor if only `k` are needed."""
    found: list[Hits] = []
    least = None
    has_others = len(column.parts) + (column.flat is not None) > 1
    for scope, parts in column.scopes:
        clauses = _Clauses(column, name, scope)
        for part in parts:
            clause = clauses.of(query, part.partition)
            if clause is None:
                continue
            norms = part.partition.norms(scope.statistics)
            allowed = part.partition.allowed(part.allowed)
            numbers, scores = clause.search(norms, k, allowed, floor)
            found.append(_located(part, numbers, scores, are_best=k is not None))
            if k is not None and has_others:
                own = scores if least is None else np.concatenate([least, scores])
                least = -np.sort(-own)[:k]
                if len(least) == k > 0:  # equal scores of the next partition may have lower rows
                    floor = max(floor, float(np.nextafter(least[-1], np.float32(-np.inf))))
    return Hits.joined(found)


def _located(
    part: SearchPart, numbers: NDArray[np.uint32], scores: NDArray[np.float32], *, are_best: bool
) -> Hits:
    """Return documents as rows, which remain in the order of the best if their references do."""
    documents = part.partition.documents
    elements = tuple([level[numbers] for level in documents.elements])
    is_ordered = are_best and part.locate is None and part.partition.in_order()[1] is None
    return Hits(part.references(numbers), scores, elements, is_ordered)


@dataclass
class _Clauses:
    """Clauses of queries, in the partitions of a scope."""

    column: TextColumn
    name: str
    scope: Scope
    words: dict[int, tuple[Words, list[float]]] = field(default_factory=dict)

    def of(self, query: FullTextQuery, partition: Partition) -> Clause | None:
        """Return the clause of a query; None if no document of the partition can match."""
        if isinstance(query, MatchQuery | PhraseQuery):
            return self._of_words(query, partition)
        if isinstance(query, BoostQuery):
            positive = self.of(query.positive, partition)
            negative = None if positive is None else self.of(query.negative, partition)
            if positive is None or negative is None:
                return positive
            return positive.less(negative, query.negative_boost)
        assert isinstance(query, BooleanQuery)
        return self._boolean(query, partition)

    def _of_words(self, query: MatchQuery | PhraseQuery, partition: Partition) -> Clause | None:
        """Return the clause of a query, which the column keeps with the lists that it refers to."""
        kept, key = self.column.clauses, (query, partition)
        found: tuple[Clause | None] | None = kept.get(key)
        if found is not None:
            return found[0]
        if isinstance(query, MatchQuery):
            clause, postings = self._match(query, partition)
        else:
            clause, postings = self._phrase(query, partition)
        size_bytes = sum(posting.size_bytes for posting in postings)
        kept.put(key, (clause,), size_bytes + _CLAUSE_BYTES + len(query.query))
        return clause

    def _words(self, query: MatchQuery | PhraseQuery) -> tuple[Words, list[float]]:
        found = self.words.get(id(query))
        if found is None:
            words = analysed(query, self.column.analyzer, self.column.partitions)
            found = self.words[id(query)] = words, words.idf(self.scope)
        return found

    def _match(
        self, query: MatchQuery, partition: Partition
    ) -> tuple[Clause | None, Sequence[Posting]]:
        words, idf = self._words(query)
        needs_all = query.operator is FullTextOperator.AND
        ids = words.ids(partition)
        made, postings = self._alternatives(words.groups, ids, idf, partition, needs_all=needs_all)
        return made if made is None or query.boost == 1 else made.scaled(query.boost), postings

    def _alternatives(
        self,
        words: Sequence[Sequence[int]],
        ids: Sequence[int],
        idf: Sequence[float],
        partition: Partition,
        *,
        needs_all: bool,
    ) -> tuple[Clause | None, Sequence[Posting]]:
        """Return the clause of groups of words: any word of any group, or of each."""
        groups = [group for group in _present(words, ids) if group or needs_all]
        if not groups or not all(groups):
            return None, ()
        wanted = [ids[word] for group in groups for word in group]
        postings = partition.postings(wanted, self.scope.statistics)
        opened = iter(postings)
        clauses = [
            _any([Clause.token(next(opened), idf[word]) for word in group]) for group in groups
        ]
        return Clause.all(clauses) if needs_all and len(clauses) > 1 else _any(clauses), postings

    def _phrase(
        self, query: PhraseQuery, partition: Partition
    ) -> tuple[Clause | None, Sequence[Posting]]:
        if not partition.rows.has_positions:
            raise InvalidInputError(
                f"column {self.name!r}: the index has no positions, which phrases need; create it "
                "with with_position=True"
            )
        words, idf = self._words(query)
        ids = words.ids(partition)
        if len(words.groups) == 1:  # such as n-grams
            return self._alternatives(words.groups, ids, idf, partition, needs_all=False)
        groups = _present(words.groups, ids)
        if not groups or not all(groups):
            return None, ()
        wanted = [ids[word] for group in groups for word in group]
        postings = partition.postings(wanted, self.scope.statistics, with_positions=True)
        opened = iter(postings)
        sequence = [
            (position, [(next(opened), idf[word]) for word in group])
            for position, group in zip(words.positions, groups, strict=True)
        ]
        sequence.sort(key=itemgetter(0))  # a dictionary may return a word after its parts
        return Clause.phrase(sequence, query.slop), postings

    def _boolean(self, query: BooleanQuery, partition: Partition) -> Clause | None:
        must = [self.of(clause, partition) for clause in query.of(Occur.MUST)]
        required = [clause for clause in must if clause is not None]
        if len(required) < len(must):
            return None
        should = self._all_of(query.of(Occur.SHOULD), partition)
        if not required and not should:
            return None
        return Clause.boolean(required, should, self._all_of(query.of(Occur.MUST_NOT), partition))

    def _all_of(self, queries: Sequence[FullTextQuery], partition: Partition) -> list[Clause]:
        found = (self.of(query, partition) for query in queries)
        return [clause for clause in found if clause is not None]


def _present(groups: Sequence[Sequence[int]], ids: Sequence[int]) -> list[list[int]]:
    """Return the words of each group that a partition contains, in the order of their ids.

    The scores of alternatives are added in this order, as the reference does.
    """
    return [
        sorted((word for word in group if ids[word] >= 0), key=ids.__getitem__) for group in groups
    ]


def _any(clauses: list[Clause]) -> Clause:
    return clauses[0] if len(clauses) == 1 else Clause.any(clauses)


def _has_several_columns(query: FullTextQuery) -> bool:
    """Return whether a part of a query is one that combines columns, even if it names only one."""
    if isinstance(query, BooleanQuery):
        return any(_has_several_columns(clause) for _, clause in query.queries)
    if isinstance(query, BoostQuery):
        return _has_several_columns(query.positive) or _has_several_columns(query.negative)
    return isinstance(query, (MultiMatchQuery, CombinedFieldsQuery))


def _within_all(columns: Mapping[str, TextColumn], hits: Hits) -> Mapping[str, TextColumn]:
    rows = RowSet.of(hits.references)
    return {name: column.within(rows) for name, column in columns.items()}
