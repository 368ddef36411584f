"""References: the ways to name a version of a table, and the versions that names keep.

    3                 version 3 of the current line of history
    "v1"              the version that the tag names, on any line
    ("dev", 3)        version 3 of the branch "dev"
    ("dev", None)     the newest version of the branch
    (None, 3)         version 3 of the main line, as is ("main", 3)

A version that a tag or branch needs is pinned: cleanup does not remove it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pilum.arguments import integer_of
from pilum.errors import BranchNotFoundError, DatasetNotFoundError, InvalidInputError
from pilum.storage.base import Store
from pilum.table.refs.branches import branch_records, load_branch
from pilum.table.refs.tags import list_tags, load_tag
from pilum.table.versions.history import MAIN, Line

__all__ = ["Located", "Pin", "Reference", "locate", "pinned_versions"]

Reference = int | str | tuple[str | None, int | None]


@dataclass(frozen=True, slots=True)
class Located:
    """The version that a reference resolves to: a number on a line of history."""

    line: Line
    version: int


def locate(line: Line, reference: Reference) -> Located:
    """Resolve a reference, seen from a line of history; whether the number exists is not checked.

    The errors are those of `RefFiles.load`; InvalidInputError if the value is not a reference.
    """
    if isinstance(reference, str):
        tag = load_tag(line.root, reference)
        return Located(_line(line, tag.branch), tag.version)
    if isinstance(reference, tuple) and len(reference) == 2:
        branch, version = reference
        wanted = _line(line, branch)
        return Located(wanted, _newest(wanted) if version is None else _number(version))
    return Located(line, _number(reference))


def _line(line: Line, branch: Any) -> Line:
    if not (branch is None or isinstance(branch, str)):
        raise InvalidInputError(f"branch: expected a name or None, found {branch!r}")
    if branch not in {None, MAIN, line.branch}:
        load_branch(line.root, branch)
    return line.other(branch)


def _newest(line: Line) -> int:
    try:
        return line.newest()
    except DatasetNotFoundError:
        if line.branch is None:
            raise
        raise BranchNotFoundError(
            f"branch {line.branch!r} has a record but no version: its files are gone"
        ) from None


def _number(version: Any) -> int:
    number = integer_of(version)
    if number is None:
        raise InvalidInputError(
            "version: expected a number, the name of a tag or (branch, number), where None is the "
            f"main line or the newest version; found {version!r}"
        )
    return number


@dataclass(frozen=True, slots=True)
class Pin:
    """A tag or branch that needs a version."""

    version: int
    name: str
    is_tag: bool


def pinned_versions(store: Store, branch: str | None) -> list[Pin]:
    """Find the tags and branches that need versions of a line of history; `store` is the main one.

    For a branch of a branch, every version on its path from the main line counts, on any line: this
    keeps too many versions rather than too few.
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
