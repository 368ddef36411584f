"""From what users write, a path or a URI, to a store."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import unquote

from pilum.errors import InvalidInputError, UnsupportedFormatError
from pilum.storage.base import Store
from pilum.storage.local import LocalStore

__all__ = ["open_object", "open_store"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_LOCAL_SCHEME = "file"
_SYNC_OPTION = "sync"


def open_store(
    uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
) -> Store:
    """Opens the store at a location. Nothing is read or written yet.

    Args:
        uri: A local path (`~` is the home folder) or a `file://` URI.
        storage_options: For local stores `{"sync": "false"}` leaves out the waiting for the
            device; options of other stores are not looked at.

    Raises:
        UnsupportedFormatError: For a scheme that this library has no store for.
        InvalidInputError: For a location or option that is malformed.
    """
    return _open_local(uri, storage_options)


def open_object(
    uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
) -> tuple[Store, str]:
    """The store around one object, and the name of the object in it.

    Raises:
        As `open_store`.
    """
    store = _open_local(uri, storage_options)
    folder, name = os.path.split(store.root)
    if not name:
        raise InvalidInputError(f"expected the location of a file, found {uri!r}")
    return replace(store, root=folder), name


def _open_local(
    uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None
) -> LocalStore:
    text = os.fspath(uri)
    if not text or "\0" in text:
        raise InvalidInputError(f"expected a path or URI, found {uri!r}")
    if match := _SCHEME.match(text):
        text = _path_of_uri(text, match[1])
    else:
        text = os.path.expanduser(text)
    return LocalStore(os.path.abspath(text), sync=_sync(storage_options or {}))


def _path_of_uri(uri: str, scheme: str) -> str:
    if scheme.lower() != _LOCAL_SCHEME:
        raise UnsupportedFormatError(
            f"{uri}: no store for {scheme}:// locations; supported: local paths and file://"
        )
    host, slash, path = uri[len("file://") :].partition("/")
    if host not in {"", "localhost"} or not slash:
        raise InvalidInputError(f"{uri}: expected file:///absolute/path")
    return unquote(slash + path)


def _sync(options: Mapping[str, str]) -> bool:
    value = str(options.get(_SYNC_OPTION, "true")).lower()
    if value not in {"true", "false"}:
        raise InvalidInputError(f'storage option "sync": expected true or false, found {value!r}')
    return value == "true"
