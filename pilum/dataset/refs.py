"""Tags and branches: a tag names a version, and a branch is a history that begins at a version."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypedDict, TypeVar

from pilum.arguments import require_choice, require_texts
from pilum.dataset.base import DatasetBase
from pilum.table.refs import branches, tags
from pilum.table.refs.references import Located, Reference, locate

__all__ = ["Branch", "Branches", "Tag", "Tags"]

T = TypeVar("T")


class Tag(TypedDict):
    """Facts about a tag; times are UTC, or None in tags of old writers."""

    branch: str | None
    version: int
    created_at: datetime | None
    updated_at: datetime | None
    manifest_size: int
    metadata: dict[str, str]


class Tags:
    """The current tags of a table; see `LanceDataset.tags`."""

    def __init__(self, dataset: DatasetBase) -> None:
        self._dataset = dataset
        self._root = dataset.snapshot.line.root

    def __repr__(self) -> str:
        return f"Tags({', '.join(map(_tag_text, self.list_ordered()))})"

    def list(self) -> dict[str, Tag]:
        """Return all tags by name.

        Raises:
            CorruptFileError: If the file of a tag is damaged.
        """
        return {name: _tag(tag) for name, tag in tags.list_tags(self._root).items()}

    def list_ordered(self, order: str | None = None) -> builtins.list[tuple[str, Tag]]:
        """Return all tags, sorted by their versions.

        Args:
            order: "desc" for newest versions first, which is the default, or "asc".

        Raises:
            InvalidInputError: If it is neither of the two.
            CorruptFileError: If the file of a tag is damaged.
        """
        return _ordered(self.list(), lambda tag: tag["version"], order)

    def get_version(self, tag: str) -> int:
        """Return the number of the version that a tag refers to.

        Raises:
            TagNotFoundError: If the tag does not exist.
            CorruptFileError: If the file of the tag is damaged.
        """
        return tags.load_tag(self._root, tag).version

    def create(self, tag: str, reference: Reference | None = None) -> None:
        """Create a tag for a version.

        If several writers create the same tag concurrently, exactly one succeeds.

        Args:
            tag: Name of the tag: ASCII letters and digits, `.`, `-` and `_`; it neither starts nor
                ends with a dot.
            reference: Number of the version on the branch of the dataset, name of another tag, or
                `(branch, number)`, where None means the main branch or the newest version; None for
                the version of the dataset.

        Raises:
            TagAlreadyExistsError: If the tag already exists.
            VersionNotFoundError: If the version does not exist.
            TagNotFoundError: If the referenced tag does not exist.
            BranchNotFoundError: If the branch does not exist.
            InvalidInputError: If the name is not allowed.
        """
        found = self._located(reference)
        tags.create_tag(found.line, tag, found.version)

    def update(self, tag: str, reference: Reference | None = None) -> None:
        """Move a tag to another version; the arguments are those of `create`.

        Raises:
            TagNotFoundError: If the tag does not exist.
            VersionNotFoundError: If the version does not exist.
            BranchNotFoundError: If the branch does not exist.
            CorruptFileError: If the file of the tag is damaged.
        """
        found = self._located(reference)
        tags.move_tag(found.line, tag, found.version)

    def delete(self, tag: str) -> None:
        """Delete a tag; the version is not deleted.

        Raises:
            TagNotFoundError: If the tag does not exist.
        """
        tags.delete_tag(self._root, tag)

    def replace_metadata(self, tag: str, metadata: Mapping[str, str]) -> None:
        """Replace the metadata of a tag.

        Raises:
            TagNotFoundError: If the tag does not exist.
            InvalidInputError: If keys or values are not strings.
            CorruptFileError: If the file of the tag is damaged.
        """
        tags.replace_tag_metadata(self._root, tag, require_texts("metadata", metadata))

    def _located(self, reference: Reference | None) -> Located:
        snapshot = self._dataset.snapshot
        if reference is None:
            return Located(snapshot.line, snapshot.manifest.version)
        return locate(snapshot.line, reference)


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

    def __repr__(self) -> str:
        return f"Branches({', '.join(map(_branch_text, self.list_ordered()))})"

    def list(self) -> dict[str, Branch]:
        """Return all branches by name, without the main branch.

        Raises:
            CorruptFileError: If the record of a branch is damaged.
        """
        found = branches.list_branches(self._line.root)
        return {name: _branch(branch) for name, branch in found.items()}

    def list_ordered(self, order: str | None = None) -> builtins.list[tuple[str, Branch]]:
        """Return all branches, sorted by the versions that they started at.

        Args:
            order: "desc" for newest versions first, which is the default, or "asc".

        Raises:
            InvalidInputError: If it is neither of the two.
            CorruptFileError: If the record of a branch is damaged.
        """
        return _ordered(self.list(), lambda branch: branch["parent_version"], order)

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


def _ordered(
    items: Mapping[str, T], version: Callable[[T], int], order: str | None
) -> list[tuple[str, T]]:
    if order is not None:
        require_choice("order", order, "asc", "desc")
    sign = 1 if order == "asc" else -1
    return sorted(items.items(), key=lambda item: (sign * version(item[1]), item[0]))


def _tag_text(item: tuple[str, Tag]) -> str:
    name, tag = item
    branch = "" if tag["branch"] is None else f" of {tag['branch']}"
    return f"{name}: version {tag['version']}{branch}"


def _branch_text(item: tuple[str, Branch]) -> str:
    name, branch = item
    parent = branch["parent_branch"] or "main"
    return f"{name}: from version {branch['parent_version']} of {parent}"


def _tag(tag: tags.Tag) -> Tag:
    return Tag(
        branch=tag.branch,
        version=tag.version,
        created_at=tag.created_at,
        updated_at=tag.updated_at,
        manifest_size=tag.manifest_size,
        metadata=dict(tag.metadata),
    )


def _branch(branch: branches.Branch) -> Branch:
    return Branch(
        parent_branch=branch.parent,
        branch_identifier=list(branch.lineage),
        parent_version=branch.parent_version,
        create_at=int(branch.created_at.timestamp()),
        manifest_size=branch.manifest_size,
        metadata=dict(branch.metadata),
    )
