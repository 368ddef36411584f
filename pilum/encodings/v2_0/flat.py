"""Contiguous values (`ArrayEncoding.flat`).

    bits = 1        bitmap, least significant bit first, ceil(n / 8) bytes
    otherwise       n x bits / 8 bytes, little-endian, no padding

A buffer may be compressed as a whole, and is then read as a whole:

    zstd    u64 raw size, one frame (or a bare frame)      lz4    u32 raw size, one raw block

The content of null slots is undefined. Source: docs/format/encodings-2.0.md, "Flat".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pilum import kernels
from pilum.encodings.base import demand
from pilum.encodings.v2_0.base import (
    Buffer,
    Buffers,
    Bytes,
    Children,
    Encoded,
    FixedWidth,
    Items,
    Slots,
    bits_of,
)
from pilum.format.pb import encodings20_pb2 as pb
from pilum.storage.base import Fetched, Plan, Ranges

__all__ = ["Compression", "Flat", "bitmap"]

_SCHEMES = ("none", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Compression:
    """The compression of a buffer: "none", "lz4" or "zstd", and the level of the writer."""

    scheme: str
    level: int | None = None

    def to_proto(self) -> pb.Compression:
        """Return the message."""
        return pb.Compression(scheme=self.scheme, level=self.level)

    def compress(self, data: Bytes) -> Bytes:
        """Return the stored form of the bytes; empty bytes stay empty."""
        if self.scheme == "none" or not len(data):
            return data
        return kernels.compress(self.scheme, data, self.level or 0)

    def decompress(self, stored: Bytes) -> Bytes:
        """Return the raw bytes: the inverse of `compress`."""
        if self.scheme == "none" or not len(stored):
            return stored
        return kernels.decompress(self.scheme, stored)


@dataclass(frozen=True)
class Flat(FixedWidth):
    """Numbers of one width; each can be read alone unless the buffer is compressed."""

    arm = "flat"

    bits: int
    buffer: Buffer
    compression: Compression | None = None

    @classmethod
    def from_proto(cls, message: pb.Flat, children: Children) -> Flat:
        """Read the member message."""
        bits = message.bits_per_value
        demand(bits == 1 or (bits > 0 and bits % 8 == 0), f"flat: values of {bits} bits")
        return cls(bits, Buffer.from_proto(message.buffer), _compression(message))

    def member(self) -> pb.Flat:
        """Return the member message."""
        message = pb.Flat(bits_per_value=self.bits, buffer=self.buffer.to_proto())
        if self.compression:
            message.compression.CopyFrom(self.compression.to_proto())
        return message

    def slots(self, buffers: Buffers, total: int, bits: int) -> Slots | None:
        """Return the slots of the numbers."""
        if self.bits != bits or self.compression is not None:
            return None
        offset, size = self.buffer.place(buffers)
        self._check(total, size)
        return Slots(offset, bits)

    def all_slots(self, buffers: Buffers, bits: int) -> Slots | None:
        """Return the slots of as many numbers as the buffer can hold."""
        if self.bits != bits or self.compression is not None:
            return None
        offset, size = self.buffer.place(buffers)
        return Slots(offset, bits, np.array([[0, 8 * size // bits]], dtype=np.int64))

    def values(self, items: Items) -> Plan[Bytes]:
        """Read the bytes of the selected values; bits are moved to the front of their bytes."""
        offset, size = self.buffer.place(items.buffers)
        bounds = items.rows.bounds
        first, stop = bounds[:, 0] * self.bits // 8, -(bounds[:, 1] * self.bits // -8)
        if self.compression is None:
            self._check(items.total, size)
            is_result = len(bounds) == 1 and self.bits > 1
            fetched = yield Ranges(offset + first, stop - first, is_result)
        else:
            stored = yield Ranges.of((offset, size))
            data = self.compression.decompress(stored[0])
            self._check(items.total, len(data))
            fetched = Fetched(data, first, stop - first)
        return _bits(fetched, items) if self.bits == 1 else _joined(fetched)

    def _check(self, total: int, size: int) -> None:
        need = -(total * self.bits // -8)
        demand(size >= need, f"flat: {size} bytes for {total} values of {self.bits} bits")

    @classmethod
    def encode(cls, array: pa.Array, first: int) -> Encoded:
        """Encode the values of an array, including nulls, into buffer number `first`."""
        bits = bits_of(array.type)
        assert bits
        buffer = array.buffers()[1]
        if pt.is_boolean(array.type):
            return Encoded(cls(1, Buffer(first)), (bitmap(buffer, array.offset, len(array)),))
        width = bits // 8
        data = buffer.slice(array.offset * width, len(array) * width) if len(array) else b""
        return Encoded(cls(bits, Buffer(first)), (data,))


def bitmap(buffer: pa.Buffer, first: int, count: int) -> Bytes:
    """Return some bits of a buffer, moved to its front; unused bits are zero."""
    ranges = np.array([[first, count]], dtype=np.int64)
    return kernels.gather_bits(np.frombuffer(buffer or b"", np.uint8), ranges)


def _compression(message: pb.Flat) -> Compression | None:
    if not message.HasField("compression"):
        return None
    scheme = message.compression.scheme
    demand(scheme in _SCHEMES, f"flat: unknown compression {scheme!r}")
    level = message.compression.level if message.compression.HasField("level") else None
    return Compression(scheme, level)


def _joined(fetched: Fetched) -> Bytes:
    if len(fetched) == 1:
        return fetched[0]
    return kernels.gather_bytes(fetched.data, _pairs(fetched.starts, fetched.sizes))


def _bits(fetched: Fetched, items: Items) -> Bytes:
    starts = items.rows.starts
    if len(fetched) == 1 and starts[0] % 8 == 0:
        return fetched[0]
    return kernels.gather_bits(
        fetched.data, _pairs(fetched.starts * 8 + starts % 8, items.rows.stops - starts)
    )


def _pairs(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    return np.column_stack((starts, sizes))
