"""Blobs: large binary values that are read like files.

    values in      blob_array([b"…", "file:///…", Blob.from_uri(…), None])  under blob_field("name")
    values out     LanceDataset.take_blobs(…) -> BlobFile, LanceDataset.read_blobs(…) -> bytes

The types describe the blob columns of file version 2.2. They are not registered with Arrow, so that
another library can register its own types. Source: docs/guide/blobs.md.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arguments import require_count, require_list, require_text
from pilum.errors import InvalidInputError
from pilum.format.blobs import BLOB_V2
from pilum.storage.base import Ranges, Source
from pilum.table.read.blobs import BlobPlace
from pilum.table.write.blob_writers import (
    BlobDescriptor,
    BlobDescriptorArrayBuilder,
    DedicatedBlobWriter,
    PackedBlobWriter,
)

__all__ = [
    "DEFAULT_BLOB_BUFFER_SIZE",
    "Blob",
    "BlobArray",
    "BlobColumn",
    "BlobDescriptor",
    "BlobDescriptorArrayBuilder",
    "BlobFile",
    "BlobIterator",
    "BlobType",
    "DedicatedBlobWriter",
    "PackedBlobWriter",
    "blob_array",
    "blob_field",
]

DEFAULT_BLOB_BUFFER_SIZE = 512 * 1024

_Bytes = bytes | bytearray | memoryview

_STORAGE = pa.struct(
    {
        "data": pa.large_binary(),
        "uri": pa.string(),
        "position": pa.uint64(),
        "size": pa.uint64(),
    }
)


@dataclass(frozen=True)
class Blob:
    """One value of a column of blobs: bytes, or a reference to bytes elsewhere.

    Attributes:
        data: The bytes of the blob.
        uri: URI of the object that contains the bytes.
        position: First byte at `uri`; None for all of it.
        size: Number of bytes at `uri`; None for all of it.

    Raises:
        InvalidInputError: If both or neither of `data` and `uri` are given, or only half of a
            range.
    """

    data: bytes | None = None
    uri: str | None = None
    position: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        if (self.data is None) == (self.uri is None):
            raise InvalidInputError("a blob has either data or a uri; a null blob is None")
        if self.uri == "":
            raise InvalidInputError("the uri of a blob is empty")
        if not isinstance(self.data, _Bytes | None) or not isinstance(self.uri, str | None):
            raise InvalidInputError(
                f"a blob has bytes as its data, or a text as its uri; found {self.data!r:.80}, "
                f"{self.uri!r:.80}"
            )
        if (self.position is None) != (self.size is None):
            raise InvalidInputError("a range of a blob needs both position and size")
        if self.position is None or self.size is None:
            return
        if self.uri is None:
            raise InvalidInputError("position and size belong to a blob with a uri")
        require_count("position", self.position)
        require_count("size", self.size, 1)

    @staticmethod
    def from_bytes(data: bytes | bytearray | memoryview) -> Blob:
        """Create a blob from bytes."""
        return Blob(data=bytes(data))

    @staticmethod
    def from_uri(uri: str, position: int | None = None, size: int | None = None) -> Blob:
        """Create a reference to an object, or to `size` bytes of it from `position` on."""
        return Blob(uri=uri, position=position, size=size)

    @staticmethod
    def empty() -> Blob:
        """Create an empty blob, which is not null."""
        return Blob(data=b"")


class BlobType(pa.ExtensionType):  # type: ignore[misc]
    """The Arrow type of a blob column: struct<data, uri, position, size>."""

    def __init__(self) -> None:
        super().__init__(_STORAGE, BLOB_V2)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Self:
        return cls()

    def __arrow_ext_class__(self) -> type[BlobArray]:
        return BlobArray

    def __reduce__(self) -> tuple[type[BlobType], tuple[()]]:
        return BlobType, ()


class BlobArray(pa.ExtensionArray):  # type: ignore[misc]
    """The values of a blob column; created by `blob_array`."""

    @classmethod
    def from_pylist(cls, values: list[Any]) -> BlobArray:
        """Create an array from bytes, URIs (`str`), `Blob`s and None.

        Raises:
            TypeError: If a value is of another type.
            InvalidInputError: If a URI is empty.
        """
        blobs = [_blob(value) for value in require_list("values", values)]
        columns = [
            [None if blob is None else getattr(blob, member.name) for blob in blobs]
            for member in _STORAGE
        ]
        arrays = [
            pa.array(column, member.type) for column, member in zip(columns, _STORAGE, strict=True)
        ]
        mask = pa.array([blob is None for blob in blobs], pa.bool_())
        storage = pa.StructArray.from_arrays(arrays, fields=list(_STORAGE), mask=mask)
        made: BlobArray = pa.ExtensionArray.from_storage(BlobType(), storage)
        return made


def _blob(value: Any) -> Blob | None:
    if value is None or isinstance(value, Blob):
        return value
    if isinstance(value, str):
        return Blob(uri=value)
    if isinstance(value, _Bytes):
        return Blob.from_bytes(value)
    raise TypeError(f"a blob is bytes, a URI (str), a Blob or None, not {type(value).__name__}")


def blob_array(values: list[Any]) -> BlobArray:
    """Create a blob column.

    Args:
        values: Values: bytes, URIs (`str`), `Blob`s and None.

    Raises:
        TypeError: If a value is of another type.
        InvalidInputError: If a URI is empty.
    """
    return BlobArray.from_pylist(values)


def blob_field(
    name: str,
    *,
    nullable: bool = True,
    inline_size_threshold: int | None = None,
    dedicated_size_threshold: int | None = None,
    pack_file_size_threshold: int | None = None,
) -> pa.Field:
    """Return the Arrow field of a blob column.

    Args:
        name: Name of the column.
        nullable: Whether blobs may be null.
        inline_size_threshold: Maximum size of blobs that are stored in the data file, in bytes; 64
            KiB if None.
        dedicated_size_threshold: Size above which a blob gets a dedicated file, in bytes; 4 MiB if
            None.
        pack_file_size_threshold: Size at which a packed blob file is closed, in bytes; 1 GiB if
            None.

    Raises:
        InvalidInputError: If the name is not a text, or a size is not an integer from 0.
    """
    require_text("name", name)
    thresholds = {
        "inline": inline_size_threshold,
        "dedicated": dedicated_size_threshold,
        "pack-file": pack_file_size_threshold,
    }
    metadata = {
        f"lance-encoding:blob-{key}-size-threshold": str(require_count(f"{key} threshold", value))
        for key, value in thresholds.items()
        if value is not None
    }
    return pa.field(name, BlobType(), nullable, metadata or None)


class _RawBlob(io.RawIOBase):
    """The bytes of a blob; each read is one request."""

    def __init__(self, place: BlobPlace) -> None:
        self._place = place
        self._position = 0
        self._source: Source | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._require_open()
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._require_open()
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._place.size}
        if whence not in starts:
            raise InvalidInputError(f"whence: expected 0, 1 or 2, found {whence}")
        if starts[whence] + offset < 0:
            raise InvalidInputError(f"cannot seek to {starts[whence] + offset}")
        self._position = starts[whence] + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        found = self._read(len(view))
        np.frombuffer(view, np.uint8)[: len(found)] = found
        return len(found)

    def readall(self) -> bytes:
        return self._read(self._place.size).tobytes()

    def ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        """Read ranges of the blob with one request."""
        for offset, length in ranges:
            if offset < 0 or length < 0 or offset + length > self._place.size:
                raise InvalidInputError(
                    f"{length} bytes from {offset} of a blob of {self._place.size}"
                )
        places = [(self._place.position + offset, length) for offset, length in ranges]
        fetched = self._open().read(Ranges.of(*places))
        return [fetched[index].tobytes() for index in range(len(ranges))]

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None
        super().close()

    def _read(self, size: int) -> NDArray[np.uint8]:
        position = self._position  # another thread may move it, but nothing beyond the blob is read
        count = max(min(size, self._place.size - position), 0)
        source = self._open()
        if count == 0:
            return np.empty(0, dtype=np.uint8)
        fetched = source.read(Ranges.of((self._place.position + position, count)))
        self._position = position + count
        return fetched[0]

    def _open(self) -> Source:
        self._require_open()
        if self._source is None:
            self._source = self._place.source()
        return self._source

    def _require_open(self) -> None:
        if self.closed:
            raise InvalidInputError("I/O operation on a closed blob")


class BlobFile(io.BufferedIOBase):
    """A blob as a file that is open for reading.

    Bytes are read on demand. Sequential reads prefetch `buffer_size` bytes. `read_range` and
    `read_ranges` read exactly the requested bytes and do not move the position. A pickled file
    records the place of its bytes and opens at position 0.

    Created by `LanceDataset.take_blobs`.
    """

    def __init__(self, inner: BlobPlace, buffer_size: int = DEFAULT_BLOB_BUFFER_SIZE) -> None:
        require_count("buffer_size", buffer_size)
        self._inner = inner
        self._buffer_size = buffer_size
        self._raw = _RawBlob(inner)
        self._file: Any = io.BufferedReader(self._raw, buffer_size) if buffer_size else self._raw

    def size(self) -> int:
        """Return the size in bytes."""
        return self._inner.size

    def read(self, size: int | None = -1) -> bytes:
        """Read up to `size` bytes, or all remaining bytes."""
        return self._file.read(-1 if size is None else size) or b""

    def read1(self, size: int = -1) -> bytes:
        """Read up to `size` bytes with at most one request."""
        if size < 0:
            size = self._buffer_size or self._inner.size
        if self._file is self._raw:
            return self._raw.read(size) or b""
        found: bytes = self._file.read1(size)
        return found

    def readall(self) -> bytes:
        """Read all remaining bytes."""
        return self.read()

    def readinto(self, b: Any) -> int:
        """Read into a buffer and return the number of bytes read."""
        return self._file.readinto(b) or 0

    def read_range(self, offset: int, length: int) -> bytes:
        """Read `length` bytes from `offset` on; the position does not change.

        Raises:
            InvalidInputError: If the range exceeds the blob.
        """
        return self._raw.ranges([(offset, length)])[0]

    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        """Read ranges, each `(offset, length)`, with one request; the position does not change.

        Raises:
            InvalidInputError: If a range exceeds the blob.
        """
        return self._raw.ranges(list(ranges))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position, relative to the start, the current position or the end."""
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        """Return the position."""
        return int(self._file.tell())

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    @property
    def closed(self) -> bool:
        """Return whether the file is closed."""
        return bool(self._raw.closed)

    def close(self) -> None:
        """Close this file and release the underlying file."""
        if not self.closed:
            self._file.close()

    def __repr__(self) -> str:
        return f"<BlobFile size={self.size()}>"

    def __reduce__(self) -> tuple[type[BlobFile], tuple[BlobPlace, int]]:
        return BlobFile, (self._inner, self._buffer_size)


class BlobColumn:
    """A binary column that is iterated as in-memory files."""

    def __init__(self, blob_column: pa.Array | pa.ChunkedArray) -> None:
        if not isinstance(blob_column, pa.Array | pa.ChunkedArray):
            raise TypeError(f"expected an array, found {type(blob_column).__name__}")
        kind = blob_column.type
        if not (pa.types.is_large_binary(kind) or pa.types.is_binary(kind)):
            raise InvalidInputError(f"expected binary or large_binary, found {kind}")
        self.blob_column = blob_column

    def __iter__(self) -> Iterator[IO[bytes] | None]:
        return BlobIterator(iter(self.blob_column))


class BlobIterator:
    """An iterator of in-memory files, one per value; None for null."""

    def __init__(self, binary_iter: Iterator[pa.BinaryScalar]) -> None:
        self.binary_iter = binary_iter

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> IO[bytes] | None:
        value = next(self.binary_iter)
        return io.BytesIO(value.as_py()) if value.is_valid else None
