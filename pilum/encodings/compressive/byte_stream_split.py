"""Bytes of values regrouped by their position (`CompressiveEncoding.byte_stream_split`).

One buffer per chunk of n values of T = 32 or 64 bits: all first bytes, then all second bytes, …:

    out[j * n + i] = byte j of value i

Source: docs/format/encodings-2.1.md, "Byte-stream split".
"""

from __future__ import annotations

from dataclasses import dataclass

from pilum.encodings.base import Children, Compressive, demand
from pilum.encodings.compressive.flat import Flat
from pilum.format.pb import encodings21_pb2 as pb
from pilum.kernels import Coding, Plan

__all__ = ["ByteStreamSplit"]


@dataclass(frozen=True)
class ByteStreamSplit(Compressive):
    """Fixed-width values grouped by byte position, which compress better."""

    arm = "byte_stream_split"
    coding = Coding.BYTE_STREAM_SPLIT

    bits: int

    def __post_init__(self) -> None:
        demand(self.bits in (32, 64), f"byte-stream split: values of {self.bits} bits")

    @classmethod
    def from_proto(cls, message: pb.ByteStreamSplit, children: Children) -> ByteStreamSplit:
        """Read the member message."""
        values = children(message.values)
        demand(isinstance(values, Flat), f"byte-stream split: values as {values.arm}")
        assert isinstance(values, Flat)
        return cls(values.bits)

    def member(self) -> pb.ByteStreamSplit:
        """Return the member message."""
        return pb.ByteStreamSplit(values=Flat(self.bits).to_proto())

    def plan(self) -> Plan:
        """Return the plan that decodes values of chunks."""
        return Plan.byte_stream_split(self.bits)
