"""Blobs of a dataset: read as files, as bytes or by ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pilum.arguments import positions, row_ids
from pilum.blob import DEFAULT_BLOB_BUFFER_SIZE, BlobFile
from pilum.dataset.base import DatasetBase
from pilum.errors import InvalidInputError
from pilum.table.read.blobs import BlobPlace, blob_places, read_places
from pilum.table.read.take import addresses_of, addresses_of_ids

__all__ = ["Blobs"]

_SELECTORS = ("ids", "addresses", "indices")


class Blobs(DatasetBase):
    """Methods of `LanceDataset` for blobs."""

    def take_blobs(
        self,
        blob_column: str,
        ids: Any = None,
        addresses: Any = None,
        indices: Any = None,
        *,
        buffer_size: int = DEFAULT_BLOB_BUFFER_SIZE,
    ) -> list[BlobFile | None]:
        """Open blobs as files; bytes are read on demand.

        Args:
            blob_column: Name of the column, or dotted path to a struct member.
            ids: Row ids. Exactly one of `ids`, `addresses` and `indices` must be given.
            addresses: Row addresses.
            indices: Row positions.
            buffer_size: Number of bytes that sequential reads prefetch; 0 to read only the
                requested bytes.

        Returns:
            One file per row, in the requested order; None for null.

        Raises:
            ColumnNotFoundError: If the column does not exist.
            InvalidInputError: If the column does not hold blobs, or a row does not exist.
            CorruptFileError: If a descriptor is invalid.
        """
        rows = self._addresses(ids=ids, addresses=addresses, indices=indices)
        if buffer_size < 0:
            raise InvalidInputError(f"buffer_size: expected at least 0, found {buffer_size}")
        places = blob_places(self._snapshot, blob_column, rows)
        return [None if place is None else BlobFile(place, buffer_size) for place in places]

    def read_blobs(
        self,
        blob_column: str,
        ids: Any = None,
        addresses: Any = None,
        indices: Any = None,
        *,
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, bytes | None]]:
        """Read whole blobs, with one request per file that contains them.

        Args:
            blob_column: Name of the column, or dotted path to a struct member.
            ids: Row ids. Exactly one of `ids`, `addresses` and `indices` must be given.
            addresses: Row addresses.
            indices: Row positions.
            io_buffer_size: Accepted for compatibility; has no effect.
            preserve_order: Accepted for compatibility; the order is always preserved.

        Returns:
            Address and bytes of each row, in the requested order; None for null.

        Raises:
            As `take_blobs`.
        """
        del io_buffer_size, preserve_order
        rows = self._addresses(ids=ids, addresses=addresses, indices=indices)
        found = read_places(blob_places(self._snapshot, blob_column, rows))
        return list(zip(rows.tolist(), found, strict=True))

    def read_blob_ranges(
        self,
        blob_column: str,
        requests: Sequence[tuple[int, int, int]],
        *,
        selector: Literal["ids", "addresses", "indices"],
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, int, bytes | None]]:
        """Read ranges of blobs, with one request per file that contains them.

        Args:
            blob_column: Name of the column, or dotted path to a struct member.
            requests: For each range: the row, the offset in its blob and the number of bytes.
            selector: Whether rows are given as ids, addresses or indices.
            io_buffer_size: Accepted for compatibility; has no effect.
            preserve_order: Accepted for compatibility; the order is always preserved.

        Returns:
            For each range: number of the request, address of the row, and bytes; None if the blob
            is null.

        Raises:
            As `take_blobs`; also InvalidInputError if a range exceeds its blob.
        """
        del io_buffer_size, preserve_order
        if selector not in _SELECTORS:
            raise InvalidInputError(
                f"selector: expected one of {', '.join(_SELECTORS)}, found {selector!r}"
            )
        wanted = list(requests)
        rows = self._addresses(**{selector: [row for row, _, _ in wanted]})
        places = blob_places(self._snapshot, blob_column, rows)
        parts = [
            _part(place, offset, length)
            for place, (_, offset, length) in zip(places, wanted, strict=True)
        ]
        found = read_places(parts)
        return list(zip(range(len(wanted)), rows.tolist(), found, strict=True))

    def _addresses(
        self, *, ids: Any = None, addresses: Any = None, indices: Any = None
    ) -> NDArray[np.uint64]:
        given = [item for item in (ids, addresses, indices) if item is not None]
        if len(given) != 1:
            raise InvalidInputError("pass exactly one of ids, addresses and indices")
        if indices is not None:
            rows = positions(indices, self._snapshot.num_rows)
            return addresses_of(self._snapshot, rows) if len(rows) else rows.astype(np.uint64)
        if addresses is not None:
            return row_ids("addresses", addresses)
        found, is_there = addresses_of_ids(self._snapshot, row_ids("ids", ids))
        if not is_there.all():
            raise InvalidInputError(
                f"ids: there is no row {row_ids('ids', ids)[is_there.argmin()]}"
            )
        return found


def _part(place: BlobPlace | None, offset: int, length: int) -> BlobPlace | None:
    if offset < 0 or length < 0:
        raise InvalidInputError(f"a part of a blob: {length} bytes from {offset}")
    if place is None:
        return None
    if offset + length > place.size:
        raise InvalidInputError(f"{length} bytes from {offset} of a blob of {place.size}")
    return BlobPlace(place.store, place.path, place.position + offset, length)
