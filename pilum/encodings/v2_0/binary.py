"""Strings and bytes of any length (`ArrayEncoding.binary`).

    indices    n x u64     where each value ends in `bytes`, and whether it is null (`entries.py`)
    bytes                  all values, contiguous; may be compressed

    "hello" null "" "world"     ->     indices 5 16 5 10   null_adjustment 11   bytes helloworld

Empty and null are distinct. Source: docs/format/encodings-2.0.md, "Binary".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pilum.encodings.base import demand
from pilum.encodings.v2_0.base import (
    ArrayEncoding,
    Buffer,
    Buffers,
    Bytes,
    Children,
    Direct,
    Encoded,
    Items,
)
from pilum.encodings.v2_0.flat import Compression, Flat
from pilum.encodings.v2_0.list import ENTRY_BITS, adjusted, entries_of, read_entries
from pilum.encodings.v2_0.nullable import Nullable
from pilum.format.pb import encodings20_pb2 as pb
from pilum.storage.base import Plan

__all__ = ["OFFSET_BITS", "Binary", "text_buffers"]

OFFSET_BITS = {
    pa.string().id: 32,
    pa.binary().id: 32,
    pa.large_string().id: 64,
    pa.large_binary().id: 64,
}
"""The Arrow types that this encoding can hold, by type id."""

_BYTE = 8
_COPIED_BYTES = 256 * 1024


@dataclass(frozen=True)
class Binary(ArrayEncoding):
    """Values of any length; each can be read alone unless the bytes are compressed."""

    arm = "binary"

    indices: ArrayEncoding
    bytes: ArrayEncoding
    null_adjustment: int

    @classmethod
    def from_proto(cls, message: pb.Binary, children: Children) -> Binary:
        """Read the member message."""
        return cls(children(message.indices), children(message.bytes), message.null_adjustment)

    def member(self) -> pb.Binary:
        """Return the member message."""
        return pb.Binary(
            indices=self.indices.to_proto(),
            bytes=self.bytes.to_proto(),
            null_adjustment=self.null_adjustment,
        )

    def read(self, items: Items, kind: pa.DataType) -> Plan[pa.Array]:
        """Read values and their validity."""
        bits = OFFSET_BITS.get(kind.id)
        demand(bits is not None, f"values of type {kind} stored as {self.arm}")
        assert bits is not None
        entries = yield from read_entries(self.indices, self.null_adjustment, items, bits)
        wanted = entries.wanted
        data: Bytes = np.empty(0, dtype=np.uint8)
        if len(wanted.bounds):
            part = Items(items.buffers, int(wanted.stops[-1]), wanted)
            data = yield from self.bytes.raw(part, _BYTE)
        return pa.Array.from_buffers(
            kind, items.num_wanted, [*entries.buffers, pa.py_buffer(data)], entries.null_count
        )

    def direct_whole(self, buffers: Buffers, total: int, kind: pa.DataType) -> Direct | None:
        """Return the direct read of all values, as then all bytes are read."""
        bits = OFFSET_BITS.get(kind.id)
        if bits is None:
            return None
        ends = self.indices.slots(buffers, total, ENTRY_BITS)
        data = self.bytes.all_slots(buffers, _BYTE)
        if ends is None or data is None or data.rows is None:
            return None
        if data.rows[0, 1] > _COPIED_BYTES:
            return None
        every = np.array([[0, total]], dtype=np.int64)
        return Direct((ends._replace(rows=every), data), partial(self._whole, every, kind, bits))

    def _whole(
        self,
        every: NDArray[np.int64],
        kind: pa.DataType,
        bits: int,
        parts: Sequence[Bytes],
        count: int,
    ) -> pa.Array:
        ends, data = parts
        entries = entries_of(ends, self.null_adjustment, every, bits)
        need = int(entries.offsets[-1])
        demand(need <= len(data), f"binary: {len(data)} bytes, but {need} are needed")
        return pa.Array.from_buffers(
            kind, count, [*entries.buffers, pa.py_buffer(data)], entries.null_count
        )

    @classmethod
    def encode(cls, array: pa.Array, first: int, compression: Compression | None = None) -> Encoded:
        """Encode values of an array into buffer number `first` and the next one."""
        ends, valid, data = text_buffers(array)
        return cls.of(ends, valid, data, first, compression)

    @classmethod
    def of(
        cls,
        ends: NDArray[np.int64],
        valid: NDArray[np.bool_] | None,
        data: Bytes,
        first: int,
        compression: Compression | None = None,
    ) -> Encoded:
        """Encode values with these ends; those that are not valid are null."""
        stored, adjustment = adjusted(ends, valid)
        indices = Nullable(Flat(64, Buffer(first)))
        content = Flat(_BYTE, Buffer(first + 1), compression)
        packed = compression.compress(data) if compression else data
        return Encoded(cls(indices, content, adjustment), (stored, packed))


def text_buffers(
    array: pa.Array,
) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None, Bytes]:
    """Return the ends of the values, their validity (None if all valid), and their bytes."""
    if not len(array):
        return np.empty(0, dtype=np.int64), None, np.empty(0, dtype=np.uint8)
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    ends, data = _ends_and_bytes(array)
    if valid is not None and np.diff(ends, prepend=0)[~valid].any():
        ends, data = _ends_and_bytes(pc.fill_null(array, b""))  # Arrow allows bytes below nulls
    return ends, valid, data


def _ends_and_bytes(array: pa.Array) -> tuple[NDArray[np.int64], Bytes]:
    _, offsets, data = array.buffers()
    width = np.int64 if OFFSET_BITS[array.type.id] == 64 else np.int32
    all_offsets = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]
    first, last = int(all_offsets[0]), int(all_offsets[-1])
    ends = all_offsets[1:].astype(np.int64) - first
    return ends, np.frombuffer(data or b"", np.uint8)[first:last]
