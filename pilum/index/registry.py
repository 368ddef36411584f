"""The types of indices, by their name in the API and by their type URL in manifests."""

from __future__ import annotations

from typing import Any

from pilum.errors import UnsupportedFeatureError
from pilum.index.base import IndexType

__all__ = ["index_type", "index_type_of"]

_TYPES: tuple[IndexType[Any], ...] = ()


def index_type(name: str) -> IndexType[Any]:
    """Return the type with a name of the API, in upper or lower case.

    Raises:
        UnsupportedFeatureError: If there is none.
    """
    found = {one.name: one for one in _TYPES}.get(name.upper())
    if found is None:
        known = ", ".join(one.name for one in _TYPES)
        raise UnsupportedFeatureError(f"no type of index {name!r}; there are {known}")
    return found


def index_type_of(type_url: str) -> IndexType[Any] | None:
    """Return the type whose details have a type URL; None if it is not known.

    Only the last part of the URL counts, in upper or lower case.
    """
    return {_last(one.type_url): one for one in _TYPES}.get(_last(type_url))


def _last(type_url: str) -> str:
    return type_url.rpartition("/")[2].rpartition(".")[2].lower()
