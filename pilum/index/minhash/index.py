"""An open segment of an index of near duplicates.

    keys of a query ──page table──▶ pages of bands.lance ──▶ documents with one of the keys
                    ──▶ rows of signatures.lance ──▶ references and values

Rows of both files are read when a query needs them, and all of them once that is cheaper.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.format.rows import Addresses, RowRanges
from pilum.index.answers import Answer, distinct
from pilum.index.base import Index
from pilum.index.files import IndexFile, IndexFolder
from pilum.index.minhash.parameters import MinHashParameters
from pilum.index.minhash.signatures import Signatures, Signer
from pilum.index.minhash.writing import (
    BAND_COLUMNS,
    BANDS_FILE,
    DETAILS,
    LAYOUT,
    NUM_DOCUMENTS,
    PAGE_ROWS,
    PAGE_TABLE,
    SIGNATURES_FILE,
    signature_columns,
)
from pilum.index.queries import Query
from pilum.index.scalar.stored_rows import StoredRows
from pilum.lazy import cached_property

__all__ = ["MinHashIndex"]

_PAGES_TOGETHER = 1024
_DOCUMENTS_TOGETHER = 1 << 16
"""How much is read at once: texts that are all alike are all candidates."""

_LAYOUT = 0

Bands: TypeAlias = tuple[NDArray[np.uint64], NDArray[np.uint32]]
"""Keys in ascending order, and the document of each."""


class MinHashIndex(Index):
    """A segment of an index of near duplicates.

    Attributes:
        parameters: Its parameters.
        num_documents: Number of signatures.
    """

    def __init__(self, folder: IndexFolder, parameters: MinHashParameters) -> None:
        """Open both files and read the page table.

        Raises:
            CorruptFileError: If a file is damaged, or not of this index.
            UnsupportedFormatError: If the layout of a file is not known.
        """
        self.parameters = parameters
        signatures, bands = folder.open(SIGNATURES_FILE), folder.open(BANDS_FILE)
        for file in (signatures, bands):
            _require_layout(file, parameters)
        self.num_documents = signatures.num_rows
        if _number(bands, NUM_DOCUMENTS) != self.num_documents:
            raise CorruptFileError(
                f"keys of another number of documents than {self.num_documents}", bands.path
            )
        self._path, self._num_rows = bands.path, bands.num_rows
        self._page_rows = _number(bands, PAGE_ROWS)
        self._page_table = _page_table(bands, self._page_rows)
        columns = signature_columns(parameters.num_hashes)
        self._signatures = StoredRows(signatures, columns, lambda *_: None)
        self._bands = StoredRows(bands, BAND_COLUMNS, self._check)

    @cached_property
    def signer(self) -> Signer:
        """Return what makes signatures of texts as those of the index."""
        return Signer(self.parameters)

    @property
    def size_bytes(self) -> int:
        """See `Index.size_bytes`."""
        return self._page_table.nbytes + self._signatures.size_bytes + self._bands.size_bytes

    def search(self, query: Query) -> Answer | None:
        """See `Index.search`: no condition of a filter is about near duplicates."""
        del query
        return None

    def estimate(self, query: Query) -> int | None:
        """See `Index.estimate`."""
        del query
        return None

    def statistics(self) -> dict[str, Any]:
        """See `Index.statistics`."""
        return {
            "type": "MinHashLsh",
            "num_docs": self.num_documents,
            "num_pages": len(self._page_table),
            **self.parameters.numbers(),
        }

    def prewarm(self) -> None:
        """See `Index.prewarm`."""
        self._signatures.load()
        self._bands.load()

    def candidates(self, query: Signatures) -> Iterator[tuple[Addresses, NDArray[np.uint16]]]:
        """Yield the rows that agree with a query in all values of a band: references and values.

        Args:
            query: One signature.

        Raises:
            CorruptFileError: If a file is damaged.
        """
        documents = self._documents(query.keys.reshape(-1))
        for first in range(0, len(documents), _DOCUMENTS_TOGETHER):
            own = RowRanges.of_rows(documents[first : first + _DOCUMENTS_TOGETHER])
            yield self._signatures.at(own)

    def signatures(self) -> Iterator[tuple[Addresses, NDArray[np.uint16]]]:
        """Yield all rows in their order: references and values.

        Raises:
            CorruptFileError: If a file is damaged.
        """
        for first in range(0, self.num_documents, _DOCUMENTS_TOGETHER):
            stop = min(first + _DOCUMENTS_TOGETHER, self.num_documents)
            yield self._signatures.read(RowRanges.one(first, stop))

    def _documents(self, wanted: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the documents that have one of some ascending keys, in ascending order."""
        if self._bands.whole is not None:
            return self._distinct([_documents_with(wanted, self._bands.whole)])
        pages = self._pages_of(wanted)
        found = []
        for first in range(0, len(pages), _PAGES_TOGETHER):
            bounds = RowRanges.of_rows(pages[first : first + _PAGES_TOGETHER]).bounds
            rows = RowRanges(np.minimum(bounds * self._page_rows, self._num_rows))
            found.append(_documents_with(wanted, self._bands.at(rows)))
        return self._distinct(found)

    def _pages_of(self, wanted: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the pages that may contain some ascending keys, in ascending order."""
        table = self._page_table
        firsts = table.searchsorted(wanted, "left")
        ends = np.minimum(table.searchsorted(wanted, "right") + 1, len(table))
        ranges = zip(firsts.tolist(), ends.tolist(), strict=True)
        pages = [np.arange(first, end) for first, end in ranges]
        return np.unique(np.concatenate([np.empty(0, np.int64), *pages]))

    def _distinct(self, found: list[NDArray[np.uint32]]) -> NDArray[np.int64]:
        """Return documents in ascending order, each once."""
        every = np.concatenate([np.empty(0, np.uint32), *found]).astype(np.uint64)
        every.sort()
        if len(every) and int(every[-1]) >= self.num_documents:
            raise CorruptFileError(f"document {every[-1]} of {self.num_documents}", self._path)
        return distinct(every).astype(np.int64)

    def _check(self, bands: tuple[NDArray[Any], NDArray[Any]], rows: RowRanges) -> None:
        """Check the keys of whole pages.

        Raises:
            CorruptFileError: If they are not in order, or not those of the page table.
        """
        keys, _ = bands
        ends = keys[self._page_rows - 1 :: self._page_rows]
        if len(keys) % self._page_rows:
            ends = np.append(ends, keys[-1])
        firsts = rows.bounds // self._page_rows
        firsts[:, 1] = -(-rows.bounds[:, 1] // self._page_rows)
        pages = RowRanges(firsts).rows()
        is_ordered = bool((keys[:-1] <= keys[1:]).all())
        if not is_ordered or not np.array_equal(ends, self._page_table[pages]):
            raise CorruptFileError("keys that are not in the order of the page table", self._path)


def _documents_with(wanted: NDArray[np.uint64], bands: Bands) -> NDArray[np.uint32]:
    """Return the documents that have one of some keys; they may repeat."""
    keys, documents = bands
    starts = keys.searchsorted(wanted, "left").tolist()
    stops = keys.searchsorted(wanted, "right").tolist()
    found = [
        documents[start:stop] for start, stop in zip(starts, stops, strict=True) if start < stop
    ]
    return np.concatenate([np.empty(0, np.uint32), *found])


def _require_layout(file: IndexFile, parameters: MinHashParameters) -> None:
    if _number(file, LAYOUT) > _LAYOUT:
        raise UnsupportedFormatError(
            f"{file.path}: layout {_number(file, LAYOUT)} of an index of near duplicates; "
            f"{_LAYOUT} is known"
        )
    try:
        stored = MinHashParameters.from_details(bytes.fromhex(file.metadata.get(DETAILS, "")))
    except (ValueError, CorruptFileError) as error:
        raise CorruptFileError(f"{DETAILS}: {error}", file.path) from error
    if stored != parameters:
        raise CorruptFileError("the parameters are not those of the table", file.path)


def _number(file: IndexFile, name: str) -> int:
    text = file.metadata.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise CorruptFileError(f"{name}: expected a number, found {text!r:.40}", file.path)
    return int(text)


def _page_table(file: IndexFile, page_rows: int) -> NDArray[np.uint64]:
    if not page_rows:
        raise CorruptFileError("pages of 0 rows", file.path)
    data = file.global_buffer(_number(file, PAGE_TABLE))
    num_pages = -(-file.num_rows // page_rows)
    if len(data) != 8 * num_pages:
        raise CorruptFileError(
            f"page table: expected {8 * num_pages} bytes, found {len(data)}", file.path
        )
    table = np.frombuffer(data, "<u8").astype(np.uint64, copy=False)
    if not (table[:-1] <= table[1:]).all():
        raise CorruptFileError("page table: not in ascending order", file.path)
    return table
