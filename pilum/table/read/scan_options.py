"""The options of a scan: which rows and columns it reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pilum.format.text_forms import TextForm
from pilum.table.read.selection import Selection

if TYPE_CHECKING:
    from pilum.expressions.filter import BoundFilter

__all__ = ["ScanOptions"]

_TABLE_WINDOW_BYTES = 256 * 1024 * 1024
"""Windows of a whole table. A page is read once for each window that it is in."""
_FOUND_WINDOW_BYTES = 64 * 1024 * 1024
"""The same with a filter, also to count rows: more is read than kept."""


@dataclass(frozen=True)
class ScanOptions:
    """Options of a scan.

    Attributes:
        columns: Names of top-level columns, dotted paths of struct members, or names of
            `pilum.format.meta_columns`, in the order of the result; None for all columns.
        filter: Predicate that selects rows.
        selection: The rows that can match the filter, as far as indices found them.
        limit: Maximum number of rows, counted after the filter; None for all.
        offset: Number of rows to skip, counted after the filter.
        batch_size: Rows per batch; None for 8,192.
        with_row_id: Whether to add `_rowid` after the columns.
        with_row_address: Whether to add `_rowaddr` after the columns.
        fragment_ids: Ids of the fragments to read; None for all.
        row_range: Physical rows (first, end) of the single fragment to read, without the end;
            deleted rows are omitted.
        with_payloads: Whether blob columns return payloads; otherwise they return descriptors.
        window_bytes: Approximate size of the rows that are read together; None for 32 MiB, or more
            for a table, which is in memory as a whole. A few times this size is in memory.
        form: The form of strings and bytes, only of a scan without filter and payloads; None for
            that of the table.
    """

    columns: tuple[str, ...] | None = None
    filter: BoundFilter | None = None
    selection: Selection | None = None
    limit: int | None = None
    offset: int = 0
    batch_size: int | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    fragment_ids: tuple[int, ...] | None = None
    row_range: tuple[int, int] | None = None
    with_payloads: bool = False
    window_bytes: int | None = None
    form: TextForm | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all rows that match the filter are read, from any fragment."""
        is_limited = self.limit is not None or self.offset > 0 or self.with_payloads
        return not is_limited and self.fragment_ids is None and self.row_range is None

    def with_columns(self, names: tuple[str, ...]) -> ScanOptions:
        """Return the options with other columns."""
        return self._with(columns=names)

    def with_filter(self, filter: BoundFilter) -> ScanOptions:
        """Return the options with another filter, and no selection."""
        return self._with(filter=filter, selection=None)

    def with_selection(self, selection: Selection | None) -> ScanOptions:
        """Return the options with another selection."""
        return self._with(selection=selection)

    def for_table(self) -> ScanOptions:
        """Return the options with large windows, for a result that is in memory as a whole."""
        if self.window_bytes is not None:
            return self
        size = _TABLE_WINDOW_BYTES if self.filter is None else _FOUND_WINDOW_BYTES
        return self._with(window_bytes=size)

    def for_addresses(self) -> ScanOptions:
        """Return options that read only addresses: without columns, tables lose their rows."""
        return self._with(columns=(), with_row_address=True, with_payloads=False)

    def _with(self, **changes: Any) -> ScanOptions:
        changed = object.__new__(ScanOptions)  # as `dataclasses.replace`, which takes longer
        changed.__dict__.update(self.__dict__, **changes)
        return changed
