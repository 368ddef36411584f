"""Branches of a dataset: independent histories that start at one of its versions."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Self, TypedDict

from pilum.arguments import require_texts
from pilum.dataset.base import DatasetBase, store_of
from pilum.errors import InvalidInputError
from pilum.table.read.snapshot import Snapshot
from pilum.table.refs import branches
from pilum.table.refs.references import Reference, locate

__all__ = ["Branch", "Branches", "Branching"]


class Branch(TypedDict):
    """Facts about a branch.

    `create_at` is in seconds since 1970. `branch_identifier` lists, for each branch on the path
    from the main branch, the version that it started at and its random id.
    """

    parent_branch: str | None
    branch_identifier: list[tuple[int, str]]
    parent_version: int
    create_at: int
    manifest_size: int
    metadata: dict[str, str]


class Branches:
    """The current branches of a table; see `LanceDataset.branches`."""

    def __init__(self, dataset: DatasetBase) -> None:
        self._line = dataset.snapshot.line

    def list(self) -> dict[str, Branch]:
        """Return all branches by name, without the main branch.

        Raises:
            CorruptFileError: If the record of a branch is damaged.
        """
        found = branches.list_branches(self._line.root)
        return {name: _shown(branch) for name, branch in found.items()}

    def list_ordered(self, order: str | None = None) -> builtins.list[tuple[str, Branch]]:
        """Return all branches, sorted by the versions that they started at.

        Args:
            order: "desc" for newest versions first, which is the default, or "asc".

        Raises:
            InvalidInputError: If it is neither of the two.
            CorruptFileError: If the record of a branch is damaged.
        """
        if order not in {None, "asc", "desc"}:
            raise InvalidInputError(f"order: expected asc or desc, found {order!r}")
        sign = 1 if order == "asc" else -1
        return sorted(
            self.list().items(), key=lambda item: (sign * item[1]["parent_version"], item[0])
        )

    def delete(self, branch: str) -> None:
        """Delete a branch with its versions and files, or the remains of an interrupted creation.

        Raises:
            BranchNotFoundError: If the branch does not exist.
            InvalidInputError: If other branches started on it, or tags refer to its versions.
            CorruptFileError: If the record of another branch or a tag is damaged.
        """
        branches.delete_branch(self._line, branch)

    def replace_metadata(self, branch: str, metadata: Mapping[str, str]) -> None:
        """Replace the metadata of a branch.

        Raises:
            BranchNotFoundError: If the branch does not exist.
            InvalidInputError: If keys or values are not strings.
            CorruptFileError: If its record is damaged.
        """
        texts = require_texts("metadata", metadata)
        branches.replace_branch_metadata(self._line.root, branch, texts)


class Branching(DatasetBase):
    """Methods of `LanceDataset` for branches."""

    @property
    def branches(self) -> Branches:
        """The branches of the table, to list and delete them."""
        return Branches(self)

    def create_branch(
        self,
        branch: str,
        reference: Reference | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Create a branch; no file is copied.

        If several writers create the same branch concurrently, exactly one succeeds.

        Args:
            branch: Name of the branch: segments of letters, digits, `.`, `-` and `_`, separated by
                `/`.
            reference: Version that the branch starts at: its number, the name of a tag, or
                `(branch, number)`, where None means the main branch or the newest version; None for
                the version of this dataset.
            storage_options: Options of the object store; None for those of this dataset.

        Returns:
            A dataset on the new branch. Writes to it affect only the branch.

        Raises:
            BranchAlreadyExistsError: If the branch already exists.
            VersionNotFoundError: If the version does not exist.
            TagNotFoundError: If the tag does not exist.
            BranchNotFoundError: If the version is on a branch that does not exist.
            InvalidInputError: If the name is not allowed.
        """
        source = self._snapshot
        if storage_options is not None:
            store = store_of(self, storage_options)
            source = Snapshot(store, source.manifest, source.session)
        if reference is not None:
            found = locate(source.line, reference)
            source = Snapshot.at(found.line.store, found.version, source.session)
        line, manifest = branches.create_branch(source, branch)
        begun = self._on_line(Snapshot(line.store, manifest, source.session))
        if storage_options is not None:
            begun._storage_options = dict(storage_options)
        return begun


def _shown(branch: branches.Branch) -> Branch:
    return Branch(
        parent_branch=branch.parent,
        branch_identifier=list(branch.lineage),
        parent_version=branch.parent_version,
        create_at=int(branch.created_at.timestamp()),
        manifest_size=branch.manifest_size,
        metadata=dict(branch.metadata),
    )
