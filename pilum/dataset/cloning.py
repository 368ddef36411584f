"""Clones of a dataset: new tables that start with one of its versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self

from pilum.dataset.base import DatasetBase
from pilum.storage.base import Store
from pilum.storage.open import Location
from pilum.table.model.manifest import Manifest
from pilum.table.read.snapshot import Snapshot
from pilum.table.refs import clone
from pilum.table.refs.clone import CopyProgress
from pilum.table.refs.references import Reference, locate
from pilum.table.versions.open import open_table

__all__ = ["Cloning"]


class Cloning(DatasetBase):
    """Methods of `LanceDataset` for clones."""

    def shallow_clone(
        self,
        target_path: Location,
        reference: Reference,
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Create a table that refers to the files of a version and writes to its own folder.

        Nothing protects these files: do not clean up or delete the source version while clones of
        it exist.

        Args:
            target_path: Location of the clone; no table may exist there.
            reference: Number of the version, name of a tag, or `(branch, number)`, where None means
                the main branch or the newest version.
            storage_options: Options of the clone's object store; None for those of this dataset.

        Returns:
            The clone, at a version with the same number as the source.

        Raises:
            DatasetAlreadyExistsError: If a table exists at `target_path`.
            VersionNotFoundError: If the version does not exist.
            TagNotFoundError: If the tag does not exist.
            BranchNotFoundError: If the branch does not exist.
        """
        return self._clone(clone.shallow_clone, target_path, reference, storage_options)

    def deep_clone(
        self,
        target_path: Location,
        reference: Reference,
        storage_options: Mapping[str, str] | None = None,
        *,
        progress: Callable[[CopyProgress], None] | None = None,
    ) -> Self:
        """Create a table with copies of all files of a version.

        Args:
            target_path: Location of the clone; no table may exist there.
            reference: As in `shallow_clone`.
            storage_options: Options of the clone's object store; None for those of this dataset.
            progress: Called after each copied file, with `files`, `num_files` and `size_bytes`.

        Returns:
            The clone, at a version with the same number as the source. It shares no files with the
            source.

        Raises:
            As `shallow_clone`. After any error, including an interrupt, no file is left.
        """

        def copy(source: Snapshot, target: Store) -> Manifest:
            return clone.deep_clone(source, target, progress)

        return self._clone(copy, target_path, reference, storage_options)

    def _clone(
        self,
        make: Callable[[Snapshot, Store], Manifest],
        target_path: Location,
        reference: Reference,
        storage_options: Mapping[str, str] | None,
    ) -> Self:
        found = locate(self._snapshot.line, reference)
        source = Snapshot.at(found.line.store, found.version, self._snapshot.session)
        options = self._storage_options if storage_options is None else storage_options
        store = open_table(target_path, options)
        snapshot = Snapshot(store, make(source, store), source.session)
        return self.pinned(target_path, options, snapshot)
