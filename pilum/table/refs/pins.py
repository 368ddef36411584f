"""What keeps old versions alive: tags, and branches that began with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pilum.storage.base import Store
from pilum.table.refs.branch_records import branch_records
from pilum.table.refs.tags import list_tags

__all__ = ["Pin", "pinned_versions"]


@dataclass(frozen=True, slots=True)
class Pin:
    """A name that needs a version.

    Attributes:
        version: Its number.
        name: Of the tag or branch.
        is_tag: Whether it is a tag.
    """

    version: int
    name: str
    is_tag: bool


def pinned_versions(store: Store, branch: str | None) -> list[Pin]:
    """Finds what needs versions of a line of history.

    Args:
        store: Root of the main line, where names are kept.
        branch: The line, None for the main one. Of a branch of branches all versions count that
            it came through, on whatever line they are: too many stay rather than too few.

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
    """Any record counts, whatever its name."""
    for name, branch in branch_records(store):
        came_through = {branch.parent_version, *(version for version, _ in branch.lineage)}
        yield from (Pin(version, name, False) for version in sorted(came_through))
