"""Base paths of a dataset: other folders that contain some of its files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from pilum.dataset.base import DatasetBase
from pilum.dataset.commits import commit_operation, properties_of
from pilum.errors import InvalidInputError
from pilum.table.commit.operations.update_bases import UpdateBases
from pilum.table.model.base_paths import BasePath

__all__ = ["BasePaths", "DatasetBasePath", "bases_to_commit"]


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


class BasePaths(DatasetBase):
    """Methods of `LanceDataset` for base paths."""

    def base_paths(self) -> dict[int, DatasetBasePath]:
        """Return the base paths that may contain data files of the pinned version, by id."""
        found = self._snapshot.manifest.base_paths
        return {base.id: DatasetBasePath.from_table(base) for base in found}

    def add_bases(
        self,
        new_bases: Iterable[DatasetBasePath],
        transaction_properties: Mapping[str, str] | None = None,
    ) -> Self:
        """Add base paths to the table and move this dataset to the new version.

        Data is written there if a write names them in `target_bases`.

        Args:
            new_bases: The base paths; ids are assigned where missing.
            transaction_properties: Properties that are recorded in the history.

        Returns:
            This dataset.

        Raises:
            InvalidInputError: If an id, a name or a path is taken.
            CommitConflictError: If a concurrent commit took an id, a name or a path.
        """
        operation = UpdateBases(bases_to_commit(new_bases))
        notes = properties_of(None, transaction_properties)
        commit_operation(self, operation, notes)
        return self


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
