"""Readers and writers of deletion files, in both formats.

.arrow    an Arrow IPC file: one column `row_id`, uint32 without nulls (int32 is read too), in any
          order; the body may be compressed, and is written with ZSTD
.bin      a Roaring bitmap of 32-bit numbers in the portable serialization

Fewer than 5,000 rows are written as Arrow. More rows, or rows that were stored as a bitmap before,
are written as a bitmap. Source: docs/format/table.md, "Deleted rows".
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from contextlib import suppress

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from pilum.errors import CorruptFileError
from pilum.storage.base import Ranges, Store
from pilum.storage.local import pending_of
from pilum.storage.pending_files import PendingFiles
from pilum.table.model.deletion_file import DeletionFile, DeletionFileType
from pilum.table.model.deletion_vector import DeletionVector
from pilum.table.model.fragment import Fragment
from pilum.table.model.places import deletion_file_place

__all__ = ["load_deletions", "store_deletions"]

_BITMAP_ROWS = 5000
_SPARE_BYTES = 16 * 1024
"""Bytes that a file may contain in addition to 4 bytes per row."""

_COLUMN = "row_id"
_SCHEMA = pa.schema([pa.field(_COLUMN, pa.uint32(), nullable=False)])


def load_deletions(store: Store, fragment: Fragment) -> DeletionVector | None:
    """Read the deleted rows of a fragment.

    Args:
        store: Store of the table.
        fragment: The fragment; its `physical_rows` are known.

    Returns:
        The deleted rows, None if the fragment has no deletion file.

    Raises:
        NotFoundError: If the file is missing.
        CorruptFileError: If the file is damaged or contradicts the manifest.
    """
    file, place = fragment.deletion_file, deletion_file_place(store, fragment)
    if file is None or place is None:
        return None
    store, path = place
    try:
        vector = _parse(store, path, fragment.physical_rows, file)
    except CorruptFileError as error:
        raise error.at(f"fragment {fragment.id}").at(f"{store.uri}/{path}") from error.__cause__
    return vector


def store_deletions(
    store: Store,
    parts: Iterable[tuple[Fragment, DeletionVector]],
    read_version: int,
    *,
    as_bitmap: bool = False,
) -> tuple[Fragment, ...]:
    """Write new deletion files.

    Args:
        store: Store of the table.
        parts: Fragments, each with all of its deleted rows: at least one row, but not every row.
        read_version: The version in which the rows were selected.
        as_bitmap: Whether to write bitmaps even for few rows.

    Returns:
        The fragments with their new deletion files.

    Raises:
        OSError: If the store failed. On any error, no new file is left.
    """
    written: list[Fragment] = []
    pending = PendingFiles(later=pending_of(store))
    try:
        for fragment, vector in parts:
            file_type, data = _encoded(fragment, vector, as_bitmap=as_bitmap)
            file = DeletionFile(file_type, read_version, secrets.randbits(64), len(vector))
            written.append(fragment.with_deletions(file))
            sink = pending.sink(store.sink(file.path(fragment.id)))
            sink.write(data)
            sink.finish()
        pending.wait()
    except BaseException:
        pending.settle()
        for fragment in written:
            if fragment.deletion_file:
                with suppress(OSError):
                    store.delete(fragment.deletion_file.path(fragment.id))
        raise
    return tuple(written)


def _encoded(
    fragment: Fragment, vector: DeletionVector, *, as_bitmap: bool
) -> tuple[DeletionFileType, bytes]:
    old = fragment.deletion_file
    is_bitmap = as_bitmap or len(vector) >= _BITMAP_ROWS
    if is_bitmap or (old and old.file_type is DeletionFileType.BITMAP):
        return DeletionFileType.BITMAP, _to_bitmap(vector)
    return DeletionFileType.ARROW, _to_arrow(vector)


def _read(store: Store, path: str, num_rows: int) -> bytes:
    """Read the whole file; raise if it is larger than any list of the fragment's rows can be."""
    source = store.source(path)
    try:
        if source.size > 4 * num_rows + _SPARE_BYTES:
            raise CorruptFileError(f"{source.size} bytes list the deleted rows of {num_rows}")
        return source.read(Ranges.of((0, source.size)))[0].tobytes()
    finally:
        source.close()


def _parse(store: Store, path: str, num_rows: int, file: DeletionFile) -> DeletionVector:
    data = _read(store, path, num_rows)
    if file.file_type is DeletionFileType.ARROW:
        vector = _from_arrow(data, num_rows)
    else:
        vector = _from_bitmap(data, num_rows)
    if file.num_deleted_rows not in {0, len(vector)}:
        raise CorruptFileError(
            f"deleted rows: the manifest says {file.num_deleted_rows}, the file {len(vector)}"
        )
    return vector


def _from_arrow(data: bytes, num_rows: int) -> DeletionVector:
    try:
        table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        table.validate(full=True)
        names = table.column_names
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise CorruptFileError(f"no Arrow file: {error}") from error
    if names != [_COLUMN] or table.schema.types[0] not in (pa.uint32(), pa.int32()):
        raise CorruptFileError(f"expected a column {_COLUMN}: uint32, found {table.schema}")
    column = table.column(0)
    if column.null_count:
        raise CorruptFileError(f"{column.null_count} deleted rows are null")
    rows = column.to_numpy().astype(np.int64)
    _require_row(int(rows.min(initial=0)), num_rows)
    _require_row(int(rows.max(initial=0)), num_rows)
    return DeletionVector.of(rows)


def _to_arrow(vector: DeletionVector) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, _SCHEMA, options=options) as writer:
        writer.write_batch(pa.record_batch([pa.array(vector.offsets)], schema=_SCHEMA))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _from_bitmap(data: bytes, num_rows: int) -> DeletionVector:
    try:
        bitmap = BitMap.deserialize(data)
    except (ValueError, IndexError) as error:
        raise CorruptFileError(f"no Roaring bitmap: {error}") from error
    if bitmap:  # Check the count before expanding: a few bytes can claim very many rows.
        _require_row(bitmap.max(), num_rows)
    return DeletionVector(np.frombuffer(bitmap.to_array(), dtype=np.uint32))


def _to_bitmap(vector: DeletionVector) -> bytes:
    # Run containers would be smaller, but the reference writes none.
    data: bytes = BitMap(vector.offsets, optimize=False).serialize()
    return data


def _require_row(row: int, num_rows: int) -> None:
    if not 0 <= row < num_rows:
        raise CorruptFileError(f"row {row} of {num_rows} is deleted")
