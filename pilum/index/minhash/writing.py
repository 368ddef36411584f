"""Signatures to the files of a segment.

    signatures ──▶ signatures.lance       in the order in which they come
               ──▶ keys of each band ──sorted──▶ bands.lance

The keys of all bands are kept until the end, in memory or in a temporary file. The number of a band
is in the upper bits of its keys, so bands are sorted and written one after the other.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.errors import InvalidInputError
from pilum.index.files import IndexFileWriter, IndexFolderWriter
from pilum.index.minhash.parameters import MinHashParameters
from pilum.index.minhash.signatures import Signatures
from pilum.kernels import sort_pairs
from pilum.parallel import InOrder

__all__ = [
    "BANDS_FILE",
    "BAND_COLUMNS",
    "DETAILS",
    "LAYOUT",
    "NUM_DOCUMENTS",
    "PAGE_ROWS",
    "PAGE_TABLE",
    "SIGNATURES_FILE",
    "SegmentWriter",
    "signature_columns",
]

SIGNATURES_FILE, BANDS_FILE = "signatures.lance", "bands.lance"

DETAILS, LAYOUT = "minhash_lsh_details", "minhash_lsh_index_version"
NUM_DOCUMENTS, PAGE_ROWS = "minhash_lsh_num_docs", "minhash_lsh_page_rows"
PAGE_TABLE = "minhash_lsh_page_table_buffer"
"""Entries of the metadata of the files."""

_PLAIN = {"lance-encoding:compression": "none"}
BAND_COLUMNS = pa.schema(
    [
        pa.field("band_key", pa.uint64(), False, _PLAIN),
        pa.field("doc_id", pa.uint32(), False, _PLAIN),
    ]
)

_ROWS_OF_PAGE = 4096
_MOST_DOCUMENTS = 2**32
_KEPT_BYTES = 512 << 20
"""Keys of more bytes are kept in a temporary file."""

_SORTED_TOGETHER = 1 << 22
"""About how many keys of a band are sorted together."""

_KEY_BITS = 56


def signature_columns(num_hashes: int) -> pa.Schema:
    """Return the columns of `signatures.lance`."""
    values = pa.list_(pa.field("item", pa.uint16(), False), num_hashes)
    metadata = {"lance-encoding:structural-encoding": "fullzip", **_PLAIN}
    return pa.schema(
        [
            pa.field("_rowid", pa.uint64(), False),
            pa.field("signature", values, False, metadata),
        ]
    )


class SegmentWriter:
    """A writer of a segment, which discards the files if its block fails.

    Args:
        folder: The folder of the segment.
        parameters: The parameters of the index.
        most_rows: The most signatures that are added.
    """

    def __init__(
        self, folder: IndexFolderWriter, parameters: MinHashParameters, most_rows: int
    ) -> None:
        self._folder = folder
        self._num_bands = parameters.num_bands
        self._metadata = {DETAILS: parameters.to_details().hex(), LAYOUT: "0"}
        self._schema = signature_columns(parameters.num_hashes)
        self._keys = _table(parameters.num_bands, most_rows)
        self._num_documents = 0
        self._file: IndexFileWriter = folder.file(SIGNATURES_FILE, self._schema)

    def add(self, signatures: Signatures) -> None:
        """Write signatures.

        Raises:
            InvalidInputError: If they are too many for a segment.
        """
        first, end = self._num_documents, self._num_documents + len(signatures)
        if end > _MOST_DOCUMENTS:
            raise InvalidInputError(
                f"a segment of an index of near duplicates has at most {_MOST_DOCUMENTS} rows; "
                "build it by fragments, with create_index_uncommitted"
            )
        values = pa.FixedSizeListArray.from_arrays(
            pa.array(signatures.values.reshape(-1)), type=self._schema.field(1).type
        )
        columns = [pa.array(signatures.references), values]
        self._file.write(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._keys[:, first:end] = signatures.keys.T
        self._num_documents = end

    def __enter__(self) -> Self:
        self._file.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._file.add_metadata(self._metadata)
        self._file.__exit__(kind, error, trace)
        if kind is None:
            numbers = {NUM_DOCUMENTS: str(self._num_documents)}
            self._write_bands({**self._metadata, **numbers, PAGE_ROWS: str(_ROWS_OF_PAGE)})

    def _write_bands(self, metadata: Mapping[str, str]) -> None:
        pages = _PageTable()
        with self._folder.file(BANDS_FILE, BAND_COLUMNS) as file:

            def write(_: None, pairs: tuple[NDArray[np.uint64], NDArray[np.uint64]]) -> None:
                keys, documents = pairs
                pages.add(keys)
                columns = [pa.array(keys), pa.array(documents.astype(np.uint32))]
                file.write(pa.RecordBatch.from_arrays(columns, schema=BAND_COLUMNS))

            tasks = InOrder[None, tuple[NDArray[np.uint64], NDArray[np.uint64]]](write)
            for keys, documents in self._parts():
                task = partial(sort_pairs, keys, documents)
                tasks.add(None, task, 2 * keys.nbytes, is_hard=True)
            tasks.finish()
            number = file.add_global_buffer(pages.finish().tobytes())
            file.add_metadata({**metadata, PAGE_TABLE: str(number)})

    def _parts(self) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint64]]]:
        """Yield keys and their documents: all keys of a part are less than those of the next."""
        num_parts = -(-self._num_documents // _SORTED_TOGETHER)
        documents = np.arange(self._num_documents, dtype=np.uint64)
        for number in range(self._num_bands):
            keys = np.ascontiguousarray(self._keys[number, : self._num_documents])
            if num_parts <= 1:
                yield keys, documents
                continue
            parts = (keys & np.uint64(2**_KEY_BITS - 1)) // np.uint64(2**_KEY_BITS // num_parts)
            for part in range(num_parts + 1):
                is_own = parts == part
                yield keys[is_own], documents[is_own]


def _table(num_bands: int, num_rows: int) -> NDArray[np.uint64]:
    """Return an array for keys, in a temporary file if it is large; shape (bands, rows)."""
    shape = num_bands, num_rows
    if 8 * num_bands * num_rows <= _KEPT_BYTES:
        return np.empty(shape, np.uint64)
    with tempfile.TemporaryFile(prefix="pilum-") as file:
        return np.memmap(file, np.uint64, "w+", shape=shape)


class _PageTable:
    """The greatest key of each page: that of its last row."""

    def __init__(self) -> None:
        self._found: list[NDArray[np.uint64]] = []
        self._num_rows = 0
        self._last: NDArray[np.uint64] = np.empty(0, np.uint64)

    def add(self, keys: NDArray[np.uint64]) -> None:
        """Add the keys of the next rows."""
        first = -(self._num_rows + 1) % _ROWS_OF_PAGE
        self._found.append(keys[first::_ROWS_OF_PAGE].copy())
        self._num_rows += len(keys)
        if len(keys):
            self._last = keys[-1:].copy()

    def finish(self) -> NDArray[np.uint64]:
        """Return the table."""
        if self._num_rows % _ROWS_OF_PAGE:
            self._found.append(self._last)
        return np.concatenate([np.empty(0, np.uint64), *self._found])
