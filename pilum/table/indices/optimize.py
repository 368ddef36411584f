"""Optimization of indices: fragments that no segment covers are added, and segments are merged.

    segments of one name, oldest first     a b c     fragments that none of them covers: 7 8

    merge None     a b [c 7 8]     unchanged if there are no such fragments
    merge 0        a b c [7 8]
    merge 2        a [b c 7 8]
    retrain        [all rows]      with the parameters of c; models are trained again

If merge is None and a partition of an index would become much too large, the index is balanced: all
rows are written again, in more partitions.

If compactions recorded where rows went, and merge is None, all segments from the first one with
such rows on are merged, so that the record is not needed any more. It is kept if another index,
which this library cannot rewrite, needs it.

A newest segment that covers nothing, such as a definition, is replaced by merge 0 too.

Rows of fragments that no longer exist, or that a segment does not cover any more, are left out of
merged segments. Source: docs/format/indices.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from pyroaring import BitMap

from pilum.arguments import require_names
from pilum.errors import UnsupportedFeatureError
from pilum.table.indices.build import (
    NewIndex,
    Rewrite,
    discard_segments,
    ignore_rows,
    merge_segments,
    without_rows,
)
from pilum.table.indices.moved_rows import segments_that_move
from pilum.table.indices.open_segments import open_segment
from pilum.table.indices.rows import OnRows, existing_fragments
from pilum.table.indices.segments import Segment, column_of, named_segments
from pilum.table.model.index_segments import IndexSegment, index_segments, is_system_index
from pilum.table.read.snapshot import Snapshot

__all__ = ["MergePlan", "plan_optimization", "run_optimization", "uncovered_fragments"]


@dataclass(frozen=True)
class MergePlan:
    """One new segment of an index.

    Attributes:
        segments: All usable segments of the index, oldest first.
        num_merged: The number of segments, from the newest on, that the new one replaces.
        fragments: Fragments whose rows are read.
        rewrites: How the rows of the merged segments are read from the table too; None if they are
            not.
    """

    segments: Sequence[Segment]
    num_merged: int
    fragments: BitMap
    rewrites: Rewrite | None = None

    @property
    def merged(self) -> list[Segment]:
        """The segments that the new one replaces."""
        return list(self.segments[len(self.segments) - self.num_merged :])


def plan_optimization(
    snapshot: Snapshot, names: Collection[str] | None, num_to_merge: int | None, *, retrain: bool
) -> list[MergePlan]:
    """Plan which segments to merge.

    Args:
        snapshot: The version.
        names: Names of indices; None for all that this library can read.
        num_to_merge: Number of segments to merge, from the newest on; None for the newest one of
            each index with fragments that are not covered.
        retrain: Whether to build the indices again from the table.

    Raises:
        IndexNotFoundError: If there is no index of a name.
        UnsupportedFeatureError: If this library cannot read an index that is named.
        CorruptFileError: If an entry of the manifest is damaged.
    """
    wanted = list(_wanted(snapshot, names))
    moving: frozenset[str] = frozenset()
    if names is None and num_to_merge is None:
        moving = segments_that_move(snapshot)
        if not moving <= {one.entry.uuid for found in wanted for one in found}:
            moving = frozenset()  # others need the moves in any case
    plans = (_plan(snapshot, found, num_to_merge, moving, retrain=retrain) for found in wanted)
    return [plan for plan in plans if plan is not None]


def run_optimization(
    snapshot: Snapshot,
    plans: Sequence[MergePlan],
    on_rows: OnRows = ignore_rows,
    uuids: Iterable[UUID] | None = None,
) -> list[IndexSegment]:
    """Write the segments of plans and return them, to be committed.

    Args:
        snapshot: The version.
        plans: The plans.
        on_rows: Called while rows are read, with their number.
        uuids: Names of the folders of the segments; None for new ones.

    Raises:
        CorruptFileError: If a file is damaged. After any exception, no file is left.
    """
    new: list[IndexSegment] = []
    names = iter(uuid4, None) if uuids is None else uuids
    try:
        for plan, uuid in zip(plans, names, strict=False):
            new.append(_run(snapshot, plan, on_rows, uuid))
    except BaseException:
        discard_segments(snapshot, new)
        raise
    return new


def uncovered_fragments(snapshot: Snapshot, found: Sequence[Segment]) -> BitMap:
    """Return the existing fragments that none of some segments covers."""
    covered: BitMap = BitMap().union(*(segment.fragments for segment in found))
    return existing_fragments(snapshot) - covered


def _plan(
    snapshot: Snapshot,
    found: Sequence[Segment],
    num_to_merge: int | None,
    moving: Collection[str],
    *,
    retrain: bool,
) -> MergePlan | None:
    if retrain:
        return MergePlan(found, len(found), existing_fragments(snapshot), Rewrite.RETRAINED)
    fragments = uncovered_fragments(snapshot, found)
    if num_to_merge is None and fragments and _has_outgrown(snapshot, found, fragments):
        return MergePlan(found, len(found), existing_fragments(snapshot), Rewrite.BALANCED)
    least = 0 if found[-1].fragments else 1  # a definition is replaced by what is built of it
    count = min(1 if num_to_merge is None else max(num_to_merge, least), len(found))
    places = [place for place, one in enumerate(found) if one.entry.uuid in moving]
    if places:
        return MergePlan(found, max(count, len(found) - places[0]), fragments)
    return MergePlan(found, count, fragments) if fragments or count > 1 else None


def _has_outgrown(snapshot: Snapshot, found: Sequence[Segment], fragments: BitMap) -> bool:
    """Return whether an index is to be balanced when the rows of fragments are added."""
    if not found[-1].type.has_partitions:
        return False
    indices = [open_segment(snapshot, one).index for one in found]
    added = (one.num_rows for one in snapshot.manifest.fragments if one.id in fragments)
    return found[-1].type.has_outgrown(indices, sum(added))


def _run(snapshot: Snapshot, plan: MergePlan, on_rows: OnRows, uuid: UUID) -> IndexSegment:
    newest = plan.segments[-1]
    path = column_of(snapshot, newest)
    merged = [open_segment(snapshot, one) for one in plan.merged or [newest]]
    fragments = plan.fragments
    if plan.rewrites or not plan.num_merged:  # only the parameters of the newest one matter
        merged = [without_rows(merged[-1])]
    else:
        for one in merged:
            fragments = fragments | (one.fragments - one.lasting_fragments)
    dataset_version = snapshot.manifest.version
    # With overlays, it says which of them the index has: all, as others were not covered before.
    if plan.rewrites is None and not snapshot.manifest.fragments.overlaid:
        versions = (one.entry.dataset_version for one in plan.merged)
        dataset_version = min(versions, default=dataset_version)
    new = NewIndex(newest.name, path, newest.type, dataset_version, uuid, on_rows)
    return merge_segments(snapshot, new, merged, fragments, rewrites=plan.rewrites)


def _wanted(snapshot: Snapshot, names: Collection[str] | None) -> Iterator[Sequence[Segment]]:
    """Yield the segments of the indices to optimize."""
    entries = index_segments(snapshot.manifest.index_section)
    all_names = {one.name: None for one in entries if not is_system_index(one.message)}
    for name in all_names if names is None else require_names("index_names", names):
        found, usable = named_segments(snapshot, name)
        if len(found) == len(usable):
            yield usable
        elif names is not None:
            raise UnsupportedFeatureError(
                f"{snapshot.store.uri}: index {name!r} of type {found[0].kind} cannot be changed"
            )
