"""What keeps old versions alive: tags, and branches that began with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pilum.errors import CorruptFileError, NotFoundError
from pilum.storage.base import Store
from pilum.table.refs.tags import list_tags

__all__ = ["Pin", "pinned_versions"]

_BRANCHES_FOLDER = "_refs/branches"
_SUFFIX = ".json"


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
    for entry in list(store.list(_BRANCHES_FOLDER)):
        if not entry.name.endswith(_SUFFIX):
            continue
        path = f"{_BRANCHES_FOLDER}/{entry.name}"
        try:
            values = json.loads(store.read(path))
        except NotFoundError:
            continue  # deleted since the folder was read
        except (ValueError, RecursionError) as error:
            raise CorruptFileError(f"not JSON: {error}", path) from error
        name = unquote(entry.name.removesuffix(_SUFFIX))
        for version in sorted(set(_versions(values, path))):
            yield Pin(version, name, False)


def _versions(values: Any, path: str) -> Iterator[int]:
    """The versions that a branch came through."""
    try:
        parents = [values["parentVersion"]]
        lineage = values.get("identifier") or {}
        parents += [step[0] for step in lineage.get("version_mapping") or ()]
    except (TypeError, KeyError, IndexError, AttributeError) as error:
        raise CorruptFileError("a branch that does not tell where it began", path) from error
    for version in parents:
        if type(version) is not int or version < 0:
            raise CorruptFileError(f"a branch that began with version {version!r:.50}", path)
        yield version
