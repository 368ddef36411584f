"""Storage options that hold for only one base path of a table.

    storage_options     "region": "eu-west-1"                   for the table, and all base paths
                        "base_1.region": "us-east-1"            for the base path with the id 1
    base_store_params   {"s3://other": {"region": "…"}}         for the base path with this location

The later ones take precedence. Inside the library `base_store_params` are one more storage option,
as JSON, so that they go wherever the options go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pilum.errors import InvalidInputError
from pilum.storage.base import Store, options_digest
from pilum.storage.open import open_beside, open_store
from pilum.storage.wrapper import StoreWrapper

__all__ = ["open_base", "open_line_store", "open_with_bases", "own_options", "with_base_params"]

_OPTION = "base_store_params"
_SCOPED = re.compile(r"base_(\d+)\.(.+)")


def with_base_params(
    storage_options: Mapping[str, str] | None,
    base_store_params: Mapping[str, Mapping[str, str]] | None,
) -> Mapping[str, str] | None:
    """Return storage options that also contain those of single base paths.

    InvalidInputError is raised if these are not mappings of texts.
    """
    if base_store_params is None:
        return storage_options
    try:
        found = {uri: dict(options) for uri, options in base_store_params.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{_OPTION}: expected storage options by base path, found {base_store_params!r:.80}"
        ) from error
    return {**(storage_options or {}), _OPTION: json.dumps(found)}


def own_options(storage_options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that hold for the table itself."""
    return {
        key: value
        for key, value in storage_options.items()
        if key != _OPTION and not _SCOPED.fullmatch(key)
    }


@dataclass(frozen=True)
class _BaseOptions(StoreWrapper):
    """The store of a table, and the options of its base paths by their id or location."""

    by_base: Mapping[int | str, Mapping[str, str]]

    @property
    def identity(self) -> str:
        """The identity of the wrapped store, and the options: stores with others are not shared."""
        return f"{self.wrapped.identity}#{options_digest(self.by_base)}"


def open_with_bases(location: str, storage_options: Mapping[str, str]) -> Store:
    """Open the store of a table, as `open_store`, with the options of its base paths."""
    if not storage_options:
        return open_store(location, {})
    by_base: dict[int | str, dict[str, str]] = {}
    for key, value in storage_options.items():
        if scoped := _SCOPED.fullmatch(key):
            by_base.setdefault(int(scoped[1]), {})[scoped[2]] = value
    params: dict[str, Any] = json.loads(storage_options.get(_OPTION, "{}"))
    by_base |= {_location(uri): options for uri, options in params.items()}
    store = open_store(location, own_options(storage_options))
    return _BaseOptions(store, by_base) if by_base else store


def open_line_store(store: Store, uri: str) -> Store:
    """Open the store of a branch of a table with the options of the table and its base paths."""
    other, given = open_beside(store, uri), _given(store)
    return _BaseOptions(other, given) if given else other


def open_base(store: Store, base_id: int, uri: str) -> Store:
    """Open the store of a base path of a table."""
    given = _given(store)
    return open_store(
        uri, {**store.options, **given.get(base_id, {}), **given.get(_location(uri), {})}
    )


def _given(store: Store) -> Mapping[int | str, Mapping[str, str]]:
    while isinstance(store, StoreWrapper):
        if isinstance(store, _BaseOptions):
            return store.by_base
        store = store.wrapped
    return {}


def _location(uri: str) -> str:
    return uri.rstrip("/") or uri
