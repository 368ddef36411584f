"""The files of a new partition.

Tokens are numbered in the order of their bytes, so that partitions can be merged from front to
back. Posting lists are written in runs of tokens, of which one is decoded at a time.

Source: docs/format/indices.md, "INVERTED".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.blocks import number_array
from pilum.index.files import IndexFileWriter, IndexFolderWriter
from pilum.index.inverted.parameters import InvertedParameters
from pilum.index.inverted.partition import (
    ELEMENT_PREFIX,
    NUM_TOKENS,
    ROW_ID,
    TOTAL_TOKENS,
    Documents,
    file_names,
)
from pilum.index.inverted.posting_rows import (
    BLOCK_SIZE,
    POSITIONS_CODEC,
    POSITIONS_LAYOUT,
    TAIL_CODEC,
    VARINT_TAIL,
    BinaryLists,
)
from pilum.index.inverted.tokens import TokenSet
from pilum.kernels import Entries, PostingLayout, bm25_norms

__all__ = [
    "PostingWriter",
    "codec_metadata",
    "layout_of",
    "position_kind",
    "token_runs",
    "write_documents",
    "write_tokens",
]

_ENTRIES_AT_ONCE = 1 << 18
_PAGE_BYTES = 1 << 20
"""Of posting lists. A page is in memory several times while it is encoded."""

_BLOBS = pa.list_(pa.large_binary())


def codec_metadata(parameters: InvertedParameters) -> dict[str, str]:
    """Return the metadata that says how posting lists are stored."""
    found = {
        BLOCK_SIZE: str(parameters.block_size),
        "format_version": str(parameters.format_version),
    }
    if parameters.format_version > 1:
        found[TAIL_CODEC] = VARINT_TAIL
        if parameters.with_position:
            found[POSITIONS_LAYOUT] = "shared_stream_v2"
            found[POSITIONS_CODEC] = "packed_delta_v1"
    return found


def layout_of(parameters: InvertedParameters) -> PostingLayout:
    """Return how posting lists are stored."""
    return PostingLayout(parameters.block_size, parameters.format_version == 1)


def position_kind(parameters: InvertedParameters) -> str:
    """Return how positions are stored, as the kernels name it."""
    if not parameters.with_position:
        return "none"
    return "pieces" if parameters.format_version == 1 else "stream"


def write_documents(folder: IndexFolderWriter, number: int, documents: Documents) -> None:
    """Write the documents of a partition."""
    columns: dict[str, NDArray[Any]] = {
        ROW_ID: documents.references,
        NUM_TOKENS: documents.lengths,
    }
    for level, indices in enumerate(documents.elements):
        columns[f"{ELEMENT_PREFIX}{level}"] = indices
    arrays = {name: number_array(values) for name, values in columns.items()}
    schema = pa.schema([pa.field(name, one.type, False) for name, one in arrays.items()])
    table = pa.Table.from_arrays(list(arrays.values()), schema=schema)
    total = documents.statistics.num_tokens
    folder.write(file_names(number)[0], table, {TOTAL_TOKENS: str(total)})


def write_tokens(folder: IndexFolderWriter, number: int, tokens: TokenSet) -> None:
    """Write the tokens of a partition."""
    folder.write(file_names(number)[1], tokens.to_table())


def token_runs(counts: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Cut tokens into runs that are in memory at once, given the number of entries of each."""
    ends = np.cumsum(counts)
    first = 0
    while first < len(ends):
        start = int(ends[first - 1]) if first else 0
        end = max(first + 1, int(ends.searchsorted(start + _ENTRIES_AT_ONCE, side="right")))
        yield first, end
        first = end


class PostingWriter:
    """A writer of the posting lists of a partition, to be used as a context manager.

    Args:
        folder: The folder of the segment.
        number: Number of the partition.
        documents: Its documents.
        parameters: Parameters of the index.
    """

    def __init__(
        self,
        folder: IndexFolderWriter,
        number: int,
        documents: Documents,
        parameters: InvertedParameters,
    ) -> None:
        self._layout = layout_of(parameters)
        self._kind = position_kind(parameters)
        self._metadata = codec_metadata(parameters)
        self._lengths = documents.lengths
        totals = documents.statistics
        self._norms = bm25_norms(
            documents.lengths, totals.num_documents, totals.num_tokens, parameters.block_size == 256
        )
        name, schema = file_names(number)[2], _schema(self._kind)
        self._file: IndexFileWriter = folder.file(name, schema, _PAGE_BYTES)

    def __enter__(self) -> Self:
        self._file.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.__exit__(kind, error, trace)

    def write(self, entries: Entries) -> NDArray[np.bool_]:
        """Write the posting lists of tokens, and return which of the tokens have entries.

        Those without entries are left out.
        """
        made = entries.write(self._lengths, self._norms, self._layout, self._kind)
        self._file.write(_batch(made, self._kind, self._file.schema))
        return np.diff(entries.ends, prepend=np.int64(0)) > 0

    def finish(self) -> None:
        """Add the metadata, after all posting lists."""
        self._file.add_metadata(self._metadata)


def _schema(kind: str) -> pa.Schema:
    fields = {
        "_posting": _BLOBS,
        "_max_score": pa.float32(),
        "_length": pa.uint32(),
        "_impacts": _BLOBS,
    }
    if kind == "stream":
        fields["_compressed_position"] = pa.large_binary()
        fields["_position_block_offset"] = pa.list_(pa.uint32())
    elif kind == "pieces":
        fields["_position"] = pa.list_(_BLOBS)
    return pa.schema([pa.field(name, type, False) for name, type in fields.items()])


def _batch(made: Mapping[str, Any], kind: str, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        _lists(made["postings"]),
        pa.Array.from_buffers(
            pa.float32(), len(made["max_scores"]), [None, pa.py_buffer(made["max_scores"])]
        ),
        number_array(made["lengths"]),
        _lists(made["impacts"]),
    ]
    if kind == "stream":
        offsets, data, lists, starts = made["positions"]
        columns.append(_binary(offsets, data))
        columns.append(pa.ListArray.from_arrays(number_array(lists), number_array(starts)))
    elif kind == "pieces":
        documents, *pieces = made["positions"]
        lists, offsets, data = pieces
        columns.append(
            pa.ListArray.from_arrays(number_array(documents), _lists((lists, offsets, data)))
        )
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _binary(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _lists(lists: BinaryLists) -> pa.Array:
    offsets, items, data = lists
    return pa.ListArray.from_arrays(number_array(offsets), _binary(items, data))
