"""Rows that no index covers, as a partition in memory.

Only tokens of the query are kept, so that the memory of a search depends on how often these occur.
Documents without any of them still count.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pilum.index.inverted.building import DocumentBatch
from pilum.index.inverted.partition import Documents, Partition
from pilum.index.inverted.posting_rows import MadeRows
from pilum.index.inverted.queries import FullTextQuery, MatchQuery, leaves
from pilum.index.inverted.tokens import Analyzer, TokenSet
from pilum.kernels import GrowingLists

__all__ = ["flat_partition", "tokens_of"]


def tokens_of(query: FullTextQuery, column: str, analyzer: Analyzer) -> list[str] | None:
    """Return the tokens of a query in a column; None if it is fuzzy, so that all tokens matter.

    Raises:
        InvalidInputError: If the text is not a valid query of JSON documents.
    """
    found: dict[str, None] = {}
    for leaf in leaves(query):
        if column not in leaf.columns_of():
            continue
        if isinstance(leaf, MatchQuery) and leaf.fuzziness:
            return None
        found.update(dict.fromkeys(analyzer.query(leaf.query).tokens.to_pylist()))
    return list(found)


def flat_partition(
    batches: Iterator[DocumentBatch],
    analyzer: Analyzer,
    tokens: list[str] | None,
    *,
    rounds_lengths: bool = False,
) -> Partition:
    """Analyse rows and return them as a partition.

    Args:
        batches: The documents.
        analyzer: The text analysis of the column.
        tokens: The tokens that are searched; None for all.
        rounds_lengths: Whether the index rounds the lengths of documents in scores.
    """
    builder = analyzer.builder()
    if tokens is not None:
        builder.add(pa.array(tokens, pa.large_utf8()))
    documents, lists = [], GrowingLists(True)
    for batch in batches:
        found = builder.analyze(batch.texts)
        lengths = np.diff(found.ends, prepend=np.int64(0))
        kept = batch.counted(lengths)
        elements = tuple(level[kept] for level in batch.elements)
        own = Documents(batch.references[kept], lengths[kept].astype(np.uint32), elements)
        documents.append(own)
        ids, positions, ends = found.token_ids, found.positions, found.ends[kept]
        if tokens is not None:
            is_searched = ids < len(tokens)
            ends = np.concatenate([[0], np.cumsum(is_searched)])[ends]
            ids, positions = ids[is_searched], positions[is_searched]
        lists.add(ids, positions, ends)
    joined = Documents.joined(documents)
    if tokens is None:
        token_set, num_tokens = builder.finish(), len(builder)
    else:
        token_set, num_tokens = _set_of(tokens, analyzer), len(tokens)
    entries = lists.entries(np.arange(num_tokens, dtype=np.uint32))
    rows = MadeRows.of(entries, joined.lengths, rounds_lengths=rounds_lengths)
    return Partition(joined, token_set, rows)


def _set_of(tokens: list[str], analyzer: Analyzer) -> TokenSet:
    builder = analyzer.builder()
    builder.add(pa.array(tokens, pa.large_utf8()))
    return builder.finish()
