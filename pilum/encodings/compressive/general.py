"""LZ4 or zstd around another encoding (`CompressiveEncoding.general`).

    LZ4     u32 raw size, one raw block
    zstd    u64 raw size, one frame (old files: a bare frame)

LZ4 of values of 128 bits may have one sequence per value, so that the place of each one is known.

In mini-block chunks only the first value buffer is compressed, chunk by chunk; in full-zip pages
each value on its own; a block as a whole. Source: docs/format/encodings-2.1.md, "General".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pilum.encodings.base import Children, Compressive, demand
from pilum.format.pb import encodings21_pb2 as pb
from pilum.kernels import Block, Coding, Plan

__all__ = ["General"]

_SCHEMES: dict[int, Literal["lz4", "zstd"]] = {
    pb.BufferCompression.LZ4: "lz4",
    pb.BufferCompression.ZSTD: "zstd",
}


@dataclass(frozen=True)
class General(Compressive):
    """Another encoding, compressed with LZ4 or zstd.

    Attributes:
        scheme: The compression.
        values: The other encoding.
        level: The level of zstd; None for its default.
        by_value: Whether LZ4 writes one sequence per value of 128 bits. Readers see that in the
            bytes; the description has nothing of it.
    """

    arm = "general"

    scheme: Literal["lz4", "zstd"]
    values: Compressive
    level: int | None = None
    by_value: bool = field(default=False, compare=False, repr=False)

    @classmethod
    def of(cls, scheme: Literal["lz4", "zstd"], values: Compressive, level: int | None) -> General:
        """Build the compression; lz4 has no level, and zstd's default level is left out."""
        return cls(scheme, values, level if scheme == "zstd" else None)

    @classmethod
    def from_proto(cls, message: pb.General, children: Children) -> General:
        """Read the member message."""
        scheme = message.compression.scheme
        demand(scheme in _SCHEMES, f"general: unknown compression scheme {scheme}")
        level = message.compression.level if message.compression.HasField("level") else None
        return cls(_SCHEMES[scheme], children(message.values), level)

    def member(self) -> pb.General:
        """Return the member message."""
        scheme = pb.BufferCompression.Scheme.Value(self.scheme.upper())
        compression = pb.BufferCompression(scheme=scheme, level=self.level)
        return pb.General(compression=compression, values=self.values.to_proto())

    def chunk_coding(self) -> tuple[Coding, tuple[str, int] | None]:
        """Return the coding of the inner encoding, and the scheme and level."""
        if self.by_value:
            return Coding.LZ4_VALUES, None
        return self.values.coding, (self.scheme, self.level or 0)

    @property
    def num_buffers(self) -> int:
        """Number of buffers of the inner encoding."""
        return self.values.num_buffers

    def plan(self) -> Plan:
        """Return the plan that decodes values of chunks or zipped entries."""
        return Plan.general(self.scheme, self.values.plan())

    def block(self) -> Block:
        """Return the block that decodes values."""
        return Block.general(self.scheme, self.values.block())
