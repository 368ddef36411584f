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
from pilum.index.inverted.tokens import Analyzer, TokenSet
from pilum.index.inverted.writing import PostingWriter, write_documents, write_tokens
from pilum.kernels import Entries

__all__ = ["DocumentBatch", "PartitionBuilder", "documents_of", "in_byte_order", "spill"]

_DEFAULT_LIMIT_MIB = 1024
_BYTES_OF_OCCURRENCE = 32
"""Of a token in a document: as it was analysed, sorted, grouped and encoded."""

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
    _batches: list[tuple[NDArray[np.uint32], NDArray[np.uint32] | None, NDArray[np.int64]]] = field(
        default_factory=list
    )
    _documents: list[Documents] = field(default_factory=list)
    _num_occurrences: int = 0

    def __post_init__(self) -> None:
        self._tokens = Analyzer(self.parameters).builder()

    @property
    def size_bytes(self) -> int:
        """The most memory that the documents take until they are written."""
        documents = sum(one.size_bytes for one in self._documents)
        occurrences = _BYTES_OF_OCCURRENCE * self._num_occurrences
        return occurrences + 2 * self._tokens.size_bytes + 2 * documents

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
        self._batches.append((found.token_ids, positions, found.ends[kept]))
        self._documents.append(
            Documents(
                batch.references[kept],
                lengths[kept].astype(np.uint32),
                tuple(level[kept] for level in batch.elements),
            )
        )
        self._num_occurrences += len(found.token_ids)

    def finish(self) -> tuple[Documents, TokenSet, Entries]:
        """Return the documents, the tokens in the order of their bytes, and their entries."""
        tokens, numbers = in_byte_order(self.parameters, *self._tokens.finish().listed())
        batches = [(numbers[ids], positions, ends) for ids, positions, ends in self._batches]
        self._batches = []
        documents = Documents.joined(self._documents)
        return documents, tokens, Entries.group(batches, len(numbers))


def in_byte_order(
    parameters: InvertedParameters, tokens: pa.Array, ids: NDArray[np.uint32]
) -> tuple[TokenSet, NDArray[np.uint32]]:
    """Return tokens that are numbered in their order, and the new number of each id."""
    builder = Analyzer(parameters).builder()
    builder.add(tokens)
    numbers = np.empty(len(ids), np.uint32)
    numbers[ids] = np.arange(len(ids), dtype=np.uint32)
    return builder.finish(), numbers


def write_partition(folder: IndexFolderWriter, number: int, builder: PartitionBuilder) -> None:
    """Write the files of a partition."""
    documents, tokens, entries = builder.finish()
    with PostingWriter(folder, number, documents, builder.parameters) as file:
        file.write(entries)
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
                write_partition(folder, numbers[-1], builder)
                builder = PartitionBuilder(parameters)
    if not builder.is_empty:
        numbers.append(first + len(numbers))
        write_partition(folder, numbers[-1], builder)
    return numbers


def _limit_bytes(parameters: InvertedParameters) -> int:
    mib = parameters.memory_limit_mib
    if mib is None:
        mib = int(os.environ.get("LANCE_FTS_PARTITION_SIZE") or _DEFAULT_LIMIT_MIB)
    return max(1, mib) << 20


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
