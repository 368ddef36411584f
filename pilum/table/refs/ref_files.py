"""The JSON files below `_refs`, shared by tags and branches."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote, unquote

from pilum.errors import CorruptFileError, InvalidInputError, NotFoundError
from pilum.storage.base import Store, write_object
from pilum.table.versions.commit_handler import latest_manifest
from pilum.table.versions.history import no_table

__all__ = [
    "SUFFIX",
    "RefFiles",
    "encode_ref",
    "misplaced_folders",
    "number_in",
    "object_in",
    "read_ref",
    "texts_in",
]

SUFFIX = ".json"
"""Suffix of the file names of all tags and branches."""

_MAX_NUMBER = 2**64 - 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RefFiles(Generic[T]):
    """The files of all tags, or of all branches.

    Attributes:
        folder: The folder of the files.
        kind: The kind of reference, for messages.
        fault: Returns why a name is not allowed, or "" if it is allowed.
        missing: The error for a name without a file.
        parse: Parses the content of a file at a path; raises CorruptFileError if it is invalid.
    """

    folder: str
    kind: str
    fault: Callable[[Any], str]
    missing: type[NotFoundError]
    parse: Callable[[Any, str], T]

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return f"{self.folder}/{quote(name, safe='')}{SUFFIX}"

    def checked(self, name: str) -> str:
        """Return a name; raise InvalidInputError if it is not allowed."""
        if fault := self.fault(name):
            raise InvalidInputError(f"{self.kind} {name!r}: {fault}")
        return name

    def names(self, store: Store) -> list[tuple[str, str]]:
        """Return the names of all files, allowed or not, with their paths.

        A folder with the name of a file is damage: its tag or branch must not count as absent.
        """
        self._require_no_folders(store)
        found = [one.name for one in store.list(self.folder) if one.name.endswith(SUFFIX)]
        return [(unquote(name.removesuffix(SUFFIX)), f"{self.folder}/{name}") for name in found]

    def load(self, store: Store, name: str) -> T:
        """Read and parse a file.

        Raises:
            InvalidInputError: If the name is not allowed.
            NotFoundError: If there is no such file, or no table.
            CorruptFileError: If the file is damaged.
        """
        return self.parse(self._values(store, name), self.path(name))

    def replace(self, store: Store, name: str, changes: Mapping[str, Any]) -> None:
        """Replace members of a file, as `load`; the last of several concurrent changes wins."""
        values = self._values(store, name)
        self.parse(values, self.path(name))
        write_object(store, self.path(name), encode_ref({**values, **changes}))

    def _values(self, store: Store, name: str) -> Any:
        try:
            return read_ref(store, self.path(self.checked(name)))
        except NotFoundError:
            raise self.not_found(store, name) from None

    def not_found(self, store: Store, name: str) -> NotFoundError:
        """Return the error for a name without a file."""
        self._require_no_folders(store)  # in an object store it has no object of its own
        if latest_manifest(store) is None:
            return no_table(store)
        plural = self.folder.rpartition("/")[2]
        return self.missing(
            f"{store.uri} has no {self.kind} {name!r}; `{plural}.list()` shows those it has"
        )

    def _require_no_folders(self, store: Store) -> None:
        for name in misplaced_folders(store, self.folder):
            raise CorruptFileError("a folder, where a file is expected", f"{self.folder}/{name}")


def encode_ref(values: Mapping[str, Any]) -> bytes:
    """Encode the content of a file: two spaces per level, no newline at the end."""
    return json.dumps(values, indent=2, ensure_ascii=False).encode()


def read_ref(store: Store, path: str) -> Any:
    """Read and parse one file."""
    try:
        return json.loads(store.read(path))
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"not JSON: {error}", path) from error


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
