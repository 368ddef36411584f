"""The zone map of a column, in a buffer of the column: what is known of each 8,192 rows.

    0    8  "PILZONES"               28   1  kind of value: 1 signed, 2 unsigned, 3 float,
    8    2  u16 version, 1                   4 text, 5 binary
    10   2  zero                     29   1  bytes of a number; 0 of texts and binary values
    12   4  u32 CRC-32 of what       30   2  zero
            follows                  32      u32 nulls of each zone
    16   4  u32 rows of a zone,              u32 NaNs of each zone, if kind is 3
            8192 times a power of 2          bounds
    20   4  u32 rows of the column
    24   4  u32 CRC-32 of the rows and the buffer sizes of each page

    bounds of numbers   least of each zone, then greatest of each zone, little-endian; zero if all
                        rows are null or NaN
    of other values     u8 length of each least, u8 of each greatest; 255 if there is none
                        the bytes of each least, then of each greatest

Only the last zone has fewer rows. Bounds are in the order of filters (`expressions/compare.py`):
that of the bytes of texts, and the total order of floats, in which -0.0 is less than 0.0. A NaN is
only counted. Texts and binary values are cut to 64 bytes, texts between characters. A greatest
value that was cut is raised, to be no less than the value; where that is impossible, there is no
bound.

Readers ignore other versions, buffers without the magic, and maps of other pages, which were copied
by a program that does not know of them. Damage is an error. Source: docs/format/container.md, "Zone
maps".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.container.frame import Places
from pilum.container.zone_summary import CUT_BYTES, ROWS_PER_ZONE, ZoneSummary, is_bytes
from pilum.encodings.base import StoredPage, demand
from pilum.storage.base import Ranges, Source

if TYPE_CHECKING:
    from pilum.expressions.prune import Zones

__all__ = ["pack_zones", "pages_checksum", "parse_zones", "read_zones"]

_MAGIC = b"PILZONES"
_VERSION = 1
_HEAD = struct.Struct("<8sHHIIIIBBH")
_CHECKED_FROM = 16
_SIGNED, _UNSIGNED, _FLOAT, _TEXT, _BINARY = 1, 2, 3, 4, 5
_NO_BOUND = 255
_BOUND_BYTES = CUT_BYTES - 1
_FIRST_SURROGATE, _LAST_SURROGATE = 0xD800, 0xDFFF
"""No character has these codes or those in between."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """The form in which bounds of a type are stored: the kind, and the bytes of a number."""

    code: int
    width: int

    @classmethod
    def of(cls, type: pa.DataType) -> _Kind:
        if is_bytes(type):
            is_text = pt.is_string(type) or pt.is_large_string(type)
            return cls(_TEXT if is_text else _BINARY, 0)
        if pt.is_boolean(type):
            return cls(_UNSIGNED, 1)
        code = _UNSIGNED if pt.is_unsigned_integer(type) else _SIGNED
        return cls(_FLOAT if pt.is_floating(type) else code, type.bit_width // 8)


def pages_checksum(pages: Iterable[StoredPage]) -> int:
    """Return the checksum of the rows and the buffer sizes of pages."""
    found = 0
    for page in pages:
        numbers = [page.num_rows, *(size for _, size in page.buffers)]
        found = zlib.crc32(np.array(numbers, dtype="<u8").tobytes(), found)
    return found


def pack_zones(
    summary: ZoneSummary, type: pa.DataType, rows_per_zone: int, pages: Iterable[StoredPage]
) -> bytes:
    """Serialise the zone map of a column of a type, with the pages that it has."""
    kind = _Kind.of(type)
    counts = [summary.nulls, summary.nans] if kind.code == _FLOAT else [summary.nulls]
    parts = [numbers.astype("<u4").tobytes() for numbers in counts]
    pack = _pack_numbers if kind.width else _pack_bytes
    parts.extend(pack(summary, kind))
    head = _HEAD.pack(
        _MAGIC, _VERSION, 0, 0, rows_per_zone, int(summary.rows.sum()), pages_checksum(pages),
        kind.code, kind.width, 0,
    )  # fmt: skip
    checked = b"".join((head[_CHECKED_FROM:], *parts))
    start = _HEAD.pack(_MAGIC, _VERSION, 0, zlib.crc32(checked), *(0,) * 6)[:_CHECKED_FROM]
    return start + checked


def _pack_numbers(summary: ZoneSummary, kind: _Kind) -> Iterable[bytes]:
    has_value = summary.nulls + summary.nans < summary.rows
    for ends in (summary.least, summary.most):
        start = ends.offset * kind.width
        data = np.frombuffer(ends.buffers()[1], np.uint8)[start:]
        rows = data[: len(ends) * kind.width].reshape(-1, kind.width)
        yield np.where(has_value[:, None], rows, np.uint8(0)).tobytes()


def _pack_bytes(summary: ZoneSummary, kind: _Kind) -> Iterable[bytes]:
    is_text = kind.code == _TEXT
    least = [_lower(value, is_text) for value in summary.least.to_pylist()]
    most = [_upper(value, is_text) for value in summary.most.to_pylist()]
    for ends in (least, most):
        yield bytes(_NO_BOUND if value is None else len(value) for value in ends)
    for ends in (least, most):
        yield from (value or b"" for value in ends)


def _lower(value: bytes | None, is_text: bool) -> bytes | None:
    """Cut a value to the bytes of a bound; None for no bound, as for text that is not UTF-8."""
    if value is None:
        return None
    cut = value
    if len(value) > _BOUND_BYTES:
        stop = _BOUND_BYTES
        while is_text and stop and value[stop] & 0xC0 == 0x80:
            stop -= 1  # to the first byte of a character
        cut = value[:stop]
    return cut if not is_text or _is_text(cut) else None


def _upper(value: bytes | None, is_text: bool) -> bytes | None:
    """Return the least short value that no value with this beginning exceeds; None for no bound."""
    cut = _lower(value, is_text)
    if value is None or cut is None or len(value) <= _BOUND_BYTES:
        return cut
    last = 0x10FFFF if is_text else 0xFF
    codes = list(map(ord, cut.decode())) if is_text else list(cut)
    while codes and codes[-1] == last:
        codes.pop()
    if not codes:
        return None
    codes[-1] += 1
    if not is_text:
        return bytes(codes)
    if codes[-1] == _FIRST_SURROGATE:
        codes[-1] = _LAST_SURROGATE + 1
    return "".join(map(chr, codes)).encode()


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def read_zones(
    buffers: Places, type: pa.DataType, pages: Sequence[StoredPage], source: Source
) -> Zones | None:
    """Read the zone map of a column of a type; None if none of its own buffers is one.

    Raises:
        CorruptFileError: If it is damaged.
    """
    num_rows = sum(page.num_rows for page in pages)
    most = _most_bytes(num_rows)
    wanted = [place for place in buffers if place[1] <= most]
    for data in source.read(Ranges.of(*wanted)) if wanted else ():
        found = parse_zones(data.tobytes(), type, num_rows, pages)
        if found is not None:
            return found
    return None


def _most_bytes(num_rows: int) -> int:
    """Return the size that no zone map of a column exceeds."""
    zones = -(-num_rows // ROWS_PER_ZONE)
    return _HEAD.size + zones * (8 + 2 * CUT_BYTES)


def parse_zones(
    data: bytes, type: pa.DataType, num_rows: int, pages: Sequence[StoredPage]
) -> Zones | None:
    """Parse the zone map of a column of a type; None if it is none, or of other pages.

    Raises:
        CorruptFileError: If it is damaged.
    """
    if len(data) < _HEAD.size or not data.startswith(_MAGIC):
        return None
    _, version, _, checksum, rows_per_zone, rows, pages_sum, code, width, _ = _HEAD.unpack_from(
        data
    )
    if version != _VERSION:
        return None
    demand(zlib.crc32(data[_CHECKED_FROM:]) == checksum, "zone map: its checksum does not match")
    kind = _Kind(code, width)
    if kind != _Kind.of(type) or rows != num_rows or pages_sum != pages_checksum(pages):
        return None
    power = rows_per_zone // ROWS_PER_ZONE
    is_power = power > 0 and power & (power - 1) == 0 and rows_per_zone % ROWS_PER_ZONE == 0
    demand(is_power, f"zone map: zones of {rows_per_zone} rows")
    starts = np.arange(0, num_rows, rows_per_zone, dtype=np.int64)
    bounds = np.append(starts, num_rows)
    return _Parser(data, _HEAD.size, bounds, kind).zones(type)


class _Parser:
    """Parses what follows the header, from front to back."""

    def __init__(self, data: bytes, at: int, bounds: NDArray[np.int64], kind: _Kind) -> None:
        self._data = data
        self._at = at
        self._bounds = bounds
        self._count = len(bounds) - 1
        self._kind = kind

    def zones(self, type: pa.DataType) -> Zones:
        from pilum.expressions.prune import Zones  # writers need no expressions

        rows = np.diff(self._bounds)
        nulls = self._numbers()
        is_float = self._kind.code == _FLOAT
        nans = self._numbers() if is_float else np.zeros_like(nulls)
        demand(bool((nulls + nans <= rows).all()), "zone map: more nulls than rows")
        has_number = nulls + nans < rows
        parse = self._number_ends if self._kind.width else self._byte_ends
        least, most = parse(type, has_number)
        demand(self._at == len(self._data), "zone map: bytes after its end")
        return Zones(
            self._bounds, least, most, nulls > 0, nulls < rows, nans > 0 if is_float else None
        )

    def _take(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        demand(self._at <= len(self._data), "zone map: it ends too early")
        return self._data[start : self._at]

    def _numbers(self) -> NDArray[np.int64]:
        return np.frombuffer(self._take(4 * self._count), "<u4").astype(np.int64)

    def _number_ends(
        self, type: pa.DataType, has_number: NDArray[np.bool_]
    ) -> tuple[pa.Array, pa.Array]:
        ends = [self._take(self._kind.width * self._count) for _ in range(2)]
        if pt.is_boolean(type):
            flags = (np.frombuffer(end, np.uint8) > 0 for end in ends)
            least, most = (pa.array(flag, mask=~has_number) for flag in flags)
        else:
            validity = pa.py_buffer(np.packbits(has_number, bitorder="little"))
            least, most = (
                pa.Array.from_buffers(type, self._count, [validity, pa.py_buffer(end)])
                for end in ends
            )
        return least, most

    def _byte_ends(
        self, type: pa.DataType, has_value: NDArray[np.bool_]
    ) -> tuple[pa.Array, pa.Array]:
        lengths = [np.frombuffer(self._take(self._count), np.uint8) for _ in range(2)]
        least, most = (self._texts(type, own, has_value) for own in lengths)
        return least, most

    def _texts(
        self, type: pa.DataType, lengths: NDArray[np.uint8], has_value: NDArray[np.bool_]
    ) -> pa.Array:
        known = lengths != _NO_BOUND
        demand(not bool((known & ~has_value).any()), "zone map: a bound of nulls")
        sizes = np.where(known, lengths, 0).astype(np.int64)
        demand(int(sizes.max(initial=0)) <= _BOUND_BYTES, "zone map: a bound is too long")
        ends = np.concatenate(([0], np.cumsum(sizes)))
        data = pa.py_buffer(self._take(int(ends[-1])))
        validity = pa.py_buffer(np.packbits(known, bitorder="little"))
        found = pa.Array.from_buffers(
            pa.large_binary(), self._count, [validity, pa.py_buffer(ends), data]
        )
        try:
            return found.cast(type)
        except pa.ArrowInvalid as error:
            demand(False, f"zone map: {error}")
            raise
