"""Partitions to one partition: their documents one after the other, their tokens united.

    numbers     for each source, the new number of each document, or that it is left out
    tokens      united, in the order of their bytes
    entries     of a run of tokens: read from each source, renumbered, joined, written

Only the documents, the tokens and one run of entries are in memory. Tokens whose documents are all
left out disappear. Scores are computed again with the new totals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pilum.errors import CorruptFileError, InvalidInputError
from pilum.index.base import Moves
from pilum.index.files import IndexFolderWriter
from pilum.index.inverted.parameters import InvertedParameters
from pilum.index.inverted.partition import Documents, Partition
from pilum.index.inverted.tokens import TokenSet
from pilum.index.inverted.writing import (
    PostingWriter,
    token_runs,
    write_documents,
    write_tokens,
)
from pilum.kernels import Entries, GrowingLists

__all__ = ["merge_partitions"]

_GONE = np.uint32(2**32 - 1)
_MAX_DOCUMENTS = 2**32 - 2


def merge_partitions(
    parts: Sequence[tuple[Partition, Moves | None]],
    parameters: InvertedParameters,
    folder: IndexFolderWriter,
    number: int,
) -> None:
    """Write the files of one partition with the documents of others.

    Args:
        parts: The partitions, and where their rows are now; None if they did not move.
        parameters: Parameters of the index.
        folder: The folder of the segment.
        number: Number of the new partition.

    Raises:
        InvalidInputError: If there are too many documents, or positions are missing.
        CorruptFileError: If a partition is damaged.
    """
    sources = [_Source.of(partition, moves) for partition, moves in parts]
    total = _numbered(sources)
    if total > _MAX_DOCUMENTS:
        raise InvalidInputError(f"{total} documents; a partition has at most {_MAX_DOCUMENTS}")
    if parameters.with_position and not all(one.partition.rows.has_positions for one in sources):
        raise InvalidInputError("a segment of the index has no positions; create the index again")
    documents = Documents.joined([source.documents for source in sources])
    tokens = _united([source.tokens for source in sources])
    kept = np.zeros(len(tokens), np.bool_)
    with PostingWriter(folder, number, documents, parameters) as file:
        for source in sources:
            source.look_up(tokens)
        for first, end in token_runs(_counts(sources, len(tokens))):
            kept[first:end] = file.write(_joined(sources, first, end, parameters))
        file.finish()
    left = tokens.filter(pa.array(kept))
    write_documents(folder, number, documents)
    write_tokens(folder, number, TokenSet.of_sorted(left))


@dataclass
class _Source:
    """A partition to merge.

    Attributes:
        partition: The partition.
        documents: Its documents that are left.
        is_left: Which of all documents are left.
        numbers: The new number of each document.
        tokens: Its tokens, in the order of their bytes.
        ids: Their ids.
        ranks: Their place among all tokens, ascending.
    """

    partition: Partition
    documents: Documents
    is_left: NDArray[np.bool_]
    numbers: NDArray[np.uint32]
    tokens: pa.Array
    ids: NDArray[np.uint32]
    ranks: NDArray[np.int64]

    @classmethod
    def of(cls, partition: Partition, moves: Moves | None) -> _Source:
        documents = partition.documents
        is_left = np.ones(len(documents), np.bool_)
        if moves is not None:
            references, is_left = moves(documents.references)
            elements = tuple(level[is_left] for level in documents.elements)
            documents = Documents(references[is_left], documents.lengths[is_left], elements)
        tokens, ids = partition.tokens.listed()
        none = np.empty(0, np.int64)
        return cls(partition, documents, is_left, np.empty(0, np.uint32), tokens, ids, none)

    def look_up(self, tokens: pa.Array) -> None:
        """Find the places of its tokens among all tokens."""
        places = pc.index_in(self.tokens, tokens)
        self.ranks = np.asarray(places.to_numpy(zero_copy_only=False)).astype(np.int64)

    def read(
        self, first: int, end: int, parameters: InvertedParameters
    ) -> tuple[NDArray[np.uint32], Entries, NDArray[np.uint32]]:
        """Read the entries of a run of tokens."""
        start, stop = self.ranks.searchsorted([first, end]).tolist()
        order = np.argsort(self.ids[start:stop], kind="stable")
        ids = self.ids[start:stop][order].astype(np.int64)
        if not len(ids):
            none = np.empty(0, np.uint32)
            return none, GrowingLists(False).entries(none), self.numbers
        rows = self.partition.rows
        try:
            table = rows.read(ids, with_positions=parameters.with_position)
            lengths = rows.lengths[ids]
            entries = Entries.read(
                table.postings, lengths, rows.layout, len(self.numbers), table.positions
            )
        except CorruptFileError as error:
            raise error if error.where else error.at(self.partition.path) from None
        targets = (self.ranks[start:stop][order] - first).astype(np.uint32)
        return targets, entries, self.numbers


def _joined(
    sources: Sequence[_Source], first: int, end: int, parameters: InvertedParameters
) -> Entries:
    """Return the entries of a run of tokens; those of the sources are freed."""
    found = [source.read(first, end, parameters) for source in sources]
    return Entries.join(found, end - first, parameters.with_position)


def _numbered(sources: Sequence[_Source]) -> int:
    """Give numbers to the documents that are left; return how many there are."""
    total = 0
    for source in sources:
        numbers = np.cumsum(source.is_left, dtype=np.int64) - 1 + total
        source.numbers = np.where(source.is_left, numbers, np.int64(_GONE)).astype(np.uint32)
        total += len(source.documents)
    return total


def _united(parts: Sequence[pa.Array]) -> pa.Array:
    """Return the distinct tokens of all parts, in the order of their bytes."""
    if len(parts) == 1:
        return parts[0]
    distinct = pc.unique(pa.concat_arrays(list(parts)))
    return distinct.take(pc.array_sort_indices(distinct))


def _counts(sources: Sequence[_Source], num_tokens: int) -> NDArray[np.int64]:
    """Return the number of entries of each token, in all sources."""
    counts = np.zeros(num_tokens, np.int64)
    for source in sources:
        counts[source.ranks] += source.partition.rows.lengths[source.ids]
    return counts
