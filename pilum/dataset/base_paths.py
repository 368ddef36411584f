"""Base paths of a dataset: other folders that contain some of its files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from pilum.errors import InvalidInputError
from pilum.table.model.base_paths import BasePath

__all__ = ["DatasetBasePath", "bases_to_commit"]


@dataclass(frozen=True)
class DatasetBasePath:
    """A folder outside a table that may contain some of its data files.

    Attributes:
        path: A URI or an absolute path.
        name: Its name; None if it has none.
        is_dataset_root: Whether it has the folder structure of a table. If not, it contains data
            files directly.
        id: Id, unique in the table; None to have one assigned.
    """

    path: str
    name: str | None = None
    is_dataset_root: bool = False
    id: int | None = None

    @classmethod
    def from_table(cls, base: BasePath) -> DatasetBasePath:
        """Convert a manifest entry to its public form."""
        return cls(base.path, base.name, base.is_dataset_root, base.id)


def bases_to_commit(bases: Iterable[DatasetBasePath]) -> tuple[BasePath, ...]:
    """Convert base paths for an operation; the id 0 requests a free id.

    Raises:
        InvalidInputError: If an item is not a base path.
    """
    return tuple(map(_to_commit, bases))


def _to_commit(base: DatasetBasePath) -> BasePath:
    path, number = getattr(base, "path", None), getattr(base, "id", None) or 0
    name = getattr(base, "name", None)
    is_path = isinstance(path, str | os.PathLike) and os.fspath(path)
    is_id = isinstance(number, int) and 0 <= number < 1 << 32
    if not (is_path and is_id and isinstance(name, str | None)):
        raise InvalidInputError(f"expected a DatasetBasePath, found {base!r}")
    return BasePath(number, str(os.fspath(base.path)), bool(base.is_dataset_root), name)
