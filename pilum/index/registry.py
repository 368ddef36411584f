"""The types of indices, by their name in the API and by their type URL in manifests."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa

from pilum.errors import InvalidInputError, UnsupportedFeatureError, UnsupportedTypeError
from pilum.index.base import IndexType
from pilum.index.inverted.inverted import INVERTED
from pilum.index.minhash.minhash_lsh import MINHASH_LSH
from pilum.index.rtree.rtree import RTREE
from pilum.index.scalar.bitmap import BITMAP
from pilum.index.scalar.bloom_filter import BLOOM_FILTER
from pilum.index.scalar.btree import BTREE
from pilum.index.scalar.json_index import JSON_INDEX
from pilum.index.scalar.label_list import LABEL_LIST
from pilum.index.scalar.ngram import NGRAM
from pilum.index.scalar.zone_map import ZONE_MAP
from pilum.index.vector.types import VECTOR_TYPES, vector_type_of

__all__ = ["index_type", "index_type_of", "index_type_of_files"]

_TYPES: tuple[IndexType[Any], ...] = (
    BTREE,
    BITMAP,
    LABEL_LIST,
    JSON_INDEX,
    ZONE_MAP,
    BLOOM_FILTER,
    NGRAM,
    INVERTED,
    MINHASH_LSH,
    RTREE,
    *VECTOR_TYPES,
)

_OTHER_NAMES = {"FTS": "INVERTED"}


def index_type(name: str) -> IndexType[Any]:
    """Return the type with a name of the API, in upper or lower case.

    Raises:
        UnsupportedFeatureError: If there is none.
        InvalidInputError: If the name is not a text.
    """
    if not isinstance(name, str):
        raise InvalidInputError(f"index_type: expected a name such as 'BTREE', found {name!r:.80}")
    wanted = _OTHER_NAMES.get(name.upper(), name.upper())
    found = {one.name: one for one in _TYPES}.get(wanted)
    if found is None:
        known = ", ".join(one.name for one in _TYPES)
        raise UnsupportedFeatureError(f"no type of index {name!r}; there are {known}")
    return found


def index_type_of(type_url: str, details: bytes = b"") -> IndexType[Any] | None:
    """Return the type whose details have a type URL; None if it is not known.

    Only the last part of the URL counts, in upper or lower case. Types of vector indices have the
    same URL; they differ in their details.
    """
    last = _last(type_url)
    for one in _TYPES:
        if _last(one.type_url) == last:
            return vector_type_of(details) if one in VECTOR_TYPES else one
    return None


def index_type_of_files(names: Collection[str], type: pa.DataType) -> IndexType[Any] | None:
    """Return the type of a segment without details, by its files and the type of its column.

    None if it is not known.
    """
    return next(filter(partial(_can_be, names, type), _TYPES), None)


def _can_be(names: Collection[str], type: pa.DataType, one: IndexType[Any]) -> bool:
    if not one.files or not set(names).issuperset(one.files):
        return False
    try:
        one.require_supported("", type)
    except UnsupportedTypeError:
        return False
    return True


@lru_cache(maxsize=64)
def _last(type_url: str) -> str:
    return type_url.rpartition("/")[2].rpartition(".")[2].lower()
