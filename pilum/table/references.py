"""References: the ways to say which version of a table is meant.

3                 version 3
"v1"              the version that the tag names
(None, 3)         version 3 of the main line, as is ("main", 3)
("main", None)    the newest version of the main line
"""

from __future__ import annotations

from typing import Any

from pilum.errors import DatasetNotFoundError, InvalidInputError, UnsupportedFeatureError
from pilum.storage.base import Store
from pilum.table.tags import load_tag
from pilum.table.versions import latest_manifest

__all__ = ["Reference", "resolve"]

Reference = int | str | tuple[str | None, int | None]

_MAIN = "main"


def resolve(store: Store, reference: Reference) -> int:
    """The number of the version that is meant; whether it exists is not looked up.

    Raises:
        TagNotFoundError: If there is no such tag.
        DatasetNotFoundError: If there is no table.
        UnsupportedFeatureError: If a branch is meant.
        CorruptFileError: If the file of the tag is damaged.
        InvalidInputError: If it is no reference.
    """
    if isinstance(reference, str):
        tag = load_tag(store, reference)
        return _on_main(tag.branch, tag.version)
    if isinstance(reference, tuple) and len(reference) == 2:
        branch, version = reference
        return _on_main(branch, _newest(store) if version is None else _number(version))
    return _number(reference)


def _on_main(branch: Any, version: int) -> int:
    if branch not in {None, _MAIN}:
        raise UnsupportedFeatureError(f"version {version} of branch {branch!r}: no branches yet")
    return version


def _newest(store: Store) -> int:
    name = latest_manifest(store)
    if name is None:
        raise DatasetNotFoundError(f"there is no Lance table at {store.uri}")
    return name.version


def _number(version: Any) -> int:
    if isinstance(version, bool) or not hasattr(version, "__index__"):
        raise InvalidInputError(
            f"version: expected a number, the name of a tag or (None, number), found {version!r}"
        )
    return int(version)
