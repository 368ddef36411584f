"""Writers of blob payload files, and the descriptors by which a data file refers to payloads.

    PackedBlobWriter      data/{stem}/1000….blob    many payloads, one after the other
    DedicatedBlobWriter   data/{stem}/0100….blob    one payload, in any number of pieces

    BlobDescriptor(kind=PACKED, blob_id=1, position=5, size=3)    {kind: 1, blob_id: 1, …}
    BlobDescriptor()                                              null

Payload files are written before their data file. Their descriptors must be written to the data
file: without them, the payloads cannot be found. A column of descriptors has the form that the
format calls prepared: descriptors as in pages, but with inline payloads. Source:
docs/format/blobs.md, "Prepared columns".
"""

from __future__ import annotations

import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.container.blobs import contiguous
from pilum.errors import InvalidInputError
from pilum.format.blobs import BLOB_V2, PREPARED_V2, BlobKind, is_relative_path
from pilum.format.types import EXTENSION_NAME
from pilum.storage.base import Sink, Store
from pilum.table.model.names import sidecar_beside

__all__ = [
    "BlobDescriptor",
    "BlobDescriptorArrayBuilder",
    "DedicatedBlobWriter",
    "PackedBlobWriter",
]

_STORAGE = pa.struct([member.arrow for member in PREPARED_V2])
_TYPES = {member.name: member.type for member in _STORAGE}
_WRITTEN = (BlobKind.PACKED, BlobKind.DEDICATED)
_NULL = -1
_SUFFIX = ".lance"


@dataclass(frozen=True, slots=True)
class BlobDescriptor:
    """The place of one row's payload; made by `PackedBlobWriter` and `DedicatedBlobWriter`.

    Attributes:
        kind: Whether the file beside the data file is packed or dedicated; None for a null row.
        blob_id: The number of that file, from 1 on.
        position: Where the payload begins in that file, bytes.
        size: Size of the payload, bytes.

    Raises:
        InvalidInputError: If the values contradict each other.
    """

    kind: BlobKind | None = None
    blob_id: int = 0
    position: int = 0
    size: int = 0

    def __post_init__(self) -> None:
        if self.kind is None:
            if self.blob_id or self.position or self.size:
                raise InvalidInputError("the descriptor of a null blob must have no position")
            return
        if self.kind not in _WRITTEN:
            raise InvalidInputError(f"kind: expected packed or dedicated, found {self.kind!r}")
        require_blob_id(self.blob_id)
        _ranges([self.position], [self.size])
        if self.kind == BlobKind.DEDICATED and self.position:
            raise InvalidInputError("a dedicated blob is all of its file; position must be 0")


class BlobDescriptorArrayBuilder:
    """Builds a blob column from payloads that are already written, and inline ones.

    It writes nothing. Add the result of `finish` to a batch under `field`. If payloads lie beside a
    data file, write the batch to that file; if they are managed objects, write it with
    `write_dataset`.
    """

    def __init__(self, column: str) -> None:
        """Start a column.

        Args:
            column: Name of the column.
        """
        self._field = descriptor_field(column)
        self._values: dict[str, list[Any]] | None = {name: [] for name in _TYPES}

    @property
    def field(self) -> pa.Field:
        """Return the Arrow field of the column: nullable, of the extension type `lance.blob.v2`."""
        return self._field

    def extend_packed(self, blob_id: int, offsets: Sequence[int], sizes: Sequence[int]) -> None:
        """Add ranges of one packed file, a row each.

        Args:
            blob_id: The number of the file.
            offsets: Where payloads begin, bytes.
            sizes: Sizes of the payloads, bytes.

        Raises:
            InvalidInputError: If the number is not a valid file number, if `offsets` and `sizes`
                differ in length, or if a range ends beyond 64 bits.
        """
        number = require_blob_id(blob_id)
        if len(offsets) != len(sizes):
            raise InvalidInputError(f"{len(offsets)} offsets and {len(sizes)} sizes")
        places = _ranges(offsets, sizes)
        count = len(places[0])
        self._extend(
            count,
            kind=[int(BlobKind.PACKED)] * count,
            blob_id=[number] * count,
            position=places[0].to_pylist(),
            blob_size=places[1].to_pylist(),
        )

    def append_dedicated(self, blob_id: int, size: int) -> None:
        """Add a row whose payload is a whole file.

        Raises:
            InvalidInputError: If the number or the size is invalid.
        """
        self.append(BlobDescriptor(BlobKind.DEDICATED, require_blob_id(blob_id), 0, size))

    def append_managed(
        self, uri: str, offset: int, size: int, *, base_id: int | None = None
    ) -> None:
        """Add a row whose payload is a range of a managed object, which several rows may share.

        Only tables with managed blobs take such rows. The object must not be removed before they
        are committed: tag the version that refers to it, if a cleanup may run concurrently.

        Args:
            uri: Path of the object below the folder of the table, or below a base path:
                `_blobs/{uuid}.blob`. If `write_dataset` writes the rows to a base path, it is the
                folder meant by None.
            offset: Where the payload begins, bytes.
            size: Size of the payload, bytes; 0 for an empty one.
            base_id: Id of a base path of the table; None for the folder that contains the data
                file.

        Raises:
            InvalidInputError: If the path is not relative or leads out of the folder, if the range
                ends beyond 64 bits, or if the id is not within 32 bits.
        """
        if not (isinstance(uri, str) and is_relative_path(uri)):
            raise InvalidInputError(f"uri: expected a relative path below a folder, found {uri!r}")
        if base_id is not None and not (isinstance(base_id, int) and 0 <= base_id < 1 << 32):
            raise InvalidInputError(f"base_id: expected a number within 32 bits, found {base_id!r}")
        position, length = (one[0].as_py() for one in _ranges([offset], [size]))
        kind = BlobKind.MANAGED if base_id is None else BlobKind.MANAGED_IN_BASE
        self._extend(
            1,
            kind=[int(kind)],
            uri=[uri],
            blob_id=[base_id],
            position=[position],
            blob_size=[length],
        )

    def append(self, value: BlobDescriptor) -> None:
        """Add the row of a descriptor."""
        self.extend([value])

    def extend(self, values: Iterable[BlobDescriptor]) -> None:
        """Add the rows of descriptors.

        Raises:
            TypeError: If a value is not a descriptor; then none is added.
        """
        rows = list(values)
        if strange := [row for row in rows if not isinstance(row, BlobDescriptor)]:
            raise TypeError(f"expected BlobDescriptor, found {type(strange[0]).__name__}")
        self._extend(
            len(rows),
            kind=[None if row.kind is None else int(row.kind) for row in rows],
            blob_id=[None if row.kind is None else row.blob_id for row in rows],
            blob_size=[None if row.kind is None else row.size for row in rows],
            position=[row.position if row.kind == BlobKind.PACKED else None for row in rows],
        )

    def append_inline(self, data: bytes | bytearray | memoryview) -> None:
        """Add a row whose payload goes into the data file."""
        self._extend(1, kind=[int(BlobKind.INLINE)], data=[bytes(memoryview(data))])

    def append_null(self) -> None:
        """Add a null row."""
        self._extend(1)

    def finish(self) -> pa.StructArray:
        """End the column and return it.

        Returns:
            Its rows, of the type of `field`.

        Raises:
            InvalidInputError: If the column has already ended. The methods that add rows raise it
                too.
        """
        values = self._open()
        self._values = None
        children = [pa.array(values[name], kind) for name, kind in _TYPES.items()]
        return _array(children, children[0].is_null())

    def _extend(self, count: int, **given: list[Any]) -> None:
        for name, column in self._open().items():
            column.extend(given.get(name) or [None] * count)

    def _open(self) -> dict[str, list[Any]]:
        if self._values is None:
            raise InvalidInputError(f"the descriptors of {self._field.name!r} are finished")
        return self._values


def descriptor_field(name: str) -> pa.Field:
    """Return the Arrow field of a column of descriptors."""
    return pa.field(name, _STORAGE, metadata={EXTENSION_NAME: BLOB_V2})


def packed_descriptors(blob_id: int, sizes: NDArray[np.int64]) -> pa.StructArray:
    """Return the descriptor column for payloads that lie one after the other in a packed file.

    The sizes are int64, bytes of each; -1 for null.
    """
    is_null = sizes < 0
    held = np.where(is_null, 0, sizes)

    def member(name: str, values: Any) -> pa.Array:
        return pa.array(np.broadcast_to(values, sizes.shape), _TYPES[name], mask=is_null)

    children = [
        member("kind", int(BlobKind.PACKED)),
        pa.nulls(len(sizes), _TYPES["data"]),
        pa.nulls(len(sizes), _TYPES["uri"]),
        member("blob_id", blob_id),
        member("blob_size", held),
        member("position", np.cumsum(held) - held),
    ]
    return _array(children, pa.array(is_null))


def require_blob_id(blob_id: int) -> int:
    """Return the number of a file beside a data file; InvalidInputError unless in 1 to 2^32 - 1."""
    if not (isinstance(blob_id, int) and 0 < blob_id < 1 << 32):
        raise InvalidInputError(f"blob_id: expected a number from 1 to 2^32 - 1, found {blob_id!r}")
    return blob_id


def _array(children: list[pa.Array], is_null: pa.BooleanArray) -> pa.StructArray:
    mask = is_null if is_null.true_count else None
    return pa.StructArray.from_arrays(children, fields=list(_STORAGE), mask=mask)


def _ranges(offsets: Sequence[int], sizes: Sequence[int]) -> tuple[pa.Array, pa.Array]:
    try:
        made = pa.array(offsets, pa.uint64()), pa.array(sizes, pa.uint64())
    except (OverflowError, pa.ArrowInvalid) as error:
        raise InvalidInputError(f"offsets and sizes must be within 64 bits: {error}") from error
    starts, lengths = (np.asarray(array.to_numpy()) for array in made)
    beyond = starts > ~lengths
    if beyond.any():
        row = int(beyond.argmax())
        raise InvalidInputError(f"{lengths[row]} bytes from {starts[row]} end beyond 64 bits")
    return made


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
        if not isinstance(data_file, str):
            raise InvalidInputError(f"expected the path of a data file, found {data_file!r:.80}")
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
