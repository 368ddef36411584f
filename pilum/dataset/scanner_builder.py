"""`ScannerBuilder`: a scan, asked for argument by argument."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, Self

from pilum.arguments import require_dict
from pilum.dataset.projection import Columns
from pilum.dataset.scan import BlobHandling, ColumnOrdering, HasFragmentId, ScanStatistics
from pilum.dataset.scanner import LanceScanner
from pilum.dataset.search_filters import ScanFilter
from pilum.errors import InvalidInputError
from pilum.format.text_forms import TextForm
from pilum.index.minhash.queries import MinHashQuery

__all__ = ["ScannerBuilder"]


class Scannable(Protocol):
    """A dataset, which creates scanners."""

    @property
    def scanner(self) -> Callable[..., LanceScanner]:
        """The method that creates a scanner."""
        ...


class ScannerBuilder:
    """Collects the arguments of `LanceDataset.scanner`; each method sets one of them.

    Args:
        ds: The dataset to scan.
    """

    def __init__(self, ds: Scannable) -> None:
        self._dataset = ds
        self._arguments: dict[str, Any] = {}

    def apply_defaults(self, default_opts: dict[str, Any]) -> Self:
        """Set several arguments at once, by the names of the methods.

        Raises:
            InvalidInputError: If an argument does not exist.
        """
        for name, value in require_dict("default_opts", default_opts).items():
            if name not in _NAMES:
                raise InvalidInputError(f"scans have no argument {name!r}")
            self._set(_NAMES[name], value)
        return self

    def columns(self, cols: Columns | None = None) -> Self:
        """Set the columns: names, or a dict of names and SQL; None for all columns."""
        return self._set("columns", cols)

    def filter(self, filter: ScanFilter) -> Self:
        """Set the filter; see the argument of `LanceDataset.scanner`."""
        return self._set("filter", filter)

    def limit(self, n: int | None = None) -> Self:
        """Set the maximum number of rows."""
        return self._set("limit", n)

    def offset(self, n: int | None = None) -> Self:
        """Set the number of rows to skip."""
        return self._set("offset", n)

    def batch_size(self, batch_size: int) -> Self:
        """Set the maximum number of rows in a batch."""
        return self._set("batch_size", batch_size)

    def batch_size_bytes(self, batch_size_bytes: int) -> Self:
        """Set the approximate maximum size of a batch in bytes."""
        return self._set("batch_size_bytes", batch_size_bytes)

    def strict_batch_size(self, strict_batch_size: bool = False) -> Self:
        """Set whether all batches except the last have exactly `batch_size` rows."""
        return self._set("strict_batch_size", strict_batch_size)

    def order_by(self, orderings: Iterable[ColumnOrdering | str] | None) -> Self:
        """Set the sort keys."""
        return self._set("order_by", orderings)

    def with_fragments(self, fragments: Iterable[HasFragmentId] | None) -> Self:
        """Set the fragments to scan; None for all."""
        return self._set("fragments", fragments)

    def with_row_id(self, with_row_id: bool = True) -> Self:
        """Set whether to add `_rowid`."""
        return self._set("with_row_id", with_row_id)

    def with_row_address(self, with_row_address: bool = True) -> Self:
        """Set whether to add `_rowaddr`."""
        return self._set("with_row_address", with_row_address)

    def include_deleted_rows(self, flag: bool) -> Self:
        """Set whether to include deleted rows that are still stored."""
        return self._set("include_deleted_rows", flag)

    def blob_handling(self, blob_handling: BlobHandling | None) -> Self:
        """Set the form in which blobs are returned."""
        return self._set("blob_handling", blob_handling)

    def strings_as(self, strings_as: TextForm | None) -> Self:
        """Set the form in which strings and bytes are returned."""
        return self._set("strings_as", strings_as)

    def scan_stats_callback(self, callback: Callable[[ScanStatistics], None]) -> Self:
        """Set a function that is called with the statistics at the end of the scan."""
        return self._set("scan_stats_callback", callback)

    def scan_in_order(self, scan_in_order: bool = True) -> Self:
        """Accept a hint without effect; rows are in order in either case."""
        return self._set("scan_in_order", scan_in_order)

    def batch_readahead(self, nbatches: int | None = None) -> Self:
        """Accept a hint without effect."""
        return self._set("batch_readahead", nbatches)

    def fragment_readahead(self, nfragments: int | None = None) -> Self:
        """Accept a hint without effect."""
        return self._set("fragment_readahead", nfragments)

    def io_buffer_size(self, io_buffer_size: int) -> Self:
        """Accept a hint without effect."""
        return self._set("io_buffer_size", io_buffer_size)

    def late_materialization(self, late_materialization: bool | list[str]) -> Self:
        """Accept a hint without effect."""
        return self._set("late_materialization", late_materialization)

    def use_stats(self, use_stats: bool = True) -> Self:
        """Accept a hint without effect."""
        return self._set("use_stats", use_stats)

    def use_scalar_index(self, use_scalar_index: bool = True) -> Self:
        """Set whether indices may be used for the filter."""
        return self._set("use_scalar_index", use_scalar_index)

    def prefilter(self, prefilter: bool) -> Self:
        """Set whether a search looks only at rows that match the filter."""
        return self._set("prefilter", prefilter)

    def disable_scoring_autoprojection(self, disable: bool = True) -> Self:
        """Set whether a search leaves its score or distance out unless it is requested."""
        return self._set("disable_scoring_autoprojection", disable)

    def nearest(self, column: str, q: Any, k: int | None = None, **more: Any) -> Self:
        """Set the vectors that are searched for.

        Args:
            column: Name of the column of vectors, or dotted path of a member of a struct.
            q: The query, or a batch of queries.
            k: Maximum number of rows for each query; 10 if None.
            **more: The other keys of the argument `nearest` of `LanceDataset.scanner`.
        """
        return self._set("nearest", {"column": column, "q": q, "k": k, **more})

    def full_text_search(self, query: Any, columns: list[str] | None = None) -> Self:
        """Set the full-text query: text, or one of `pilum.query`; text may name its columns."""
        return self._set("full_text_query", (query, columns))

    def minhash_search(self, query: MinHashQuery) -> Self:
        """Set the search of the rows whose texts are nearly the same as a text."""
        return self._set("nearest", query)

    def fast_search(self, flag: bool) -> Self:
        """Set whether to leave out rows of fragments that the used indices do not cover."""
        return self._set("fast_search", flag)

    def with_index_segments(self, index_segments: Any) -> Self:
        """Set the uuids of the segments of indices that may be used."""
        return self._set("index_segments", index_segments)

    def row_addr_prefilter(
        self, allowlist: bytes | None = None, blocklist: bytes | None = None
    ) -> Self:
        """Request a row filter for a search, which `to_scanner` rejects."""
        self._set("row_addr_allowlist", allowlist)
        return self._set("row_addr_blocklist", blocklist)

    def to_scanner(self) -> LanceScanner:
        """Create the scanner.

        Raises:
            As `LanceDataset.scanner`.
        """
        return self._dataset.scanner(**self._arguments)

    def _set(self, name: str, value: Any) -> Self:
        self._arguments[name] = value
        return self


_RENAMED = {
    "with_fragments": "fragments",
    "full_text_search": "full_text_query",
    "with_index_segments": "index_segments",
}
_OTHERS = {"apply_defaults", "to_scanner", "minhash_search", "row_addr_prefilter"}
_METHODS = [name for name in vars(ScannerBuilder) if not name.startswith("_")]
_NAMES = {name: _RENAMED.get(name, name) for name in _METHODS if name not in _OTHERS}
_NAMES |= {name: name for name in _RENAMED.values()}
"""The names that `apply_defaults` accepts, and the scan arguments that they set."""
