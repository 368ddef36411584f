r"""JSON in the metadata of files, whose fields are checked when they are read.

storage_metadata    ["{\"dim\":16}"]    a JSON array with one text, which is a JSON object
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from pilum.errors import CorruptFileError

__all__ = ["StoredParameters", "entry", "texts"]

_MOST = sys.float_info.max
"""The greatest number; JSON may have any integer."""


class StoredParameters:
    """The fields of a JSON object.

    Args:
        text: The JSON object.
        path: Path of the file, for errors.

    Attributes:
        path: See above.
    """

    def __init__(self, text: str, path: str) -> None:
        self.path = path
        fields = _parsed(text, path)
        if not isinstance(fields, dict):
            raise CorruptFileError(f"expected a JSON object, found {text[:80]!r}", path)
        self._fields: dict[str, Any] = fields

    @property
    def fields(self) -> Mapping[str, Any]:
        """The fields, which are not checked."""
        return self._fields

    def integer(self, name: str, least: int, most: int) -> int:
        """Return an integer between two bounds, inclusive."""
        found = self.get(name)
        if type(found) is not int or not least <= found <= most:
            raise self.error(f"{name!r} is {found!r}, not between {least} and {most}")
        return found

    def number(self, name: str) -> float:
        """Return a finite number."""
        found = self.get(name)
        if type(found) not in (int, float) or not -_MOST <= found <= _MOST:
            raise self.error(f"{name!r} is {repr(found)[:80]}, not a number")
        return float(found)

    def flag(self, name: str, default: bool) -> bool:
        """Return whether something is so."""
        found = self.get(name, default)
        if type(found) is not bool:
            raise self.error(f"{name!r} is {found!r}, not true or false")
        return found

    def text(self, name: str) -> str:
        """Return a text."""
        found = self.get(name)
        if type(found) is not str:
            raise self.error(f"{name!r} is {found!r}, not a text")
        return found

    def numbers(self, name: str, most: int) -> list[int]:
        """Return a list of integers from 0 to `most`; an empty one if it is absent."""
        found = self.get(name) or []
        if type(found) is not list or not all(
            type(one) is int and 0 <= one <= most for one in found
        ):
            raise self.error(f"{name!r} is not a list of integers from 0 to {most}")
        return found

    def parameters(self, name: str) -> StoredParameters:
        """Return an object within the object."""
        return StoredParameters(json.dumps(self.get(name)), self.path)

    def get(self, name: str, default: Any = None) -> Any:
        """Return any value; a default if it is absent."""
        return self._fields.get(name, default)

    def error(self, what: str) -> CorruptFileError:
        """Return an error about the object."""
        return CorruptFileError(f"parameters of a vector index: {what}", self.path)


def entry(metadata: Mapping[str, str], key: str, path: str) -> str:
    """Return an entry of the metadata of a file.

    Raises:
        CorruptFileError: If there is none.
    """
    found = metadata.get(key)
    if found is None:
        raise CorruptFileError(f"the metadata has no entry {key!r}", path)
    return found


def texts(text: str, path: str) -> list[str]:
    """Return the texts of a JSON array.

    Raises:
        CorruptFileError: If it is not one.
    """
    found = _parsed(text, path)
    if not isinstance(found, list) or not set(map(type, found)) <= {str}:
        raise CorruptFileError(f"expected a JSON array of texts, found {text[:80]!r}", path)
    return found


def _parsed(text: str, path: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"metadata {text[:80]!r}: {error}", path) from error
