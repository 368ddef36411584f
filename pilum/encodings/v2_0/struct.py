"""The column of a struct (`ArrayEncoding.struct`): no bytes, only a length.

The members are columns of their own, and a struct is never null.
Source: docs/format/encodings-2.0.md, "Struct".
"""

from __future__ import annotations

from dataclasses import dataclass

from pilum.encodings.v2_0.base import ArrayEncoding, Children
from pilum.format.pb import encodings20_pb2 as pb

__all__ = ["Struct"]


@dataclass(frozen=True)
class Struct(ArrayEncoding):
    """An empty description."""

    arm = "struct"

    @classmethod
    def from_proto(cls, message: pb.Empty, children: Children) -> Struct:
        """Read the member message."""
        return cls()

    def member(self) -> pb.Empty:
        """Return the member message."""
        return pb.Empty()
