"""Tags of a dataset: names for its versions."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from datetime import datetime
from typing import TypedDict

from pilum.arguments import require_texts
from pilum.dataset.base import DatasetBase
from pilum.errors import InvalidInputError
from pilum.table.refs import tags
from pilum.table.refs.references import Located, Reference, locate

__all__ = ["Tag", "Tagging", "Tags"]


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

    def list(self) -> dict[str, Tag]:
        """Return all tags by name.

        Raises:
            CorruptFileError: If the file of a tag is damaged.
        """
        return {name: _shown(tag) for name, tag in tags.list_tags(self._root).items()}

    def list_ordered(self, order: str | None = None) -> builtins.list[tuple[str, Tag]]:
        """Return all tags, sorted by their versions.

        Args:
            order: "desc" for newest versions first, which is the default, or "asc".

        Raises:
            InvalidInputError: If it is neither of the two.
            CorruptFileError: If the file of a tag is damaged.
        """
        if order not in {None, "asc", "desc"}:
            raise InvalidInputError(f"order: expected asc or desc, found {order!r}")
        sign = 1 if order == "asc" else -1
        return sorted(self.list().items(), key=lambda item: (sign * item[1]["version"], item[0]))

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


class Tagging(DatasetBase):
    """Methods of `LanceDataset` for tags."""

    @property
    def tags(self) -> Tags:
        """The tags of the table, to create, move, delete and list them."""
        return Tags(self)


def _shown(tag: tags.Tag) -> Tag:
    return Tag(
        branch=tag.branch,
        version=tag.version,
        created_at=tag.created_at,
        updated_at=tag.updated_at,
        manifest_size=tag.manifest_size,
        metadata=dict(tag.metadata),
    )
