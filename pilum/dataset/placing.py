"""Base paths of a dataset: listing and adding the other folders that may contain its files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from pilum.dataset.base import DatasetBase
from pilum.dataset.base_paths import DatasetBasePath, bases_to_commit
from pilum.dataset.commits import commit_operation, properties_of
from pilum.table.commit.operations.update_bases import UpdateBases

__all__ = ["Placing"]


class Placing(DatasetBase):
    """Methods of `LanceDataset` for base paths."""

    def base_paths(self) -> dict[int, DatasetBasePath]:
        """The base paths that may contain data files of the pinned version, by id."""
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
