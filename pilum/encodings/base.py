"""The base of compressive encodings: descriptions of stored values, to and from protobuf.

A description does not decode bytes itself. It becomes a `Plan` with which one kernel call
decodes the values of a whole page, or a `Block` for levels and dictionaries, which are one buffer
each. A new encoding is one file beside `compressive/flat.py` and one line in `registry.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from pilum.errors import CorruptFileError
from pilum.format.pb import encodings21_pb2 as pb
from pilum.kernels import Block, Coding, Plan

__all__ = ["Children", "Compressive", "demand"]

Children: TypeAlias = "Callable[[pb.CompressiveEncoding], Compressive]"


class Compressive(ABC):
    """A description of how values are stored.

    Attributes:
        arm: Name of the protobuf oneof member; the key of the registry.
        coding: The coding that the kernel applies to values when it cuts them into mini-block
            chunks.
    """

    arm: ClassVar[str]
    coding: ClassVar[Coding] = Coding.PLAIN

    @classmethod
    @abstractmethod
    def from_proto(cls, message: Any, children: Children) -> Compressive:
        """Parse the member message; `children` parses the encodings within it.

        Raises:
            CorruptFileError: If the message describes something impossible.
        """

    @abstractmethod
    def member(self) -> Any:
        """Return the member message."""

    def to_proto(self) -> pb.CompressiveEncoding:
        """Return the message as it is stored in a page."""
        return pb.CompressiveEncoding(**{self.arm: self.member()})

    def chunk_coding(self) -> tuple[Coding, tuple[str, int] | None]:
        """Return the coding of mini-block chunks, and the scheme and level that compress them."""
        return self.coding, None

    @property
    def num_buffers(self) -> int:
        """Number of value buffers per mini-block chunk."""
        return 1

    def plan(self) -> Plan:
        """Return the plan that decodes values of chunks or zipped entries.

        Raises:
            CorruptFileError: If the encoding is not defined there.
        """
        raise CorruptFileError(f"{self.arm} cannot hold the values of a page")

    def block(self) -> Block:
        """Return the description of a block for the kernels.

        Raises:
            CorruptFileError: If the encoding is not defined there.
        """
        raise CorruptFileError(f"{self.arm} cannot hold a block")


def demand(holds: bool, message: str) -> None:
    """Raise an error unless a guarantee of the format holds.

    Raises:
        CorruptFileError: With this message.
    """
    if not holds:
        raise CorruptFileError(message)
