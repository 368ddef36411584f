"""Ids of tables and namespaces, and pages of their names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from pilum.storage.vended import namespace_package

namespace_package()

import lance_namespace as api  # noqa: E402  # after the check that it is installed

__all__ = [
    "DELIMITER",
    "MANIFEST_FOLDER",
    "MAX_FOLDER_BYTES",
    "children",
    "id_of",
    "is_below",
    "is_name",
    "key_of",
    "page",
    "prefix_of",
    "within_root",
]

DELIMITER: Final = "$"
MANIFEST_FOLDER: Final = "__manifest"
_INVALID_NAME: Final = re.compile(r"[/\\$\x00-\x1f\x7f\ud800-\udfff]|^\.")
MAX_FOLDER_BYTES: Final = 255
"""What file systems allow."""
_MAX_NAME_BYTES: Final = 249
"""With the suffix of a folder."""


def is_name(name: str) -> bool:
    """Return whether a text can be the name of a table or namespace."""
    is_valid = bool(name) and _INVALID_NAME.search(name) is None
    return is_valid and len(name.encode()) <= _MAX_NAME_BYTES


def id_of(request: Any) -> list[str]:
    """Return the names in the id of a table or namespace: of its namespaces, and its own.

    Raises:
        InvalidInputError: If there is none, or one that cannot be a name.
    """
    names: list[str] = list(request.id or ())
    if not names:
        raise api.InvalidInputError('id: expected names such as ["my_table"], found none')
    for name in names:
        if not is_name(name):
            raise api.InvalidInputError(
                f"id: {name[:_MAX_NAME_BYTES]!r} is no name here; names are not empty, do not "
                "begin with a dot, contain no slash, backslash, dollar or control character, and "
                f"have at most {_MAX_NAME_BYTES} bytes in UTF-8"
            )
    return names


def key_of(names: Iterable[str]) -> str:
    """Return the id as the manifest table has it."""
    return DELIMITER.join(names)


def prefix_of(names: Iterable[str] | None) -> str:
    """Return how the ids begin of all that is in a namespace."""
    return "".join(f"{name}{DELIMITER}" for name in names or ())


def children(ids: Iterable[str], prefix: str) -> list[str]:
    """Return the names of the objects directly in a namespace, in lexical order."""
    names = (one.removeprefix(prefix) for one in ids if one.startswith(prefix))
    return sorted(name for name in names if name and DELIMITER not in name)


def page(names: list[str], request: Any) -> tuple[list[str], str | None]:
    """Return the names after the token of a request, and the token of the next page."""
    if request.limit is not None and request.limit < 1:
        raise api.InvalidInputError(f"limit: expected at least 1, found {request.limit}")
    if request.page_token:
        names = [name for name in names if name > request.page_token]
    found = names[: request.limit]
    return found, found[-1] if len(found) < len(names) else None


def within_root(location: str | None, table: str) -> str:
    """Return the folder of a table of the manifest table, which anyone may have written.

    Raises:
        InvalidTableStateError: If it is not below the root.
    """
    if location is None or not is_below(location):
        raise api.InvalidTableStateError(
            f"table {table!r}: the manifest table has the location {location!r}, which is no "
            "folder below the root"
        )
    return location.rstrip("/")


def is_below(location: str) -> bool:
    """Return whether a relative location is a folder below the root that can have a table."""
    first, *_ = names = location.rstrip("/").split("/")
    is_relative = not location.startswith("/") and "://" not in location
    return is_relative and first != MANIFEST_FOLDER and not {*names} & {"", ".", ".."}
