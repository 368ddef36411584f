"""Items that are all null (`CompressiveEncoding.constant` without a value).

Only inside of fixed-size lists: every list stores the validity of its items and no bytes for them.
It may replace nested lists too, whose own lists are then not described. Source:
docs/format/encodings-2.1.md, "Fixed-size lists".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pilum.encodings.base import Children, Compressive, demand
from pilum.format.pb import encodings21_pb2 as pb

__all__ = ["Constant"]


@dataclass(frozen=True)
class Constant(Compressive):
    """An encoding of items that are all null."""

    arm = "constant"

    bits: ClassVar[int] = 0

    @classmethod
    def from_proto(cls, message: pb.Constant, children: Children) -> Constant:
        """Read the member message."""
        demand(not message.HasField("value"), "constant: a value, which no version writes here")
        return cls()

    def member(self) -> pb.Constant:
        """Return the member message."""
        return pb.Constant()
