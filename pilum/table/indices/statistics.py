"""Statistics of an index: the rows that its segments cover, and the figures of its type.

One of them, its size, grows when `prewarm` loads it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pyroaring import BitMap

from pilum.errors import IndexNotFoundError, UnsupportedFeatureError
from pilum.table.indices.open_segments import open_segment
from pilum.table.indices.optimize import uncovered_fragments
from pilum.table.indices.segments import Segment, named_segments
from pilum.table.model.index_segments import IndexSegment
from pilum.table.read.snapshot import Snapshot

__all__ = ["index_statistics", "prewarm"]


def index_statistics(snapshot: Snapshot, name: str) -> dict[str, Any]:
    """Return the statistics of an index, by the names of the reference.

    Raises:
        IndexNotFoundError: If there is no such index.
        UnsupportedFeatureError: If this library cannot read the index.
        CorruptFileError: If a file of the index is damaged.
    """
    entries, usable = _readable(snapshot, name)
    figures = [open_segment(snapshot, one).index.statistics() for one in usable]
    times = [one.message.created_at for one in entries if one.message.HasField("created_at")]
    uncovered = uncovered_fragments(snapshot, usable)
    covered = BitMap().union(*(one.fragments for one in usable))
    return {
        "index_type": _kind(entries[0], figures),
        "name": name,
        "num_indices": len(entries),
        "num_segments": len(entries),
        "indices": figures,
        "segments": figures,
        "num_indexed_fragments": len(covered),
        "num_indexed_rows": _num_rows(snapshot, covered),
        "num_unindexed_fragments": len(uncovered),
        "num_unindexed_rows": _num_rows(snapshot, uncovered),
        "num_indexed_rows_per_delta": _rows_per_segment(snapshot, usable),
        "updated_at_timestamp_ms": max(times) if len(times) == len(entries) else None,
    }


def prewarm(snapshot: Snapshot, name: str, uuids: Collection[str] | None = None) -> None:
    """Load an index into the cache of the session.

    Args:
        snapshot: The version.
        name: Name of the index.
        uuids: Uuids of the segments to load; None for all.

    Raises:
        IndexNotFoundError: If there is no such index, or no such segment of it.
        UnsupportedFeatureError: If this library cannot read the index.
        CorruptFileError: If a file of the index is damaged.
    """
    _, usable = _readable(snapshot, name)
    if uuids is not None:
        if missing := set(uuids).difference(one.entry.uuid for one in usable):
            raise IndexNotFoundError(f"index {name!r} has no segments {sorted(missing)}")
        usable = [one for one in usable if one.entry.uuid in uuids]
    for segment in usable:
        open_segment(snapshot, segment).prewarm()


def _readable(snapshot: Snapshot, name: str) -> tuple[list[IndexSegment], list[Segment]]:
    entries, usable = named_segments(snapshot, name)
    if len(usable) < len(entries):
        raise UnsupportedFeatureError(
            f"index {name!r}: segments of type {entries[0].kind} cannot be read; "
            "describe_indices() returns what the table records about them"
        )
    return entries, usable


def _kind(entry: IndexSegment, figures: Sequence[Mapping[str, Any]]) -> str:
    """Return the name of the type; that of vector indices is in their files, if they have any."""
    return str(figures[0].get("index_type", "N/A")) if entry.kind == "Vector" else entry.kind


def _rows_per_segment(snapshot: Snapshot, found: Sequence[Segment]) -> list[int]:
    return [_num_rows(snapshot, one.fragments) for one in found]


def _num_rows(snapshot: Snapshot, fragments: BitMap) -> int:
    return sum(one.num_rows for one in snapshot.manifest.fragments if one.id in fragments)
