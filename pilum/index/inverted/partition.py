"""A part of a full-text index: documents with numbers of their own, their tokens and postings.

    part_0_docs.lance      row = document    _rowid u64, _num_tokens u32, _doc_index_0 u32, …
    part_0_tokens.lance    tokens and their ids (`tokens.py`)
    part_0_invert.lance    row = token id    (`posting_rows.py`)

A text without any token is not a document. The columns `_doc_index_…` exist if each element of a
list is a document of its own. Source: docs/format/indices.md, "INVERTED".
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.cache import Cache
from pilum.errors import CorruptFileError
from pilum.format.rows import Addresses
from pilum.index.answers import RowSet
from pilum.index.files import IndexFile, IndexFolder
from pilum.index.inverted.posting_rows import PostingRows, StoredRows
from pilum.index.inverted.tokens import TokenSet
from pilum.kernels import DocumentSet, Norms, Posting

__all__ = [
    "ELEMENT_PREFIX",
    "NUM_TOKENS",
    "ROW_ID",
    "TOTAL_TOKENS",
    "Documents",
    "Partition",
    "Statistics",
    "file_names",
    "open_partition",
]

ROW_ID, NUM_TOKENS, ELEMENT_PREFIX = "_rowid", "_num_tokens", "_doc_index_"
TOTAL_TOKENS = "total_tokens"

_CACHED_POSTINGS_BYTES = 256 << 20
_CACHED_SETS_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Statistics:
    """Totals of all documents that take part in a score.

    Attributes:
        num_documents: Number of documents.
        num_tokens: Number of their tokens.
    """

    num_documents: int = 0
    num_tokens: int = 0

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.num_documents + other.num_documents, self.num_tokens + other.num_tokens
        )


@dataclass(frozen=True)
class Documents:
    """The documents of a partition.

    Attributes:
        references: The row reference of each document, uint64.
        lengths: The number of tokens of each, uint32.
        elements: For documents that are elements of lists, the index at each level, uint32;
            otherwise empty.
    """

    references: Addresses
    lengths: NDArray[np.uint32]
    elements: tuple[NDArray[np.uint32], ...] = ()

    def __len__(self) -> int:
        return len(self.references)

    @classmethod
    def joined(cls, parts: Sequence[Documents]) -> Documents:
        """Join documents, one part after the other."""
        if len(parts) == 1:
            return parts[0]
        empty = [np.empty(0, np.uint64), np.empty(0, np.uint32)]
        elements = zip(*(part.elements for part in parts), strict=True)
        return cls(
            np.concatenate([empty[0], *(part.references for part in parts)]),
            np.concatenate([empty[1], *(part.lengths for part in parts)]),
            tuple(np.concatenate(level) for level in elements),
        )

    @property
    def size_bytes(self) -> int:
        """The memory in use."""
        parts: list[NDArray[Any]] = [self.references, self.lengths, *self.elements]
        return sum(part.nbytes for part in parts)

    @property
    def statistics(self) -> Statistics:
        """The totals of the documents."""
        return Statistics(len(self), int(self.lengths.sum(dtype=np.uint64)))

    @classmethod
    def read(cls, file: IndexFile) -> Documents:
        """Read the file of documents.

        Raises:
            CorruptFileError: If it is damaged.
        """
        names = [name for name in file.schema.names if name.startswith(ELEMENT_PREFIX)]
        names.sort(key=lambda name: int(name.removeprefix(ELEMENT_PREFIX)))
        table = file.read([ROW_ID, NUM_TOKENS, *names])
        references, lengths, *elements = (
            _numbers(table, name, kind, file.path)
            for name, kind in zip(
                table.column_names, [pa.uint64(), *[pa.uint32()] * (1 + len(names))], strict=True
            )
        )
        made = cls(references, lengths, tuple(elements))
        total = file.metadata.get(TOTAL_TOKENS)
        if total not in (None, str(made.statistics.num_tokens)):
            raise CorruptFileError(
                f"documents have {made.statistics.num_tokens} tokens, not {total}", file.path
            )
        return made


class Partition:
    """A part of an index, or documents in memory. Safe to use from several threads.

    Attributes:
        documents: Its documents.
        tokens: Its tokens.
        rows: Its posting lists.
        path: For errors: the file of the posting lists.
    """

    def __init__(
        self, documents: Documents, tokens: TokenSet, rows: PostingRows, path: str = ""
    ) -> None:
        self.documents = documents
        self.tokens = tokens
        self.rows = rows
        self.path = path
        self.statistics = documents.statistics
        self._postings = Cache(_CACHED_POSTINGS_BYTES)
        self._sets = Cache(_CACHED_SETS_BYTES)
        self._norms: dict[Statistics, Norms] = {}
        self._sorted: tuple[Addresses, NDArray[np.uint32] | None] | None = None
        self._lock = threading.Lock()

    @property
    def size_bytes(self) -> int:
        """The memory in use."""
        own = self.documents.size_bytes + self.tokens.size_bytes
        norms = sum(norms.size_bytes for norms in list(self._norms.values()))
        return (
            own + self.rows.size_bytes + norms + self._postings.size_bytes + self._sets.size_bytes
        )

    def norms(self, statistics: Statistics) -> Norms:
        """Return what the length of each document means for its scores."""
        with self._lock:
            norms = self._norms.get(statistics)
            if norms is None:
                norms = Norms(
                    self.documents.lengths,
                    statistics.num_documents,
                    statistics.num_tokens,
                    self.rows.rounds_lengths,
                )
                # Statistics change with every commit of a segment; only the last ones are kept.
                self._norms = {statistics: norms}
        return norms

    def ids(self, tokens: Sequence[str]) -> list[int]:
        """Return the ids of a few tokens; -1 for those that no document contains.

        Raises:
            CorruptFileError: If the index is damaged.
        """
        lengths = self.rows.lengths
        found = self.tokens.ids(tokens)
        for place, id in enumerate(found):
            if id >= len(lengths):
                raise CorruptFileError(f"token {id} of {len(lengths)} posting lists", self.path)
            if id >= 0 and lengths[id] == 0:
                found[place] = -1
        return found

    def frequencies(self, ids: Sequence[int]) -> list[int]:
        """Return how many documents contain each token, by its id; 0 for the id -1."""
        lengths = self.rows.lengths
        return [int(lengths[id]) if id >= 0 else 0 for id in ids]

    def postings(
        self, ids: Sequence[int], statistics: Statistics, *, with_positions: bool = False
    ) -> list[Posting]:
        """Open the posting lists of tokens.

        Args:
            ids: Token ids.
            statistics: Those of the search.
            with_positions: Whether phrases are searched.

        Raises:
            CorruptFileError: If the index is damaged.
        """
        keys = [(id, statistics, with_positions) for id in ids]
        found: list[Posting | None] = [self._postings.get(key) for key in keys]
        missing = sorted({id for id, one in zip(ids, found, strict=True) if one is None})
        opened = self._open(missing, statistics, with_positions=with_positions) if missing else {}
        for id, posting in opened.items():
            self._postings.put((id, statistics, with_positions), posting, posting.size_bytes)
        return [opened[id] if one is None else one for id, one in zip(ids, found, strict=True)]

    def allowed(self, rows: RowSet | None) -> DocumentSet | None:
        """Return the documents of rows; None if all documents are.

        Args:
            rows: Row references as the index stores them; None for all rows.
        """
        if rows is None or (rows.is_complement and rows.num_listed == 0):
            return None
        kept = self._sets.get(id(rows))
        if kept is not None and kept[0] is rows:
            found: DocumentSet = kept[1]
            return found
        references, order = self.in_order()
        made = DocumentSet(references, order, rows.listed, rows.is_complement)
        # The rows are kept, too: while they are, no other set has their identity.
        self._sets.put(id(rows), (rows, made), 8 * rows.num_listed + len(references) // 8)
        return made

    def in_order(self) -> tuple[Addresses, NDArray[np.uint32] | None]:
        """Return the references in ascending order, and the documents that they belong to."""
        if self._sorted is None:
            references = self.documents.references
            if len(references) < 2 or bool((references[:-1] <= references[1:]).all()):
                self._sorted = references, None
            else:
                order = np.argsort(references, kind="stable")
                self._sorted = references[order], order.astype(np.uint32)
        return self._sorted

    def prewarm(self) -> None:
        """Load everything into memory."""
        if isinstance(self.rows, StoredRows):
            self.rows.load()
        _ = self.rows.lengths

    def _open(
        self, ids: Sequence[int], statistics: Statistics, *, with_positions: bool
    ) -> dict[int, Posting]:
        numbers = np.array(ids, np.int64)
        table = self.rows.read(numbers, with_positions=with_positions)
        norms = self.norms(statistics)
        lengths = self.rows.lengths[numbers].tolist()
        try:
            return {
                id: Posting(self.rows.layout, length, row, table.postings, norms, table.positions)
                for id, length, row in zip(ids, lengths, table.rows.tolist(), strict=True)
            }
        except CorruptFileError as error:
            raise CorruptFileError(f"posting lists: {error}", self.path) from error


def file_names(number: int) -> tuple[str, str, str]:
    """Return the names of the files of a partition: documents, tokens, posting lists."""
    return tuple(f"part_{number}_{what}.lance" for what in ("docs", "tokens", "invert"))  # type: ignore[return-value]


def open_partition(folder: IndexFolder, number: int, metadata: Mapping[str, str]) -> Partition:
    """Open a partition.

    Args:
        folder: The folder of the segment.
        number: Number of the partition.
        metadata: The metadata of the index.

    Raises:
        NotFoundError: If a file does not exist.
        CorruptFileError: If a file is damaged.
    """
    documents, tokens, invert = (folder.open(name) for name in file_names(number))
    rows = StoredRows(invert, metadata)
    made = Partition(
        Documents.read(documents), TokenSet.from_table(tokens.read()), rows, invert.path
    )
    _require_distinct(made, documents.path)
    if len(made.tokens) > rows.num_tokens:
        raise CorruptFileError(
            f"{len(made.tokens)} tokens, but {rows.num_tokens} posting lists", invert.path
        )
    return made


def _require_distinct(partition: Partition, path: str) -> None:
    """Raise an error if a row has two documents, other than those of the elements of its list.

    Merges of the reference keep the old text of an updated row with a stable id.
    """
    references, _ = partition.in_order()
    if not partition.documents.elements and not bool((references[:-1] < references[1:]).all()):
        raise CorruptFileError("two documents are of one row", path)


def _numbers(table: pa.Table, name: str, kind: pa.DataType, path: str) -> NDArray[Any]:
    column = table.column(name).combine_chunks()
    if column.type != kind or column.null_count:
        raise CorruptFileError(
            f"column {name!r}: expected {kind} without nulls, found {column.type}", path
        )
    return np.asarray(column.to_numpy())
