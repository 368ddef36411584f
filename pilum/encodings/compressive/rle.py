"""Run-length encoding of fixed-width items (`CompressiveEncoding.rle`).

One mini-block chunk consists of two buffers:

    values    num_runs x width bytes    the item of each run
    lengths   num_runs x 1 byte         its repeats, 1..255; a longer run is split

    1 1 1 2 2    ->    values 1 2    lengths 3 2

The runs cover the chunk; the last one may overshoot it. Runs that end before it are corruption.
As a block (since 2.2) these are preceded by a u64 with the size of the values part. Source:
docs/format/encodings-2.1.md, "Run-length encoding".
"""

from __future__ import annotations

from dataclasses import dataclass

from pilum.encodings.base import Children, Compressive, demand
from pilum.encodings.compressive.flat import Flat
from pilum.format.pb import encodings21_pb2 as pb
from pilum.kernels import Block, Coding, Plan

__all__ = ["Rle"]


@dataclass(frozen=True)
class Rle(Compressive):
    """Runs of one repeated item. Opaque: a chunk is decoded as a whole."""

    arm = "rle"
    coding = Coding.RLE

    bits: int

    def __post_init__(self) -> None:
        demand(self.bits in (8, 16, 32, 64), f"rle: items of {self.bits} bits")

    @classmethod
    def from_proto(cls, message: pb.Rle, children: Children) -> Rle:
        """Read the member message."""
        values, lengths = children(message.values), children(message.run_lengths)
        demand(isinstance(values, Flat), f"rle: items as {values.arm}")
        demand(lengths == Flat(8), f"rle: run lengths as {lengths}")
        assert isinstance(values, Flat)
        return cls(values.bits)

    def member(self) -> pb.Rle:
        """Return the member message."""
        return pb.Rle(values=Flat(self.bits).to_proto(), run_lengths=Flat(8).to_proto())

    @property
    def num_buffers(self) -> int:
        """Values and lengths."""
        return 2

    def plan(self) -> Plan:
        """Return the plan that decodes values of chunks."""
        return Plan.rle(self.bits)

    def block(self) -> Block:
        """Return the block that decodes values."""
        return Block.rle(self.bits)
