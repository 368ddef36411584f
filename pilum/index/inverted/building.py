"""Documents to partitions, with bounded memory.

rows ──analyse──▶ tokens of documents ──limit reached──▶ a partition on disk ──▶ and again
                                                         several are merged into one at the end
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.blocks import list_items
from pilum.format.rows import Addresses
from pilum.index.base import REFERENCE, VALUE
from pilum.index.files import IndexFolderWriter
from pilum.index.inverted.parameters import InvertedParameters
from pilum.index.inverted.partition import Documents
from pilum.index.inverted.tokens import Analyzer
from pilum.index.inverted.writing import (
    PostingWriter,
    token_runs,
    write_documents,
    write_tokens,
)
from pilum.kernels import GrowingLists

__all__ = ["DocumentBatch", "PartitionBuilder", "documents_of", "spill"]

_DEFAULT_LIMIT_MIB = 1024
_MOST_MIB = 3 << 10
"""Posting lists in memory have addresses of 32 bits."""

_ROWS_AT_ONCE = 16384


@dataclass(frozen=True)
class DocumentBatch:
    """Documents to analyse.

    Attributes:
        texts: The documents.
        references: The row reference of each.
        elements: For elements of lists, the index at each level.
    """

    texts: pa.Array
    references: Addresses
    elements: tuple[NDArray[np.uint32], ...] = ()

    def slice(self, start: int, count: int) -> DocumentBatch:
        """Return some of the documents."""
        end = start + count
        elements = tuple(level[start:end] for level in self.elements)
        return DocumentBatch(self.texts.slice(start, count), self.references[start:end], elements)

    def counted(self, lengths: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return which documents count in statistics, given their numbers of tokens.

        Rows count if they have tokens, elements of lists always.
        """
        return np.arange(len(lengths)) if self.elements else np.flatnonzero(lengths)


def documents_of(batch: pa.RecordBatch, *, list_elements: bool) -> Iterator[DocumentBatch]:
    """Return the documents of rows, in batches of some thousands.

    Args:
        batch: Rows with the columns `VALUE` and `REFERENCE`.
        list_elements: Whether each element of the innermost lists is a document.
    """
    found = DocumentBatch(batch.column(VALUE), batch.column(REFERENCE).to_numpy())
    while list_elements and _is_list(found.texts.type):
        found = _items(found)
    if found.elements:
        found = replace(found, texts=found.texts.fill_null(""))
    for start in range(0, len(found.references), _ROWS_AT_ONCE):
        yield found.slice(start, _ROWS_AT_ONCE)


@dataclass
class PartitionBuilder:
    """Documents that become a partition.

    Attributes:
        parameters: Parameters of the index.
    """

    parameters: InvertedParameters
    _documents: list[Documents] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._tokens = Analyzer(self.parameters).builder()
        self._lists = GrowingLists(self.parameters.with_position)

    @property
    def size_bytes(self) -> int:
        """The most memory that the documents take until they are written."""
        documents = sum(one.size_bytes for one in self._documents)
        return self._lists.size_bytes + 2 * self._tokens.size_bytes + 2 * documents

    @property
    def is_empty(self) -> bool:
        """Whether there are no documents yet."""
        return not any(len(one) for one in self._documents)

    def add(self, batch: DocumentBatch) -> None:
        """Analyse documents; those that do not count are left out."""
        found = self._tokens.analyze(batch.texts)
        lengths = np.diff(found.ends, prepend=np.int64(0))
        kept = batch.counted(lengths)
        positions = found.positions if self.parameters.with_position else None
        self._lists.add(found.token_ids, positions, found.ends[kept])
        self._documents.append(
            Documents(
                batch.references[kept],
                lengths[kept].astype(np.uint32),
                tuple(level[kept] for level in batch.elements),
            )
        )

    def write(self, folder: IndexFolderWriter, number: int) -> None:
        """Write the files of the partition, with the tokens in the order of their bytes."""
        documents = Documents.joined(self._documents)
        self._documents = [documents]
        tokens, ids = self._tokens.in_byte_order()
        with PostingWriter(folder, number, documents, self.parameters) as file:
            for first, end in token_runs(self._lists.counts(ids)):
                file.write(self._lists.entries(ids[first:end]))
            file.finish()
        write_documents(folder, number, documents)
        write_tokens(folder, number, tokens)


def spill(
    batches: Iterator[pa.RecordBatch],
    parameters: InvertedParameters,
    folder: IndexFolderWriter,
    first: int,
) -> list[int]:
    """Write documents to partitions that are as large as the memory limit allows.

    Args:
        batches: Rows with the columns `VALUE` and `REFERENCE`.
        parameters: Parameters of the index.
        folder: The folder of the segment.
        first: Number of the first partition.

    Returns:
        The numbers of the partitions.
    """
    limit = _limit_bytes(parameters)
    numbers: list[int] = []
    builder = PartitionBuilder(parameters)
    for rows in batches:
        for batch in documents_of(rows, list_elements=parameters.list_elements):
            builder.add(batch)
            if builder.size_bytes > limit:
                numbers.append(first + len(numbers))
                builder.write(folder, numbers[-1])
                builder = PartitionBuilder(parameters)
    if not builder.is_empty:
        numbers.append(first + len(numbers))
        builder.write(folder, numbers[-1])
    return numbers


def _limit_bytes(parameters: InvertedParameters) -> int:
    mib = parameters.memory_limit_mib
    if mib is None:
        mib = int(os.environ.get("LANCE_FTS_PARTITION_SIZE") or _DEFAULT_LIMIT_MIB)
    return min(max(1, mib), _MOST_MIB) << 20


def _is_list(kind: pa.DataType) -> bool:
    return bool(pt.is_list(kind) or pt.is_large_list(kind))


def _items(batch: DocumentBatch) -> DocumentBatch:
    """Return the items of lists, with the index of each in its list."""
    counts = batch.texts.value_lengths().fill_null(0).to_numpy().astype(np.int64)
    firsts = np.cumsum(counts) - counts
    rows = np.repeat(np.arange(len(counts)), counts)
    index = (np.arange(len(rows)) - firsts[rows]).astype(np.uint32)
    elements = (*(level[rows] for level in batch.elements), index)
    return DocumentBatch(list_items(batch.texts), batch.references[rows], elements)
