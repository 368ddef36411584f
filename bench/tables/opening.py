"""Opening tables of many versions or fragments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import pilum
from bench.tables.base import NO_SYNC, Case, Sizes, numbers

__all__ = ["OPENINGS"]


class _Open(Case):
    changes = False
    rounds = 20

    def __init__(self, share: float) -> None:
        self._share = share

    def _count(self, most: int) -> int:
        return max(int(most * self._share), 1)

    def before(self, lance: Any, path: Path, options: dict[str, str] | None) -> Any:
        return None

    def work(self, lance: Any, subject: Any, path: Path, options: dict[str, str] | None) -> Any:
        return lance.dataset(str(path))


class OpenVersions(_Open):
    """The newest of some versions."""

    def name(self, sizes: Sizes) -> str:
        return f"open the newest version of {self._count(sizes.versions):,}"

    def prepare(self, path: Path, sizes: Sizes) -> None:
        dataset = pilum.write_dataset(numbers(100), path, storage_options=NO_SYNC)
        for number in range(1, self._count(sizes.versions)):
            dataset.update_config({"number": str(number)})

    def check(self, result: Any, after: Any, sizes: Sizes) -> bool:
        return bool(result.version == self._count(sizes.versions))


class OpenFragments(_Open):
    """A table of some fragments."""

    def name(self, sizes: Sizes) -> str:
        return f"open, {self._count(sizes.fragments):,} fragments"

    def prepare(self, path: Path, sizes: Sizes) -> None:
        rows = self._count(sizes.fragments)
        table = numbers(rows)
        pilum.write_dataset(table, path, max_rows_per_file=1, storage_options=NO_SYNC)

    def check(self, result: Any, after: Any, sizes: Sizes) -> bool:
        return bool(result.count_rows() == self._count(sizes.fragments))


class ScanFragments(OpenFragments):
    """Opening, and reading all rows."""

    rounds = 3

    def name(self, sizes: Sizes) -> str:
        return f"open and scan, {self._count(sizes.fragments):,} fragments of 20 rows"

    def prepare(self, path: Path, sizes: Sizes) -> None:
        table = numbers(20 * self._count(sizes.fragments))
        pilum.write_dataset(table, path, max_rows_per_file=20, storage_options=NO_SYNC)

    def work(self, lance: Any, subject: Any, path: Path, options: dict[str, str] | None) -> Any:
        return lance.dataset(str(path), session=lance.Session()).to_table()

    def check(self, result: pa.Table, after: Any, sizes: Sizes) -> bool:
        return bool(result.equals(numbers(20 * self._count(sizes.fragments))))


OPENINGS = (
    OpenVersions(0.01),
    OpenVersions(0.1),
    OpenVersions(1),
    OpenFragments(0.1),
    OpenFragments(1),
    ScanFragments(1),
)
