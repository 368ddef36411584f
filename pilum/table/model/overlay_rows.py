"""The rows of overlays: those of a fragment for which another file has values of some fields.

    rows 1 3          values 55 77          a Roaring bitmap of physical rows, and the values of
                                            these rows in ascending order
    data file         0 1 2 3 4
    read as           0 55 2 77 4

All fields of an overlay share one bitmap, or each has its own. Source: docs/format/table.md,
"Overlays".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from pilum.errors import CorruptFileError, InvalidInputError
from pilum.format.pb import table_pb2

__all__ = ["OverlayRows"]


@dataclass(frozen=True, slots=True)
class OverlayRows:
    """The physical rows of each field of an overlay.

    Attributes:
        bitmaps: A Roaring bitmap for each field, or one for all.
        are_shared: Whether there is one for all fields.
    """

    bitmaps: tuple[bytes, ...]
    are_shared: bool

    @classmethod
    def of(cls, offsets: Iterable[Any], num_fields: int) -> OverlayRows:
        """Return rows in any order, or those of each of the fields if these are listed.

        InvalidInputError is raised for anything else, and for a row that is listed twice.
        """
        listed = list(offsets)
        if all(map(_is_number, listed)):
            return cls((_serialized(listed),), are_shared=True)
        if len(listed) != num_fields or any(map(_is_number, listed)):
            raise InvalidInputError(
                f"offsets: expected rows, or an iterable of rows for each of the {num_fields} "
                f"fields, found {listed!r:.200}"
            )
        return cls(tuple(map(_serialized, listed)), are_shared=False)

    @classmethod
    def from_proto(cls, message: table_pb2.DataOverlayFile, num_fields: int) -> OverlayRows:
        """Read the rows of an overlay of a manifest; bitmaps are checked when they are used."""
        if message.WhichOneof("coverage") != "field_coverage":
            return cls((message.shared_offset_bitmap,), are_shared=True)
        bitmaps = tuple(message.field_coverage.bitmaps)
        if len(bitmaps) != num_fields:
            raise CorruptFileError(f"{num_fields} fields have {len(bitmaps)} bitmaps")
        return cls(bitmaps, are_shared=False)

    def to_proto(self, message: table_pb2.DataOverlayFile) -> None:
        """Set the rows of a message."""
        if self.are_shared:
            [message.shared_offset_bitmap] = self.bitmaps
        else:
            message.field_coverage.bitmaps.extend(self.bitmaps)

    @property
    def of_fields(self) -> list[BitMap]:
        """The rows of each field, or once those of all; very many need little memory."""
        return [_bitmap(one) for one in self.bitmaps]

    def listed(self, num_rows: int) -> list[int] | list[list[int]]:
        """Return the rows of all fields, or those of each, as `of` takes them; as `of_field`."""
        found: list[list[int]] = [_expanded(one, num_rows).tolist() for one in self.bitmaps]
        return found[0] if self.are_shared else found

    def of_field(self, place: int, num_rows: int) -> NDArray[np.uint32]:
        """Return the rows of the field at a place, ascending, in a fragment of `num_rows`.

        CorruptFileError is raised if the bitmap is damaged, or has rows that do not exist.
        """
        return _expanded(self.bitmaps[0 if self.are_shared else place], num_rows)

    def of_any(self, num_rows: int) -> NDArray[np.uint32]:
        """Return the rows of any field, as `of_field`."""
        found = [_expanded(one, num_rows) for one in self.bitmaps]
        return np.unique(np.concatenate([np.empty(0, np.uint32), *found]))


def _expanded(data: bytes, num_rows: int) -> NDArray[np.uint32]:
    bitmap = _bitmap(data)
    # A few bytes can claim very many rows, so these are checked before they are expanded.
    if bitmap and bitmap.max() >= num_rows:
        raise CorruptFileError(f"row {bitmap.max()} of {num_rows} has a new value")
    return np.frombuffer(bitmap.to_array(), np.uint32)


def _bitmap(data: bytes) -> BitMap:
    try:
        return BitMap.deserialize(data)
    except (ValueError, IndexError) as error:
        raise CorruptFileError(f"not a Roaring bitmap of rows: {error}") from error


def _is_number(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _serialized(rows: Iterable[Any]) -> bytes:
    listed = list(rows)
    try:
        bitmap = BitMap(listed)
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidInputError(f"offsets: not physical rows: {listed!r:.200}") from error
    if len(bitmap) != len(listed):
        raise InvalidInputError(f"offsets: a row is listed twice: {listed!r:.200}")
    data: bytes = bitmap.serialize()
    return data
