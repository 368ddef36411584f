"""The end of a legacy file: the positions of its parts and the rows of each batch.

    …                u32 length, Manifest        optional: the schema, for readers without a table
    metadata         u32 length, Metadata
    footer    -16    i64  position of the metadata
               -8    i16  major (0), i16 minor (2 when written, 0 to 2 when read)
               -4    "LANC"

A file is cut into batches of rows; every column has one page per batch. Source:
docs/format/legacy.md, "Footer and metadata".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilum.encodings.base import demand
from pilum.format.messages import parse_message
from pilum.format.pb import legacy_pb2

__all__ = ["FOOTER_BYTES", "Metadata", "StatisticsPlace", "pack_footer", "parse_footer"]

FOOTER_BYTES = 16
_MAGIC = b"LANC"
_FOOTER = struct.Struct("<qhh4s")
_WRITTEN = (0, 2)
_MAX_MINOR = 2


def parse_footer(tail: bytes, file_bytes: int) -> int:
    """Return the position of the metadata from the last 16 bytes of a file, or a shorter file."""
    demand(len(tail) >= FOOTER_BYTES, f"file size, bytes: at least 16, found {len(tail)}")
    position, major, minor, magic = _FOOTER.unpack(tail[-FOOTER_BYTES:])
    demand(magic == _MAGIC, f"magic: expected {_MAGIC!r}, found {magic!r}; not a Lance file")
    demand(major == 0 and 0 <= minor <= _MAX_MINOR, f"version {major}.{minor} in a legacy footer")
    inside = 0 <= position <= file_bytes - FOOTER_BYTES - 4
    demand(inside, f"footer: metadata at {position} in a file of {file_bytes} bytes")
    return int(position)


def pack_footer(metadata_position: int) -> bytes:
    """Serialise the footer: 16 bytes."""
    return _FOOTER.pack(metadata_position, *_WRITTEN, _MAGIC)


@dataclass(frozen=True, slots=True)
class StatisticsPlace:
    """The schema of the statistics, and the position of their page table."""

    message: legacy_pb2.Statistics
    page_table: int


@dataclass(frozen=True, slots=True)
class Metadata:
    """The parsed metadata of a legacy file: where its parts are.

    Attributes:
        batch_bounds: int64, shape (batches + 1,), first row of each batch and the end.
        page_table: Position of the page table.
        manifest: Position of the embedded manifest, 0 if there is none.
        statistics: None if there are none.
    """

    batch_bounds: NDArray[np.int64]
    page_table: int
    manifest: int
    statistics: StatisticsPlace | None

    @property
    def num_batches(self) -> int:
        """Number of batches, which is the number of pages of a column."""
        return len(self.batch_bounds) - 1

    @classmethod
    def from_bytes(cls, data: bytes, limit: int) -> Metadata:
        """Parse the message, whose positions have the upper bound `limit`."""
        message = parse_message(legacy_pb2.Metadata, data)
        bounds = np.array(message.batch_offsets, dtype=np.int64)
        demand(len(bounds) > 0 and bounds[0] == 0, "batches: the first does not start at row 0")
        demand(bool((np.diff(bounds) >= 0).all()), "batches: they do not follow each other")
        statistics = None
        if message.HasField("statistics"):
            place = message.statistics.page_table_position
            statistics = StatisticsPlace(message.statistics, _before(place, limit))
        return cls(
            bounds,
            _before(message.page_table_position, limit),
            _before(message.manifest_position, limit),
            statistics,
        )


def _before(position: int, limit: int) -> int:
    demand(position <= limit, f"metadata: position {position} beyond {limit}")
    return position
