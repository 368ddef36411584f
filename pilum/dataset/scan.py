"""The description of a scan: its keywords, and the checked request that they become.

    scanner(filter="a > 1", limit=9) ──▶ ScanKeywords ──▶ Scan.of ──▶ LanceScanner

Some keywords are hints, which affect only how a scan runs, never its result. They are accepted and
checked, but have no effect. With a search (`searches.py`), the best rows are returned, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from pilum.arguments import (
    optional_count,
    require_choice,
    require_count,
    require_function,
    require_known,
    require_list,
    require_names,
)
from pilum.dataset.projection import Columns, Projection, project
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.expressions import scope_of
from pilum.format.blobs import materialized
from pilum.format.meta_columns import META_COLUMNS, ROW_ADDRESS, ROW_ID
from pilum.format.schema import Schema
from pilum.format.text_forms import TEXT_FORMS, TextForm
from pilum.table.indices.index_use import ANY_INDEX, IndexUse
from pilum.table.read.ordering import ColumnOrdering
from pilum.table.read.scan import ScanOptions, scan_schema
from pilum.table.read.snapshot import Snapshot

if TYPE_CHECKING:
    from pilum.dataset.search_filters import ScanFilter
    from pilum.expressions.binding import Scope
    from pilum.expressions.filter import BoundFilter
    from pilum.table.indices.searches import Search

__all__ = [
    "BlobHandling",
    "ColumnOrdering",
    "Filter",
    "HasFragmentId",
    "MoreScanKeywords",
    "Scan",
    "ScanKeywords",
    "ScanStatistics",
]

Filter: TypeAlias = "str | pc.Expression"
"""SQL, or a `pyarrow.compute` expression."""

BlobHandling: TypeAlias = Literal["all_binary", "blobs_descriptions", "all_descriptions"]
"""The form in which scans return blobs."""

_BLOB_HANDLING = ("all_binary", "blobs_descriptions", "all_descriptions")
_COUNTS = ("batch_size_bytes", "batch_readahead", "fragment_readahead", "io_buffer_size")
_SEARCHES = ("nearest", "full_text_query")
_REFUSED = ("row_addr_allowlist", "row_addr_blocklist")
_INDEX_USE = ("use_scalar_index", "fast_search", "index_segments")


@dataclass(frozen=True)
class ScanStatistics:
    """The statistics of what a scan read from the store, indices included.

    Concurrent reads of the same location are also counted.

    Attributes:
        iops: Number of requests.
        requests: The same as `iops`; coalesced requests count as one.
        bytes_read: Number of bytes read.
        indices_loaded: Always 0; what is done in indices is not counted.
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


class HasFragmentId(Protocol):
    """A fragment, such as a `LanceFragment`."""

    @property
    def fragment_id(self) -> int:
        """The id of the fragment."""
        ...


class MoreScanKeywords(TypedDict, total=False):
    """The keywords of a scan after the first four, which may be positional.

    `LanceDataset.scanner` explains them.
    """

    batch_size: int | None
    scan_in_order: bool | None
    fragments: Iterable[HasFragmentId] | None
    with_row_id: bool | None
    with_row_address: bool | None
    blob_handling: BlobHandling | None
    strings_as: TextForm | None
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


class ScanKeywords(MoreScanKeywords, total=False):
    """The keywords of a scan. `LanceDataset.scanner` explains them."""

    columns: Columns | None
    filter: ScanFilter | None
    limit: int | None
    offset: int | None


_KEYWORDS = frozenset(ScanKeywords.__annotations__)


@dataclass(frozen=True)
class Scan:
    """A checked scan of one version.

    Attributes:
        options: Options that say what is read.
        projection: What is computed from it; None to return what is read.
        order_by: Sort keys; table order if empty.
        is_strict: Whether batches have exactly the requested size.
        batch_bytes: Approximate maximum size of a batch in bytes; None for no limit.
        with_deleted: Whether to include deleted rows.
        callback: Function that is called with the statistics at the end of each scan.
        indices: The indices that may be used for the filter.
        search: The search whose rows are read; None for none.
        form: The form in which strings and bytes are returned; None for that of the table.
    """

    options: ScanOptions
    projection: Projection | None = None
    order_by: tuple[ColumnOrdering, ...] = ()
    is_strict: bool = False
    batch_bytes: int | None = None
    with_deleted: bool = False
    callback: Callable[[ScanStatistics], None] | None = None
    indices: IndexUse = ANY_INDEX
    search: Search | None = None
    form: TextForm | None = None

    @classmethod
    def of(cls, snapshot: Snapshot, keywords: ScanKeywords) -> Self:
        """Check keywords and bind them to a version.

        Filters always see descriptors of blobs, even if the scan returns their bytes.
        """
        require_known("scans have", keywords, _KEYWORDS)
        given: dict[str, Any] = {
            name: value for name, value in keywords.items() if value is not None
        }
        _require_valid(given)
        if "late_materialization" in given:
            _require_columns(snapshot.schema, given["late_materialization"])
        _split_filter(given)
        use = _index_use(given)
        search = _search(snapshot, given, use)
        options = _options(snapshot, given, search)
        names, projection = _projected(snapshot, given, options, search)
        if projection:
            meta = {ROW_ID: options.with_row_id, ROW_ADDRESS: options.with_row_address}
            kept = tuple(name for name, wanted in meta.items() if wanted)
            projection = replace(projection, kept=(*projection.kept, *kept))
        made = cls(
            options if names is None else options.with_columns(names),
            projection,
            _ordering(given.get("order_by", ())),
            bool(given.get("strict_batch_size", False)),
            given.get("batch_size_bytes"),
            bool(given.get("include_deleted_rows", False)),
            given.get("scan_stats_callback"),
            use,
            search,
        )
        form = given.get("strings_as")
        return made if form is None else made._in_form(snapshot, form)

    def _in_form(self, snapshot: Snapshot, form: TextForm) -> Self:
        """Return the scan with a form of strings.

        A scan that only reads decodes them in this form. All others read the form of the table, and
        convert their results.
        """
        options = self.options
        only_reads = self.is_plain and options.filter is None and not options.with_payloads
        if only_reads and not snapshot.schema.has_marks:
            options = replace(options, form=form)
        return replace(self, options=options, form=form)

    @property
    def is_plain(self) -> bool:
        """Return whether rows are returned exactly as a scan of the table yields them."""
        return self.search is None and self._returns_what_is_read

    @property
    def is_plain_search(self) -> bool:
        """Return whether rows are returned exactly as a search yields them."""
        return self.search is not None and self._returns_what_is_read

    @property
    def _returns_what_is_read(self) -> bool:
        return (
            self.projection is None
            and self.form == self.options.form
            and not (self.order_by or self.is_strict or self.with_deleted)
            and self.batch_bytes is None
            and self.callback is None
        )

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        """Return the schema of the batches of the scan."""
        scanned = self.read_schema(snapshot, self.options)
        return self.projection.schema(scanned) if self.projection else scanned

    def read_schema(self, snapshot: Snapshot, options: ScanOptions) -> pa.Schema:
        """Return the schema of what is read with some options, before anything is computed."""
        if self.search is None:
            return scan_schema(snapshot, options)
        from pilum.table.indices.searches import search_schema

        return search_schema(snapshot, options, self.search)

    def with_filter(self, filter: BoundFilter) -> Scan:
        """Return the same scan with another filter, if it has no search or one of vectors."""
        changed = object.__new__(Scan)  # `dataclasses.replace` takes longer than to look up a row
        changed.__dict__.update(self.__dict__, options=self.options.with_filter(filter))
        return changed

    def with_search(self, search: Search) -> Scan:
        """Return the same scan with another search, whose columns are the same."""
        changed = object.__new__(Scan)
        changed.__dict__.update(self.__dict__, search=search)
        return changed

    def limited(self, num_rows: int) -> Self:
        """Return the same scan, limited to `num_rows` rows."""
        limit = self.options.limit
        least = num_rows if limit is None else min(num_rows, limit)
        return replace(self, options=replace(self.options, limit=least))


def _require_valid(given: Mapping[str, Any]) -> None:
    """Check keywords that are not None, except those that depend on the version."""
    for name in _REFUSED:
        if name in given:
            raise UnsupportedFeatureError(f"{name}: pass a filter with prefilter=True")
    for name in _COUNTS:
        if name in given:
            require_count(name, given[name], 1)
    if given.get("strict_batch_size") and "batch_size_bytes" in given:
        raise InvalidInputError("strict_batch_size and batch_size_bytes contradict each other")
    if given.get("include_deleted_rows") and not given.get("with_row_id"):
        raise InvalidInputError(
            "include_deleted_rows needs with_row_id, which distinguishes deleted rows"
        )
    blobs = given.get("blob_handling", _BLOB_HANDLING[0])
    require_choice("blob_handling", blobs, *_BLOB_HANDLING)
    require_choice("strings_as", given.get("strings_as", TEXT_FORMS[0]), *TEXT_FORMS)
    require_function("scan_stats_callback", given.get("scan_stats_callback"))


def _require_columns(schema: Schema, hint: Any) -> None:
    """Check a hint that may name columns; like the reference, this does not look into structs."""
    if isinstance(hint, bool):
        return
    for name in require_names("late_materialization", hint):
        if name not in schema.by_name and name not in META_COLUMNS:
            schema.field(name.partition(".")[0])


def _projected(
    snapshot: Snapshot, given: Mapping[str, Any], options: ScanOptions, search: Search | None
) -> tuple[tuple[str, ...] | None, Projection | None]:
    """Return what to read for the requested columns, and what to compute from it."""
    columns = given.get("columns")
    if columns is None and search is None:
        return None, None
    shown = materialized(snapshot.schema) if options.with_payloads else snapshot.described
    if search is None:
        return project(columns, shown.arrow)
    from pilum.dataset.searches import projected

    return projected(columns, shown.arrow, search, given)


def _ids_of(fragments: Any) -> tuple[int, ...]:
    try:
        return tuple(item.fragment_id for item in fragments)
    except (AttributeError, TypeError) as error:
        raise InvalidInputError(
            f"fragments: expected those of `get_fragments`, found {fragments!r:.80}"
        ) from error


def _options(snapshot: Snapshot, given: Mapping[str, Any], search: Search | None) -> ScanOptions:
    names = ("filter", "limit", "offset", "batch_size", "fragments")
    filter, limit, offset, batch_size, fragments = map(given.get, names)
    return ScanOptions(
        filter=None if filter is None else _scope(snapshot, search).bind(filter),
        limit=optional_count("limit", limit),
        offset=0 if offset is None else require_count("offset", offset),
        batch_size=optional_count("batch_size", batch_size, 1),
        with_row_id=bool(given.get("with_row_id", False)),
        with_row_address=bool(given.get("with_row_address", False)),
        fragment_ids=None if fragments is None else _ids_of(fragments),
        with_payloads=given.get("blob_handling") == "all_binary",
    )


def _scope(snapshot: Snapshot, search: Search | None) -> Scope:
    """Return the columns that the filter may name; one after a search sees its columns too."""
    if search is None or search.is_prefilter:
        return snapshot.scope
    return scope_of(search.scope(snapshot.described.arrow))


def _search(snapshot: Snapshot, given: Mapping[str, Any], use: IndexUse) -> Search | None:
    if given.keys().isdisjoint(_SEARCHES):
        return None
    from pilum.dataset.searches import search_of  # many processes never search

    return search_of(snapshot, given, use)


def _split_filter(given: dict[str, Any]) -> None:
    """Take the search out of a filter that contains one, as "search_filter"."""
    filter = given.get("filter")
    if filter is None or isinstance(filter, str | pc.Expression):
        return
    from pilum.dataset.search_filters import split_filter  # few filters do

    given["filter"], search = split_filter(filter)
    if search is not None:
        if given.keys().isdisjoint(_SEARCHES):
            raise InvalidInputError(
                f"filter: a {type(search).__name__} filters a search; pass "
                f"{' or '.join(_SEARCHES)}, or {_SEARCHES[1]} in place of the filter"
            )
        given["search_filter"] = search


def _index_use(given: Mapping[str, Any]) -> IndexUse:
    if given.keys().isdisjoint(_INDEX_USE):
        return ANY_INDEX
    segments = given.get("index_segments")
    return IndexUse(
        bool(given.get("use_scalar_index", True)),
        bool(given.get("fast_search", False)),
        None if segments is None else frozenset(map(str, require_list("index_segments", segments))),
    )


def _ordering(found: Any) -> tuple[ColumnOrdering, ...]:
    is_one = isinstance(found, str | ColumnOrdering)
    keys = [found] if is_one else require_list("order_by", found)
    ordering = []
    for key in keys:
        one = ColumnOrdering(key) if isinstance(key, str) else key
        if not isinstance(getattr(one, "column_name", None), str):
            raise InvalidInputError(f"order_by: expected names or ColumnOrdering, found {key!r}")
        ordering.append(one)
    return tuple(ordering)
