"""Open the store or object at a path or URI."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote, unquote

from pilum.arguments import require_dict
from pilum.errors import InvalidInputError, UnsupportedFormatError
from pilum.storage.base import Store
from pilum.storage.local import LocalStore
from pilum.storage.system import slashed

__all__ = [
    "CLOUD_SCHEMES",
    "Location",
    "location_text",
    "object_uri",
    "open_beside",
    "open_object",
    "open_store",
]

Location: TypeAlias = str | os.PathLike[str]
"""A path or URI."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
CLOUD_SCHEMES = frozenset(
    {"s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss", "memory", "shared-memory"}
)
"""The schemes that `pilum.storage.cloud` opens."""

_LOCAL_SCHEME = "file"
_LOCAL_OPTIONS = ["sync", "mmap"]


def open_store(uri: Location, storage_options: Mapping[str, str] | None = None) -> Store:
    """Open the store at a location. Nothing is read or written yet.

    Args:
        uri: A local path (`~` is the home folder), a `file://` URI, or one of an object store;
            see `pilum.storage.cloud`.
        storage_options: For local stores, `{"sync": "false"}` skips waiting for the device, and
            `{"mmap": "false"}` copies all bytes that are read instead of mapping parts of files;
            options of object stores hold for objects that local files refer to. For object stores
            see `pilum.storage.cloud_options`.

    Raises:
        UnsupportedFormatError: If this library has no store for the scheme.
        InvalidInputError: If the location or an option is malformed.
        MissingDependencyError: If the package that the store needs is not installed.
    """
    text = location_text(uri)
    if _scheme_of(text) in CLOUD_SCHEMES:
        # Users of local tables should not wait for the import of these modules.
        from pilum.storage.cloud import open_cloud

        return open_cloud(text, storage_options)
    if not storage_options:
        return LocalStore(_local_path(text))
    options = require_dict("storage_options", storage_options)
    given = {key.lower(): value for key, value in options.items()}
    if given.keys() - set(_LOCAL_OPTIONS):
        from pilum.storage.cloud_options import warn_about_unknown

        warn_about_unknown(given, "local folders", _LOCAL_OPTIONS)
    sync, maps = (_truth(given, name) for name in _LOCAL_OPTIONS)
    others = {key: value for key, value in given.items() if key not in _LOCAL_OPTIONS}
    return LocalStore(_local_path(text), sync, maps, others=others)


def open_beside(store: Store, uri: str) -> Store:
    """Open the store at another location with the options of this one."""
    return open_store(uri, store.options)


def open_object(
    uri: Location, storage_options: Mapping[str, str] | None = None
) -> tuple[Store, str]:
    """Return the store that contains one object, and the name of the object in it."""
    text = location_text(uri)
    is_cloud = _scheme_of(text) in CLOUD_SCHEMES
    folder, slash, name = (text if is_cloud else _local_path(text)).rpartition("/")
    if not slash or not name or folder.endswith("/"):
        raise InvalidInputError(f"expected the location of a file, found {uri!r}")
    return open_store(folder or slash, storage_options), unquote(name) if is_cloud else name


def object_uri(store: Store, path: str) -> str:
    """Return the URI with which `open_object` opens an object of a store."""
    place = f"{store.uri}/{path}"
    return Path(place).as_uri() if _scheme_of(place) is None else quote(place, safe="/:@")


def location_text(uri: object) -> str:
    """Return a path or URI as a text; raise InvalidInputError if nothing can lie there."""
    text = os.fspath(uri) if isinstance(uri, str | os.PathLike) else None
    try:
        if isinstance(text, str) and b"\0" not in text.encode("utf-8", "surrogateescape"):
            return text
    except UnicodeEncodeError:  # half of a surrogate pair
        pass
    raise InvalidInputError(f"expected a path or URI, found {uri!r:.80}")


def _scheme_of(text: str) -> str | None:
    match = _SCHEME.match(text) if "://" in text else None
    return match[1].lower() if match else None


def _local_path(text: str) -> str:
    if not text:
        raise InvalidInputError(f"expected a path or URI, found {text!r}")
    scheme = _scheme_of(text)
    path = os.path.expanduser(text) if scheme is None else _path_of_uri(text, scheme)
    return slashed(os.path.abspath(slashed(path)))


def _path_of_uri(uri: str, scheme: str) -> str:
    if scheme != _LOCAL_SCHEME:
        raise UnsupportedFormatError(
            f"{uri}: no store for {scheme}:// locations; supported: local paths, file://, "
            + ", ".join(f"{known}://" for known in sorted(CLOUD_SCHEMES))
        )
    host, slash, path = uri[len("file://") :].partition("/")
    if host not in {"", "localhost"} or not slash:
        raise InvalidInputError(f"{uri}: expected file:///absolute/path")
    return unquote(slash + path)


def _truth(options: Mapping[str, str], name: str) -> bool:
    value = str(options.get(name, "true")).lower()
    if value not in {"true", "false"}:
        raise InvalidInputError(f'storage option "{name}": expected true or false, found {value!r}')
    return value == "true"
