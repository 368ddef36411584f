"""Read pages jointly: one request and few kernel calls for all of them.

Tables of many columns have many small pages, and takes read little of each. A generator, a request
and a kernel call per page would cost more than decoding it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from pilum.errors import CorruptFileError
from pilum.storage.base import Plan

__all__ = ["JointRead"]


class JointRead(ABC):
    """Some rows of one page, read together with all other reads of its class.

    Attributes:
        number: Number of the page in its column.
        column: Number of the column in its file.
        path: Path of the file.
    """

    __slots__ = ("column", "number", "path")

    def __init__(self, number: int, column: int, path: str) -> None:
        self.number = number
        self.column = column
        self.path = path

    @classmethod
    @abstractmethod
    def read_all(cls, reads: Sequence[Self]) -> Plan[list[Any]]:
        """Read pages of one file, one result for each.

        Raises:
            CorruptFileError: If one is damaged; the text names it.
        """

    def located(self, error: CorruptFileError) -> CorruptFileError:
        """Return the error with the place of the page."""
        return error.at(f"page {self.number}").at(f"column {self.column}").at(self.path)
