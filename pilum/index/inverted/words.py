"""The words of a query, in all partitions of a column.

    query           quick foxes       "quick" at position 0, "fox" at position 1
    words           quick, fox        the distinct tokens; fuzzy words are replaced by similar ones
    groups          [0] [1]           words at the same position: alternatives of each other
    ids             41 7 | -1 3       of each word in each partition
    scopes          idf of each word, with the totals of the documents that are searched together

Rows that no index covers are a scope of their own: their scores count the documents of the index
and their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pilum.index.inverted.partition import Partition, Statistics
from pilum.index.inverted.queries import MatchQuery, PhraseQuery
from pilum.index.inverted.tokens import Analyzer
from pilum.kernels import bm25_idf

__all__ = ["Scope", "Words", "analysed"]


@dataclass(frozen=True)
class Scope:
    """Partitions whose documents are scored together.

    Attributes:
        partitions: The partitions that are searched.
        counted: The partitions whose documents count.
        statistics: Totals of these.
    """

    partitions: Sequence[Partition]
    counted: Sequence[Partition]
    statistics: Statistics

    @classmethod
    def of(cls, partitions: Sequence[Partition], counted: Sequence[Partition]) -> Scope:
        """Compute the totals."""
        total = sum((one.statistics for one in counted), Statistics())
        return cls(partitions, counted, total)


@dataclass(frozen=True, eq=False)
class Words:
    """The words of a query.

    Attributes:
        texts: The distinct words.
        groups: For each position of the query, the words there; each is an index into `texts`.
        positions: The positions, in the order in which they first occur.
    """

    texts: Sequence[str]
    groups: Sequence[Sequence[int]]
    positions: Sequence[int]
    _found: dict[Partition, list[int]] = field(default_factory=dict)

    def ids(self, partition: Partition) -> list[int]:
        """Return the id of each word in a partition; -1 if it does not contain the word."""
        found = self._found.get(partition)
        if found is None:
            found = self._found[partition] = partition.ids(self.texts)
        return found

    def frequencies(self, partitions: Sequence[Partition]) -> list[int]:
        """Return how many documents of partitions contain each word."""
        if not partitions:
            return [0] * len(self.texts)
        counts = [partition.frequencies(self.ids(partition)) for partition in partitions]
        return counts[0] if len(counts) == 1 else [sum(own) for own in zip(*counts, strict=True)]

    def idf(self, scope: Scope) -> list[float]:
        """Return the idf of each word."""
        total = scope.statistics.num_documents
        counts = self.frequencies(scope.counted)
        return [bm25_idf(total, min(count, total)) for count in counts]


def analysed(
    query: MatchQuery | PhraseQuery, analyzer: Analyzer, partitions: Sequence[Partition]
) -> Words:
    """Analyse the text of a query.

    Args:
        query: The query.
        analyzer: The text analysis of the column.
        partitions: All partitions, for words that are similar to fuzzy ones.

    Raises:
        InvalidInputError: If the text is not a valid query of JSON documents.
        CorruptFileError: If the index is damaged.
    """
    if isinstance(query, MatchQuery) and query.fuzziness:
        return _similar(query, query.fuzziness, analyzer, partitions)
    return _words(analyzer.words(query.query))


def _words(tokens: Iterable[tuple[str, int]]) -> Words:
    texts: dict[str, int] = {}
    groups: dict[int, dict[int, None]] = {}
    for token, position in tokens:
        word = texts.setdefault(token, len(texts))
        groups.setdefault(position, {})[word] = None
    return Words(list(texts), [list(group) for group in groups.values()], list(groups))


def _similar(
    query: MatchQuery, distance: int, analyzer: Analyzer, partitions: Sequence[Partition]
) -> Words:
    """Replace each word by those of all partitions that are similar to it."""
    found, bytes_before = analyzer.split(query.query)
    words = [
        (word, distance, before + query.prefix_length)
        for word, before in zip(found.tokens.to_pylist(), bytes_before, strict=True)
    ]
    similar: list[set[str]] = [set() for _ in words]
    for partition in partitions:
        tokens, _, ends = partition.tokens.similar(words, query.max_expansions)
        texts, start = tokens.to_pylist(), 0
        for group, end in zip(similar, ends, strict=True):
            group.update(texts[start:end])
            start = end
    chosen: list[tuple[str, int]] = []
    for group, position in zip(similar, found.positions.tolist(), strict=True):
        left = query.max_expansions - len(chosen)
        chosen += [(text, position) for text in sorted(group, key=str.encode)[:left]]
    made = _words(chosen)
    missing = [position for position in found.positions.tolist() if position not in made.positions]
    groups = [*made.groups, *([] for _ in missing)]
    return Words(made.texts, groups, [*made.positions, *missing])
