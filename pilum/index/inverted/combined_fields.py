"""Columns that are searched as if they were one text (BM25F).

    frequency   sum over columns of weight * frequency        f
    length      sum over columns of weight * tokens           len
    documents   greatest number of a column                   N
    average     sum over columns of weight * tokens / N       avg
    df          greatest number of a column, for each word

    score = sum over distinct words of idf * (k1 + 1) * f / (f + k1 * (1 - b + b * len / avg))

Source: docs/format/indices.md, "INVERTED".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pilum.format.rows import Addresses
from pilum.index.inverted.columns import SearchPart, TextColumn
from pilum.index.inverted.hits import Hits
from pilum.index.inverted.queries import CombinedFieldsQuery, FullTextOperator, MatchQuery
from pilum.index.inverted.words import Words, analysed
from pilum.kernels import Entries, bm25_idf

__all__ = ["combined_fields"]

_K1, _B = np.float32(1.2), np.float32(0.75)


def combined_fields(columns: Mapping[str, TextColumn], query: CombinedFieldsQuery) -> Hits:
    """Return all rows that contain words in some column.

    Raises:
        CorruptFileError: If an index is damaged.
    """
    weights = query.boosts or [1.0] * len(query.columns)
    fields = [
        _Field(columns[name], query.query, name, np.float32(weight))
        for name, weight in zip(query.columns, weights, strict=True)
    ]
    total = max(field.num_documents for field in fields)
    if total == 0:
        return Hits.joined([])
    average = np.float32(sum(field.weight * field.num_tokens for field in fields)) / np.float32(
        total
    )
    texts = list(dict.fromkeys(text for field in fields for text in field.texts))
    found = {text: _joined([field.occurrences(text) for field in fields]) for text in texts}
    rows = np.unique(np.concatenate([np.empty(0, np.uint64), *(at for at, _ in found.values())]))
    lengths = np.zeros(len(rows), np.float32)
    for field in fields:
        lengths += field.weight * field.lengths_of(rows)
    norms = _K1 * (1 - _B + _B * lengths / average)
    scores, counts = np.zeros(len(rows), np.float32), np.zeros(len(rows), np.int64)
    for text in texts:
        references, frequencies = found[text]
        places = rows.searchsorted(references)
        df = max(field.df(text) for field in fields)
        idf = np.float32(bm25_idf(total, min(df, total)))
        weight = (_K1 + 1) * frequencies / (frequencies + norms[places])
        scores[places] += idf * weight
        counts[places] += 1
    if query.operator is FullTextOperator.AND:
        kept = counts == len(texts)
        rows, scores = rows[kept], scores[kept]
    return Hits(rows, scores.astype(np.float32))


class _Field:
    """A column of the query."""

    def __init__(self, column: TextColumn, text: str, name: str, weight: np.float32) -> None:
        self.weight = weight
        self._parts = [*column.parts, *([] if column.flat is None else [column.flat])]
        partitions = column.partitions
        self._words: Words = analysed(MatchQuery(text, name), column.analyzer, partitions)
        self.texts = self._words.texts
        self._ids = [self._words.ids(one) for one in partitions]
        self._df = dict(zip(self.texts, self._words.frequencies(partitions), strict=True))
        self.num_documents = sum(one.statistics.num_documents for one in partitions)
        self.num_tokens = sum(one.statistics.num_tokens for one in partitions)

    def df(self, text: str) -> int:
        """Return how many documents contain a word."""
        return self._df.get(text, 0)

    def occurrences(self, text: str) -> tuple[Addresses, NDArray[np.float32]]:
        """Return the rows that contain a word, and its frequencies times the weight."""
        if text not in self._df:
            return np.empty(0, np.uint64), np.empty(0, np.float32)
        word = self.texts.index(text)
        found = [
            _in_part(part, ids[word]) for part, ids in zip(self._parts, self._ids, strict=True)
        ]
        references = np.concatenate([np.empty(0, np.uint64), *(at for at, _ in found)])
        frequencies = np.concatenate([np.empty(0, np.float32), *(many for _, many in found)])
        return references, self.weight * frequencies.astype(np.float32)

    def lengths_of(self, rows: Addresses) -> NDArray[np.float32]:
        """Return the number of tokens of rows; 0 for those that are not documents."""
        lengths = np.zeros(len(rows), np.float32)
        for part in self._parts:
            references = part.references()
            kept = np.flatnonzero(np.isin(references, rows))
            kept = kept[part.may_be_found(kept)]
            own = part.partition.documents.lengths[kept]
            lengths[rows.searchsorted(references[kept])] = own
        return lengths


def _in_part(part: SearchPart, id: int) -> tuple[Addresses, NDArray[np.uint32]]:
    partition = part.partition
    if id < 0:
        return np.empty(0, np.uint64), np.empty(0, np.uint32)
    table = partition.rows.read(np.array([id], np.int64), with_positions=False)
    row = int(table.rows[0])
    lists, offsets, data = table.postings
    entries = Entries.read(
        (lists[row : row + 2], offsets, data),
        partition.rows.lengths[id : id + 1],
        partition.rows.layout,
        len(partition.documents),
    )
    numbers = entries.documents
    kept = part.may_be_found(numbers)
    return part.references(numbers[kept]), entries.frequencies[kept]


def _joined(
    parts: list[tuple[Addresses, NDArray[np.float32]]],
) -> tuple[Addresses, NDArray[np.float32]]:
    """Add the frequencies of the same rows, in the order of the columns."""
    rows = np.unique(np.concatenate([at for at, _ in parts]))
    frequencies = np.zeros(len(rows), np.float32)
    for references, own in parts:
        frequencies[rows.searchsorted(references)] += own
    return rows, frequencies
