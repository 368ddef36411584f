"""The JSON files below `_refs`, shared by tags and branches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pilum.errors import CorruptFileError
from pilum.storage.base import Entry, Store

__all__ = [
    "SUFFIX",
    "encode_ref",
    "misplaced_folders",
    "number_in",
    "object_in",
    "read_ref",
    "ref_files",
    "require_no_folders",
    "texts_in",
]

SUFFIX = ".json"
"""Suffix of the file names of all tags and branches."""

_MAX_NUMBER = 2**64 - 1


def encode_ref(values: Mapping[str, Any]) -> bytes:
    """Encode the content of a file: two spaces per level, no newline at the end."""
    return json.dumps(values, indent=2, ensure_ascii=False).encode()


def read_ref(store: Store, path: str) -> Any:
    """Read and parse one file.

    Raises:
        NotFoundError: If there is no such file.
        CorruptFileError: If it is not JSON.
    """
    try:
        return json.loads(store.read(path))
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"not JSON: {error}", path) from error


def ref_files(store: Store, folder: str) -> list[Entry]:
    """List the files of tags or of branches.

    Raises:
        CorruptFileError: If a folder has the name of a file. Its tag or branch must not count as
            absent.
    """
    require_no_folders(store, folder)
    return [entry for entry in store.list(folder) if entry.name.endswith(SUFFIX)]


def require_no_folders(store: Store, folder: str) -> None:
    """Raise CorruptFileError if there is a folder in the place of a file."""
    for name in misplaced_folders(store, folder):
        raise CorruptFileError("a folder, where a file is expected", f"{folder}/{name}")


def misplaced_folders(store: Store, folder: str) -> list[str]:
    """Return the names of folders that only a file may have."""
    return [name for name in store.folders(folder) if name.endswith(SUFFIX)]


def object_in(values: Any, what: str, where: str) -> dict[str, Any]:
    """Return the values as an object."""
    if not isinstance(values, dict):
        raise CorruptFileError(f"{what}: expected an object, found {values!r:.50}", where)
    return values


def number_in(values: Mapping[str, Any], key: str, what: str, where: str) -> int:
    """Return a member that is a 64-bit integer."""
    value = values.get(key)
    if type(value) is not int or not 0 <= value <= _MAX_NUMBER:
        raise CorruptFileError(f"{what} whose {key} is {value!r:.50}", where)
    return value


def texts_in(values: Mapping[str, Any], key: str, what: str, where: str) -> dict[str, str]:
    """Return a member that maps strings to strings; empty if it is missing."""
    found = values.get(key, {})
    if not (isinstance(found, dict) and all(isinstance(text, str) for text in found.values())):
        raise CorruptFileError(f"{what} with {key} {found!r:.50}", where)
    return found
