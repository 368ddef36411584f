"""Use indices for the filter of a scan, as far as this is faster than a scan.

The implementation is imported with the first filter on a table that has an index.
"""

from __future__ import annotations

from pilum.table.indices.index_use import ANY_INDEX, IndexUse
from pilum.table.read.scan import ScanOptions
from pilum.table.read.snapshot import Snapshot

__all__ = ["with_selection"]


def with_selection(
    snapshot: Snapshot, options: ScanOptions, use: IndexUse = ANY_INDEX
) -> ScanOptions:
    """Return the options of a scan with the rows that indices found for its filter.

    They do not change if no index can be used, or if a scan is estimated to be faster. An index
    that proves damaged is not used, and a warning names it.

    Args:
        snapshot: The version.
        options: The options of the scan.
        use: Which indices it may use.

    Raises:
        CorruptFileError: If the entries of indices in the manifest are damaged.
    """
    if options.filter is None or not (use.is_allowed and snapshot.manifest.index_section):
        return options
    from pilum.table.indices.selecting import selection_of

    selection = selection_of(snapshot, options, use)
    return options if selection is None else options.with_selection(selection)
