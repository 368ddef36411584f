"""Sets of rows as bytes: Roaring bitmaps, one for each fragment or 2^32 row ids.

    01000000    00000000    14000000    3a300000 …      rows 2 and 5 of fragment 0
    groups      upper half  bytes       bitmap of the lower halves

All integers have 32 bits and are little-endian; groups are in ascending order of the upper half. A
bitmap of 0 bytes means all 2^32 rows, which no known writer stores. N-gram indices have another
form: the number of groups has 64 bits, and there is no length in bytes. Source:
docs/format/indices.md, "Rules for all types".
"""

from __future__ import annotations

import struct
from array import array

import numpy as np
from pyroaring import BitMap, BitMap64

from pilum.bitmap import roaring
from pilum.errors import CorruptFileError
from pilum.format.rows import Addresses, addresses_in, by_fragment

__all__ = ["pack_rows", "pack_rows_64", "unpack_rows", "unpack_rows_64"]

_COUNT = struct.Struct("<I")
_GROUP = struct.Struct("<II")
_MAX_ROWS_OF_RUNS = 1 << 24
"""A few bytes of runs can claim very many rows. Writers do not use runs, so few are believed."""


def pack_rows(rows: Addresses) -> bytes:
    """Pack sorted, distinct row references."""
    parts = [b""]
    for upper, places in by_fragment(rows):
        bitmap = roaring(rows[places].astype(np.uint32)).serialize()
        parts += [_GROUP.pack(upper, len(bitmap)), bitmap]
    parts[0] = _COUNT.pack(len(parts) // 2)
    return b"".join(parts)


def unpack_rows(data: bytes, path: str) -> Addresses:
    """Return sorted, distinct row references.

    Args:
        data: From `pack_rows`.
        path: Path of the file, for errors.

    Raises:
        CorruptFileError: If the bytes are damaged, or claim absurdly many rows.
    """
    try:
        [count] = _COUNT.unpack_from(data)
        at, parts, last = _COUNT.size, [], -1
        for _ in range(count):
            upper, size = _GROUP.unpack_from(data, at)
            at += _GROUP.size
            if upper <= last or not 0 < size <= len(data) - at:
                raise CorruptFileError(f"a set of rows with a group {upper} of {size} bytes", path)
            parts.append(_references(upper, data[at : at + size], path))
            at, last = at + size, upper
    except (struct.error, ValueError, IndexError) as error:
        raise CorruptFileError(f"a set of rows that is not a Roaring bitmap: {error}", path) from (
            error
        )
    if at != len(data):
        raise CorruptFileError(f"a set of rows with {len(data) - at} bytes after its end", path)
    return _in_order(np.concatenate([*parts, np.empty(0, dtype=np.uint64)]), path)


def _references(upper: int, data: bytes, path: str) -> Addresses:
    bitmap = BitMap.deserialize(data)
    _require_believable(len(bitmap), len(data), path)
    return addresses_in(upper, np.frombuffer(bitmap.to_array(), dtype=np.uint32))


def pack_rows_64(rows: Addresses) -> bytes:
    """Pack sorted, distinct row references in the form of n-gram indices."""
    return bytes(BitMap64(array("Q", rows.tobytes()), optimize=False).serialize())


def unpack_rows_64(data: bytes, path: str) -> Addresses:
    """Return sorted, distinct row references of an n-gram index.

    Raises:
        CorruptFileError: If the bytes are damaged, or claim absurdly many rows.
    """
    try:
        bitmap = BitMap64.deserialize(data)
    except (ValueError, IndexError) as error:
        raise CorruptFileError(f"a set of rows that is not a Roaring bitmap: {error}", path) from (
            error
        )
    _require_believable(len(bitmap), len(data), path)
    return _in_order(np.frombuffer(bitmap.to_array(), dtype=np.uint64), path)


def _require_believable(num_rows: int, size_bytes: int, path: str) -> None:
    if num_rows > max(8 * size_bytes, _MAX_ROWS_OF_RUNS):
        raise CorruptFileError(f"a set of {num_rows} rows in {size_bytes} bytes", path)


def _in_order(rows: Addresses, path: str) -> Addresses:
    """Return the same rows; damaged bitmaps may list them in any order."""
    if not (rows[:-1] < rows[1:]).all():
        raise CorruptFileError("a set of rows that is not in ascending order", path)
    return rows
