"""What every compressive encoding is: a description of stored values, to and from protobuf.

A description says nothing to the bytes itself. It becomes a `Plan` with which one kernel call
decodes the values of a whole page, or a `Block` for levels and dictionaries, which are one buffer
each. A new encoding is one file beside `compressive/flat.py` and one line in `registry.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from pilum.errors import CorruptFileError
from pilum.format.pb import encodings21_pb2 as pb
from pilum.kernels import Block, Plan

__all__ = ["Children", "Compressive", "demand"]

Children: TypeAlias = "Callable[[pb.CompressiveEncoding], Compressive]"


class Compressive(ABC):
    """A description of how values are stored.

    Attributes:
        arm: Name of the protobuf oneof member; the key of the registry.
        coding: What the kernel does to values when it cuts them into mini-block chunks.
    """

    arm: ClassVar[str]
    coding: ClassVar[str] = "plain"

    @classmethod
    @abstractmethod
    def from_proto(cls, message: Any, children: Children) -> Compressive:
        """Reads the member message; `children` reads the encodings inside of it.

        Raises:
            CorruptFileError: If the message describes something impossible.
        """

    @abstractmethod
    def member(self) -> Any:
        """The member message."""

    def to_proto(self) -> pb.CompressiveEncoding:
        """The message as a page holds it."""
        return pb.CompressiveEncoding(**{self.arm: self.member()})

    @property
    def num_buffers(self) -> int:
        """Value buffers per mini-block chunk."""
        return 1

    def plan(self) -> Plan:
        """How to decode values of chunks or zipped entries.

        Raises:
            CorruptFileError: If the encoding has no meaning there.
        """
        raise CorruptFileError(f"{self.arm} cannot hold the values of a page")

    def block(self) -> Block:
        """How to decode a block.

        Raises:
            CorruptFileError: If the encoding has no meaning there.
        """
        raise CorruptFileError(f"{self.arm} cannot hold a block")


def demand(holds: bool, message: str) -> None:
    """Fails unless something that the format promises holds.

    Raises:
        CorruptFileError: With this message.
    """
    if not holds:
        raise CorruptFileError(message)
