"""What a case is: a table, something to do with it, and a check of what came of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["NO_SYNC", "Case", "Sizes", "numbers"]

NO_SYNC = {"sync": "false"}
"""Options of a store of pilum that does not wait for the device."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the tables are.

    Attributes:
        rows: Of tables that are changed.
        versions: Of tables that are opened, the most.
        fragments: Of tables that are opened, the most.
    """

    rows: int = 1_000_000
    versions: int = 1_000
    fragments: int = 1_000

    @classmethod
    def large(cls) -> Sizes:
        """Ten times of all."""
        return cls(10_000_000, 10_000, 10_000)

    @classmethod
    def smoke(cls) -> Sizes:
        """Tiny."""
        return cls(2_000, 10, 10)


class Case(ABC):
    """One operation on one table.

    Attributes:
        changes: Whether it changes the table, so that each round needs a copy.
        rounds: How often, at least; never less than three times.
        has_memory: Whether its peak memory is measured, too.
    """

    changes: bool = True
    rounds: int = 3
    has_memory: bool = False

    @abstractmethod
    def name(self, sizes: Sizes) -> str:
        """As in the report."""

    @abstractmethod
    def prepare(self, path: Path, sizes: Sizes) -> None:
        """Makes the table, once for all libraries."""

    def before(self, lance: Any, path: Path, options: dict[str, str] | None) -> Any:
        """What happens before the clock starts: the table is opened."""
        return lance.dataset(str(path), storage_options=options)

    @abstractmethod
    def work(self, lance: Any, subject: Any, path: Path, options: dict[str, str] | None) -> Any:
        """What is measured.

        Args:
            lance: The library, by the names of pylance.
            subject: What `before` gave.
            path: The table.
            options: Storage options.
        """

    @abstractmethod
    def check(self, result: Any, after: Any, sizes: Sizes) -> bool:
        """Whether it did what it should: its result, and the table after it is opened again."""


def numbers(rows: int) -> pa.Table:
    """`id` counts the rows; `value` and `name` come with it."""
    ids = np.arange(rows, dtype=np.int64)
    random = np.random.default_rng(0)
    return pa.table(
        {
            "id": ids,
            "value": random.standard_normal(rows),
            "name": pa.array(["a", "bb", "ccc", "dddd"]).take(pa.array(ids % 4)),
        }
    )
