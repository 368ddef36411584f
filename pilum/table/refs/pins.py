"""Pins: the tags and branches that keep old versions from being cleaned up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pilum.storage.base import Store
from pilum.table.refs.branch_records import branch_records
from pilum.table.refs.tags import list_tags

__all__ = ["Pin", "pinned_versions"]


@dataclass(frozen=True, slots=True)
class Pin:
    """A tag or branch that needs a version.

    Attributes:
        version: Number of the version.
        name: Name of the tag or branch.
        is_tag: Whether the pin is a tag.
    """

    version: int
    name: str
    is_tag: bool


def pinned_versions(store: Store, branch: str | None) -> list[Pin]:
    """Find the tags and branches that need versions of a line of history.

    Args:
        store: Root of the main line, where tags and branches are stored.
        branch: The line, None for the main one. For a branch of a branch, every version on its path
            from the main line counts, on any line: this keeps too many versions rather than too
            few.

    Raises:
        CorruptFileError: If a tag or branch cannot be read.
    """
    tags = [
        Pin(tag.version, name, True)
        for name, tag in list_tags(store).items()
        if tag.branch == branch
    ]
    return [*tags, *_pins_of_branches(store)]


def _pins_of_branches(store: Store) -> Iterator[Pin]:
    """Yield a pin for every record of a branch, whatever its name."""
    for name, branch in branch_records(store):
        came_through = {branch.parent_version, *(version for version, _ in branch.lineage)}
        yield from (Pin(version, name, False) for version in sorted(came_through))
