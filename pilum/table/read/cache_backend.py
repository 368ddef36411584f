"""What users of the reference say of caches: `"moka://?capacity=1048576"`, or the same as a dict.

There is one kind of cache here, which drops what was used least recently; of the reference's
default kind it takes the capacity. Other kinds are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

from pilum.errors import InvalidInputError

__all__ = ["CacheBackend", "backend_bytes"]

CacheBackend = str | Mapping[str, object]

_KIND = "moka"


def backend_bytes(name: str, backend: CacheBackend) -> int:
    """The capacity of a cache, bytes.

    Args:
        name: Of the argument, for messages.
        backend: A URI, or a dict of "kind" and "options".

    Raises:
        InvalidInputError: For another kind, or options that make no sense.
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
