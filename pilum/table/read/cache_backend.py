"""Cache settings of the reference: `"moka://?capacity=1048576"`, or the same as a dict.

This library has one kind of cache, which evicts the least recently used entries. Of the reference's
default kind, only the capacity is used. Other kinds are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

from pilum.errors import InvalidInputError

__all__ = ["CacheBackend", "backend_bytes"]

CacheBackend = str | Mapping[str, object]

_KIND = "moka"


def backend_bytes(name: str, backend: CacheBackend) -> int:
    """Return the capacity of a cache in bytes.

    Args:
        name: Name of the argument, for error messages.
        backend: A URI, or a dict with "kind" and "options".

    Raises:
        InvalidInputError: If the cache is of another kind, or an option is invalid.
    """
    kind, options = _parsed(name, backend)
    if kind != _KIND:
        raise InvalidInputError(f"{name}: expected the kind {_KIND!r}, found {kind!r}")
    if unknown := options.keys() - {"capacity"}:
        raise InvalidInputError(f"{name}: unknown options {sorted(unknown)}")
    capacity = options.get("capacity")
    if not isinstance(capacity, str) or not capacity.isdecimal():
        raise InvalidInputError(f"{name}: expected a capacity in bytes, found {capacity!r}")
    return int(capacity)


def _parsed(name: str, backend: CacheBackend) -> tuple[object, Mapping[str, object]]:
    if isinstance(backend, str):
        uri = urlsplit(backend)
        return uri.scheme or backend, dict(parse_qsl(uri.query))
    options = backend.get("options") or {} if isinstance(backend, Mapping) else None
    if not isinstance(backend, Mapping) or not isinstance(options, Mapping):
        raise InvalidInputError(f"{name}: expected a URI or a dict, found {backend!r:.80}")
    return backend.get("kind"), options
