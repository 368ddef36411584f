"""Writers of blob payload files, which are written before their data file.

    PackedBlobWriter      data/{stem}/1000….blob    many payloads, one after the other
    DedicatedBlobWriter   data/{stem}/0100….blob    one payload, in any number of pieces

Both return descriptors, which must be written to the data file: without them, the payloads cannot
be found. Source: docs/format/blobs.md, "Prepared columns".
"""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.container.blobs import contiguous
from pilum.errors import InvalidInputError
from pilum.format.blobs import BlobKind
from pilum.storage.base import Sink, Store
from pilum.table.model.names import sidecar_beside
from pilum.table.write.blob_descriptors import (
    BlobDescriptor,
    descriptor_field,
    packed_descriptors,
    require_blob_id,
)

__all__ = ["DedicatedBlobWriter", "PackedBlobWriter"]

_NULL = -1
_SUFFIX = ".lance"


class _BlobWriter:
    """A new file beside a data file; visible once it is finished.

    Args:
        store: Where the data file is, or will be.
        data_file: Its path.
        blob_id: The number of the file beside it.

    Raises:
        InvalidInputError: If the path is not that of a data file, or the number is not a valid file
            number.
    """

    def __init__(self, store: Store, data_file: str, blob_id: int) -> None:
        stem = data_file.rpartition("/")[2].removesuffix(_SUFFIX)
        if not (data_file.endswith(_SUFFIX) and stem):
            raise InvalidInputError(f"{data_file!r} is not the path of a data file, *{_SUFFIX}")
        self._blob_id = require_blob_id(blob_id)
        self._path = sidecar_beside(data_file, blob_id)
        self._sink: Sink | None = store.sink(self._path)

    @property
    def blob_id(self) -> int:
        """Return the number of the file, by which descriptors refer to it."""
        return self._blob_id

    @property
    def path(self) -> str:
        """Return the path of the file, relative to the root of the session."""
        return self._path

    def abort(self) -> None:
        """Drop the file; has no effect after the file is finished."""
        if self._sink is not None:
            self._sink.abort()
            self._sink = None

    def _append(self, data: Any) -> None:
        try:
            self._open().write(data)
        except OSError:
            self.abort()  # the file no longer contains what its descriptors would describe
            raise

    def _close(self) -> int:
        """Finish the file and return its size in bytes."""
        sink = self._open()
        try:
            sink.finish()
        except BaseException:
            self.abort()
            raise
        self._sink = None
        return sink.position

    def _open(self) -> Sink:
        if self._sink is None:
            raise InvalidInputError(f"{self._path} is finished")
        return self._sink


class PackedBlobWriter(_BlobWriter):
    """Writes payloads one after the other into one file beside a data file.

    Made by `LanceFileSession.open_packed_blob_writer`. An existing file is replaced when the writer
    finishes.
    """

    def __init__(self, store: Store, data_file: str, blob_id: int) -> None:
        super().__init__(store, data_file, blob_id)
        self._sizes = array.array("q")
        self._field: pa.Field | None = None

    @property
    def field(self) -> pa.Field:
        """Return the Arrow field of the array that `finish_array` returned.

        Raises:
            InvalidInputError: If `finish_array` was not called.
        """
        if self._field is None:
            raise InvalidInputError(f"{self._path}: there is a field once finish_array was called")
        return self._field

    def write_blob(self, data: bytes | bytearray | memoryview) -> None:
        """Add a payload.

        Raises:
            TypeError: If `data` is not bytes-like.
            InvalidInputError: If the file is finished.
            OSError: If the store fails; then the file is dropped.
        """
        payload = memoryview(data).cast("B")
        self._append(payload)
        self._sizes.append(len(payload))

    def write_blobs(self, payloads: pa.Array | pa.ChunkedArray) -> None:
        """Add a payload for each row; null rows yield null descriptors.

        Args:
            payloads: An array of type binary, large_binary, binary_view or fixed_size_binary.

        Raises:
            InvalidInputError: If `payloads` has another type, or the file is finished.
            OSError: If the store fails; then the file is dropped.
        """
        self._open()
        for chunk in _binary_chunks(payloads):
            sizes = pc.binary_length(chunk).fill_null(_NULL).to_numpy()
            held = chunk.drop_null() if chunk.null_count else chunk
            if len(held):
                self._append(contiguous(held))
            self._sizes.frombytes(np.ascontiguousarray(sizes, np.int64).tobytes())

    def finish(self) -> list[BlobDescriptor]:
        """End the file and return its descriptors.

        Returns:
            A descriptor per payload and null row, in the order of writing.

        Raises:
            InvalidInputError: If the file has already ended.
            OSError: If the store fails; then the file is dropped.
        """
        rows = self._finished().to_pylist()
        return [
            BlobDescriptor()
            if row is None
            else BlobDescriptor(BlobKind.PACKED, self._blob_id, row["position"], row["blob_size"])
            for row in rows
        ]

    def finish_array(self, field_name: str) -> pa.StructArray:
        """End the file and return its descriptors as an array.

        Args:
            field_name: Name of the column.

        Returns:
            A row per payload and null row, in the order of writing, of the type of `field`.

        Raises:
            As `finish`.
        """
        made = self._finished()
        self._field = descriptor_field(field_name)
        return made

    def _finished(self) -> pa.StructArray:
        self._close()
        return packed_descriptors(self._blob_id, np.frombuffer(self._sizes, np.int64))


class DedicatedBlobWriter(_BlobWriter):
    """Writes one payload, piece by piece, into a file of its own beside a data file.

    Made by `LanceFileSession.open_dedicated_blob_writer`. An existing file is replaced when the
    writer finishes.
    """

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Add bytes to the payload.

        Raises:
            TypeError: If `data` is not bytes-like.
            InvalidInputError: If the file is finished.
            OSError: If the store fails; then the file is dropped.
        """
        self._append(memoryview(data).cast("B"))

    def finish(self) -> BlobDescriptor:
        """End the file and return its descriptor.

        Returns:
            The descriptor of the payload.

        Raises:
            InvalidInputError: If the file has already ended.
            OSError: If the store fails; then the file is dropped.
        """
        return BlobDescriptor(BlobKind.DEDICATED, self._blob_id, 0, self._close())


def _binary_chunks(payloads: pa.Array | pa.ChunkedArray) -> list[pa.LargeBinaryArray]:
    if not isinstance(payloads, pa.Array | pa.ChunkedArray):
        raise InvalidInputError(f"expected an array of binary, found {type(payloads).__name__}")
    kind = payloads.type
    is_binary = pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind)
    if not (is_binary or pt.is_binary_view(kind)):
        raise InvalidInputError(f"expected an array of binary, found one of {kind}")
    chunks = payloads.chunks if isinstance(payloads, pa.ChunkedArray) else [payloads]
    return [pc.cast(chunk, pa.large_binary()) for chunk in chunks if len(chunk)]
