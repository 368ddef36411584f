"""The argument `nearest` of a scan: a dict that describes a search of the nearest vectors.

    {"column": "v", "q": [0.1, 0.2], "k": 10, "metric": "cosine"}      one query
    {"column": "v", "q": [[0.1, 0.2], [0.3, 0.4]]}                     a batch of queries

For a column of lists of vectors, several vectors are one query. The result has the column
`_distance` after the requested columns, unless it is among them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from pilum.arguments import integer_of, require_known
from pilum.errors import ColumnNotFoundError, InvalidInputError
from pilum.index.vector.metrics import Metric
from pilum.index.vector.vectors import VectorType, require_query
from pilum.table.indices.exact import VectorColumn
from pilum.table.indices.nearest import QUERY_INDEX, VectorSearch
from pilum.table.indices.nearest_plans import Probing
from pilum.table.read.snapshot import Snapshot

__all__ = ["NEAREST_KEYS", "queries_of", "vector_search"]

T = TypeVar("T")

NEAREST_KEYS = frozenset(
    {
        "column",
        "q",
        "k",
        "metric",
        "nprobes",
        "minimum_nprobes",
        "maximum_nprobes",
        "refine_factor",
        "use_index",
        "ef",
        "query_parallelism",
        "approx_mode",
        "distance_range",
        "search_effort",
    }
)
_MODES = ("fast", "normal", "accurate")
_DEFAULT_K = 10
_NPROBES = "Nprobes must be > 0 but got {}"


def vector_search(snapshot: Snapshot, nearest: Any, *, is_prefilter: bool) -> VectorSearch:
    """Return the search for the argument `nearest` of a scan.

    Raises:
        ColumnNotFoundError: If the column does not exist.
        UnsupportedTypeError: If it is not a column of vectors.
        UnknownArgumentError: If a key is unknown.
        InvalidInputError: If a value is invalid.
    """
    given = _given(nearest)
    column = _column(snapshot, given["column"])
    queries, is_batch = queries_of(given["q"], column.type, column.path)
    if is_batch and QUERY_INDEX in snapshot.schema.by_name:
        raise InvalidInputError(
            f"a batch of queries returns a column {QUERY_INDEX!r}, but the table has one: rename "
            "it, or search with one query at a time"
        )
    lower, upper = _distance_range(given.get("distance_range"))
    return VectorSearch(
        column=column,
        queries=queries,
        is_batch=is_batch,
        k=_count(given, "k", "Nearest-K must be > 0 but got {}", 1) or _DEFAULT_K,
        metric=_metric(given.get("metric"), column),
        is_prefilter=is_prefilter,
        lower=lower,
        upper=upper,
        uses_index=bool(given.get("use_index", True)),
        probing=_probing(given),
    )


def _given(nearest: Any) -> dict[str, Any]:
    if not isinstance(nearest, Mapping):
        raise InvalidInputError(
            f'nearest: expected a dict such as {{"column": "v", "q": …}}, found {nearest!r:.80}'
        )
    require_known("nearest has", nearest, NEAREST_KEYS)
    given = {name: value for name, value in nearest.items() if value is not None}
    for name in ("column", "q"):
        if name not in given:
            raise InvalidInputError(f"nearest: {name!r} is missing")
    return given


def _column(snapshot: Snapshot, path: Any) -> VectorColumn:
    if not isinstance(path, str):
        raise InvalidInputError(f"nearest: expected the name of a column, found {path!r:.80}")
    try:
        return VectorColumn.of(snapshot, path)
    except ColumnNotFoundError as error:
        raise ColumnNotFoundError(f"nearest: {error}") from None


def queries_of(q: Any, type: VectorType, path: str) -> tuple[Any, bool]:
    """Return the queries as `VectorSearch` takes them, and whether they are a batch."""
    found = require_query(q, type, path)
    if type.is_multi:
        return np.atleast_2d(found)[None], False
    return (found, True) if found.ndim == 2 else (found[None], False)


def _metric(name: Any, column: VectorColumn) -> Metric | None:
    if name is None:
        return None
    metric = Metric.named(name)
    if (metric is Metric.HAMMING) != (column.type.is_binary):
        raise InvalidInputError(
            f"metric {name!r}: column {column.path!r} has elements of type {column.type.dtype}; "
            "hamming is for uint8, the other metrics are for other types"
        )
    return metric


def _probing(given: Mapping[str, Any]) -> Probing:
    """Return the keys that say how much of an index is searched."""
    effort = given.get("search_effort")
    if effort is not None and not _is_share(effort):
        raise InvalidInputError(f"search_effort must be finite and in [0, 1], got {effort!r}")
    fixed = None if effort is not None else _count(given, "nprobes", _NPROBES, 1)
    low = _count(given, "minimum_nprobes", "Minimum nprobes must be >= 0 but got {}", 0)
    high = _count(given, "maximum_nprobes", "Maximum nprobes must be >= 0 but got {}", 0)
    low = low if low is not None else fixed or 1
    high = high if high is not None else fixed
    if high is not None and low > high:
        raise InvalidInputError("minimum_nprobes must be <= maximum_nprobes")
    parallelism = _count(given, "query_parallelism", "query_parallelism must be >= -1, got {}", -1)
    mode = given.get("approx_mode", "normal")
    if mode not in _MODES:
        raise InvalidInputError(
            f"approx_mode must be one of 'fast', 'normal', or 'accurate', got {mode!r:.80}"
        )
    return Probing(
        minimum_nprobes=low,
        maximum_nprobes=high,
        is_fixed=fixed is not None,
        search_effort=None if effort is None else float(effort),
        ef=_count(given, "ef", "ef must be > 0 but got {}", 1),
        refine_factor=_count(given, "refine_factor", "Refine factor must be 1 or more got {}", 1),
        approx_mode=mode,
        parallelism=parallelism or 0,
    )


def _count(given: Mapping[str, Any], name: str, message: str, least: int) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    number = integer_of(value)
    if number is None:
        raise InvalidInputError(f"{name}: expected an integer, found {value!r:.80}")
    if number < least:
        raise InvalidInputError(message.format(number))
    return number


def _is_share(value: Any) -> bool:
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and 0 <= value <= 1


def _distance_range(given: Any) -> tuple[float | None, float | None]:
    if given is None:
        return None, None
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise InvalidInputError(
            "distance_range must be a tuple of (lower_bound, upper_bound), where None is no limit; "
            f"found {given!r:.80}"
        )
    return _bound(given[0]), _bound(given[1])


def _bound(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InvalidInputError(f"distance_range: expected numbers or None, found {value!r:.80}")
    if math.isnan(value):
        raise InvalidInputError("distance_range: a limit is NaN")
    return float(value)
