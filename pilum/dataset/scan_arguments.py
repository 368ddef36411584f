"""Further scan arguments besides rows and columns: order, batch sizes, and hints.

Hints affect only how a scan runs, never its result. They are accepted and checked, but have no
effect. Arguments of searches are rejected by name.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from pilum.errors import InvalidInputError, UnknownArgumentError, UnsupportedFeatureError
from pilum.table.read.ordering import ColumnOrdering

__all__ = ["ColumnOrdering", "ScanArguments", "ScanShape", "ScanStatistics", "shape_of"]


@dataclass(frozen=True)
class ScanStatistics:
    """The statistics of what a scan read from the store.

    Concurrent reads of the same location are also counted.

    Attributes:
        iops: Number of requests.
        requests: The same as `iops`; coalesced requests count as one.
        bytes_read: Number of bytes read.
        indices_loaded: Always 0: no index is read.
        parts_loaded: Always 0.
        index_comparisons: Always 0.
        index_cache_hits: Always 0.
        index_cache_misses: Always 0.
        all_counts: Further counts: "rows_given".
        all_times: Times in nanoseconds: "elapsed".
    """

    iops: int
    requests: int
    bytes_read: int
    indices_loaded: int = 0
    parts_loaded: int = 0
    index_comparisons: int = 0
    index_cache_hits: int = 0
    index_cache_misses: int = 0
    all_counts: Mapping[str, int] | None = None
    all_times: Mapping[str, int] | None = None


class ScanArguments(TypedDict, total=False):
    """Further arguments of scans.

    `order_by`: names or `ColumnOrdering`s to sort rows by; with a `limit`, this needs memory for
    about twice as many rows, otherwise for all rows. `strict_batch_size`: every batch except the
    last has exactly `batch_size` rows. `batch_size_bytes`: approximate maximum size of a batch in
    bytes. `include_deleted_rows`: also return rows that are deleted but still stored; requires
    `with_row_id`, whose values are null for them. `scan_stats_callback`: called with
    `ScanStatistics` at the end of a scan.

    `batch_readahead`, `fragment_readahead`, `io_buffer_size`, `use_stats`, `late_materialization`,
    `use_scalar_index`, `prefilter` and `disable_scoring_autoprojection` are hints without effect.
    `nearest`, `full_text_query`, `index_segments`, `fast_search`, `row_addr_allowlist` and
    `row_addr_blocklist` belong to index searches and are rejected.
    """

    order_by: Iterable[ColumnOrdering | str] | str | None
    strict_batch_size: bool | None
    batch_size_bytes: int | None
    include_deleted_rows: bool | None
    scan_stats_callback: Callable[[ScanStatistics], None] | None
    batch_readahead: int | None
    fragment_readahead: int | None
    io_buffer_size: int | None
    use_stats: bool | None
    late_materialization: bool | list[str] | None
    use_scalar_index: bool | None
    prefilter: bool | None
    disable_scoring_autoprojection: bool | None
    nearest: Any
    full_text_query: Any
    index_segments: Any
    fast_search: bool | None
    row_addr_allowlist: bytes | None
    row_addr_blocklist: bytes | None


_SEARCHES = (
    "nearest",
    "full_text_query",
    "index_segments",
    "fast_search",
    "row_addr_allowlist",
    "row_addr_blocklist",
)
_COUNTS = ("batch_size_bytes", "batch_readahead", "fragment_readahead", "io_buffer_size")


@dataclass(frozen=True)
class ScanShape:
    """The order and batch sizes in which rows are returned.

    Attributes:
        order_by: Sort keys; table order if empty.
        is_strict: Whether batches have exactly the requested size.
        batch_bytes: Approximate maximum size of a batch in bytes; None for no limit.
        with_deleted: Whether to include deleted rows.
        callback: Function that is called at the end of each scan.
    """

    order_by: tuple[ColumnOrdering, ...] = ()
    is_strict: bool = False
    batch_bytes: int | None = None
    with_deleted: bool = False
    callback: Callable[[ScanStatistics], None] | None = None

    @property
    def is_plain(self) -> bool:
        """Return whether rows are returned exactly as a scan of the table yields them."""
        return self == _PLAIN


_PLAIN = ScanShape()


def shape_of(arguments: Mapping[str, Any], *, with_row_id: bool) -> ScanShape:
    """Check the further arguments of a scan.

    Args:
        arguments: The arguments of `ScanArguments`.
        with_row_id: Whether the scan returns `_rowid`.

    Raises:
        UnsupportedFeatureError: If a search is requested.
        UnknownArgumentError: If a scan has no such argument.
        InvalidInputError: If an argument is invalid.
    """
    if unknown := arguments.keys() - ScanArguments.__annotations__.keys():
        raise _unknown(min(unknown))
    given = {name: value for name, value in arguments.items() if value is not None}
    if not given:
        return _PLAIN
    for name in _SEARCHES:
        if given.get(name, False) is not False:
            raise UnsupportedFeatureError(f"{name}: indices are kept, but not searched yet")
    for name in _COUNTS:
        count = given.get(name, 1)
        if isinstance(count, bool) or not hasattr(count, "__index__") or count < 1:
            raise InvalidInputError(f"{name}: expected an integer above 0, found {count!r}")
    shape = ScanShape(
        _ordering(given.get("order_by", ())),
        bool(given.get("strict_batch_size", False)),
        given.get("batch_size_bytes"),
        bool(given.get("include_deleted_rows", False)),
        given.get("scan_stats_callback"),
    )
    if shape.is_strict and shape.batch_bytes is not None:
        raise InvalidInputError("strict_batch_size and batch_size_bytes contradict each other")
    if shape.with_deleted and not with_row_id:
        raise InvalidInputError(
            "include_deleted_rows needs with_row_id, which tells deleted rows from others"
        )
    return shape


def _ordering(found: Any) -> tuple[ColumnOrdering, ...]:
    keys = [found] if isinstance(found, str | ColumnOrdering) else list(found)
    ordering = []
    for key in keys:
        one = ColumnOrdering(key) if isinstance(key, str) else key
        if not isinstance(getattr(one, "column_name", None), str):
            raise InvalidInputError(f"order_by: expected names or ColumnOrdering, found {key!r}")
        ordering.append(one)
    return tuple(ordering)


_USUAL = ("columns", "filter", "limit", "offset", "with_row_id", "with_row_address")


def _unknown(name: str) -> UnknownArgumentError:
    known = [*_USUAL, *ScanArguments.__annotations__]
    close = difflib.get_close_matches(name, known, 1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    return UnknownArgumentError(f"scans have no argument {name!r}{meant}")
