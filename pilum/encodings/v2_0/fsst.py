"""Strings of one-byte codes (`ArrayEncoding.fsst`).

A `binary` of the compressed strings, and a symbol table of 2,312 bytes in the description; both are
those of version 2.1 (`pilum.encodings.compressive.fsst`). Each string decodes on its own.

Source: docs/format/encodings-2.0.md, "FSST".
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pilum import kernels
from pilum.encodings.base import demand
from pilum.encodings.v2_0.base import ArrayEncoding, Children, Encoded, Items
from pilum.encodings.v2_0.binary import OFFSET_BITS, Binary, text_buffers
from pilum.format.pb import encodings20_pb2 as pb
from pilum.storage.base import Plan

__all__ = ["Fsst"]

_MIN_BYTES = 32 * 1024
"""Fewer bytes are stored uncompressed, with a table that is marked so."""
_VERBATIM = b"\0\0\0\0TSSF".ljust(2312, b"\0")


@dataclass(frozen=True)
class Fsst(ArrayEncoding):
    """Strings compressed by a table of frequent symbols."""

    arm = "fsst"

    binary: ArrayEncoding
    symbol_table: bytes = field(repr=False)

    @classmethod
    def from_proto(cls, message: pb.Fsst, children: Children) -> Fsst:
        """Read the member message."""
        return cls(children(message.binary), message.symbol_table)

    def member(self) -> pb.Fsst:
        """Return the member message."""
        return pb.Fsst(binary=self.binary.to_proto(), symbol_table=self.symbol_table)

    def read(self, items: Items, kind: pa.DataType) -> Plan[pa.Array]:
        """Read the selected strings and decompress them."""
        bits = OFFSET_BITS.get(kind.id)
        demand(bits is not None, f"values of type {kind} stored as {self.arm}")
        codes = yield from self.binary.read(items, pa.large_binary())
        validity, ends, data = codes.buffers()
        offsets, text = kernels.decompress_fsst(
            self.symbol_table,
            np.frombuffer(ends, np.int64, len(codes) + 1),
            np.frombuffer(data or b"", np.uint8),
        )
        if bits == 32:
            demand(len(text) < 2**31, f"fsst: {len(text)} bytes for a column of type {kind}")
            offsets = offsets.astype(np.int32)
        buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(text)]
        return pa.Array.from_buffers(kind, len(codes), buffers, codes.null_count)

    @classmethod
    def encode(cls, array: pa.Array, first: int) -> Encoded:
        """Encode strings of an array into buffer number `first` and the next one."""
        ends, valid, data = text_buffers(array)
        table = _VERBATIM
        if len(data) >= _MIN_BYTES:
            offsets = np.concatenate((np.zeros(1, dtype=np.int64), ends))
            table, offsets, data = _compress(offsets, data)
            ends = offsets[1:]
        codes = Binary.of(ends, valid, data, first)
        return Encoded(cls(codes.encoding, table), codes.buffers)


def _compress(offsets: np.ndarray, data: np.ndarray) -> tuple[bytes, np.ndarray, np.ndarray]:
    table, offsets, data = kernels.compress_fsst(offsets, data)
    return table.tobytes(), offsets, data
