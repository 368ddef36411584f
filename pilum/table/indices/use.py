"""Use indices for the filter of a scan, as far as this is faster than a scan.

The implementation is imported with the first filter on a table that has an index.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pilum.table.read.scan import ScanOptions
from pilum.table.read.snapshot import Snapshot

__all__ = ["ANY_INDEX", "IndexUse", "with_selection"]


@dataclass(frozen=True)
class IndexUse:
    """Restrictions on the use of indices by a scan.

    Attributes:
        is_allowed: Whether it may use any.
        only_covered: Whether rows of fragments that the used indices do not cover are left out.
        segments: Uuids of the segments that may be used; None for all.
        only_counts: Whether the rows are counted and not read.
    """

    is_allowed: bool = True
    only_covered: bool = False
    segments: frozenset[str] | None = None
    only_counts: bool = False


ANY_INDEX = IndexUse()


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
    return options if selection is None else replace(options, selection=selection)
