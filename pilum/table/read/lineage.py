"""Lineage of rows: their ids, and the versions that created and last changed them.

An operation that rewrites rows preserves their lineage, in the order of the new rows:

    update, merge insert    moved = lineage_of_rows(snapshot, addresses of the rows that moved)
                            new = with_lineage(written, moved and moved.to_update())
    compaction              kept = lineage_of_fragments(snapshot, fragments that are replaced)
                            new = with_lineage(written, kept)
    values in place         in `apply`, for each changed fragment of the new manifest:
                            with_changed_rows(fragment, offsets, manifest.version + 1)

Tables without stable row ids have no lineage (None), and none of this has an effect. Rows after the
moved ones are new and need no lineage: the commit completes all new fragments (`next_version`). It
also records the version of the commit as the last one that changed their rows, unless the fragments
say otherwise. Source: docs/format/table.md, "Row ids".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.format.rows import by_fragment, rows_of
from pilum.table.model.fragment import Fragment
from pilum.table.model.row_id_sequence import RowIdSequence
from pilum.table.model.version_sequence import VersionSequence
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.snapshot import Snapshot

__all__ = [
    "Lineage",
    "lineage_of_fragments",
    "lineage_of_rows",
    "with_changed_rows",
    "with_lineage",
]


@dataclass(frozen=True)
class Lineage:
    """The lineage of some rows: their ids, the versions that created and last changed them.

    `updated_at` is None for the version being committed.
    """

    row_ids: RowIdSequence
    created_at: VersionSequence
    updated_at: VersionSequence | None

    def to_update(self) -> Lineage:
        """Return the lineage of the same rows, changed by the version being committed."""
        return replace(self, updated_at=None)

    def slice(self, start: int, stop: int) -> Lineage:
        """Return the lineage of the rows from `start` to before `stop`."""
        updated_at = self.updated_at and self.updated_at.slice(start, stop)
        return Lineage(
            self.row_ids.slice(start, stop), self.created_at.slice(start, stop), updated_at
        )


def lineage_of_rows(snapshot: Snapshot, addresses: NDArray[np.uint64]) -> Lineage | None:
    """Return the lineage of single rows; None if the table has no stable row ids.

    The addresses are in the order in which the rows are rewritten.
    """
    if not snapshot.has_stable_row_ids:
        return None
    offsets = rows_of(addresses)
    row_ids, created_at, updated_at = np.zeros((3, len(addresses)), dtype=np.uint64)
    for number, here in by_fragment(addresses):
        fragment = snapshot.manifest.fragments.find(number)
        if fragment is None:
            raise InvalidInputError(f"no fragment {number} in version {snapshot.manifest.version}")
        reader = snapshot.reader(fragment)
        rows = offsets[here]
        row_ids[here] = reader.row_ids.at(rows)
        created_at[here] = reader.created_at.at(rows)
        updated_at[here] = reader.updated_at.at(rows)
    return Lineage(
        RowIdSequence.of(row_ids), VersionSequence.of(created_at), VersionSequence.of(updated_at)
    )


def lineage_of_fragments(snapshot: Snapshot, fragments: Iterable[Fragment]) -> Lineage | None:
    """Return the lineage of all rows of some fragments that are not deleted, in order.

    It is None if the table has no stable row ids.
    """
    if not snapshot.has_stable_row_ids:
        return None
    parts = [_left(snapshot.reader(fragment)) for fragment in fragments]
    return Lineage(
        RowIdSequence.concatenate(row_ids for row_ids, _, _ in parts),
        VersionSequence.concatenate(created_at for _, created_at, _ in parts),
        VersionSequence.concatenate(updated_at for _, _, updated_at in parts),
    )


def _left(reader: FragmentReader) -> tuple[RowIdSequence, VersionSequence, VersionSequence]:
    deleted = reader.deletions
    sequences = reader.created_at.without(deleted), reader.updated_at.without(deleted)
    return reader.row_ids.without(deleted), *sequences


def with_changed_rows(
    fragment: Fragment, offsets: NDArray[np.int64] | None, version: int
) -> Fragment:
    """Return a fragment after a version replaced values in place.

    The physical rows `offsets` have new values, in any order; all if None. UnsupportedFeatureError
    is raised if row versions are stored outside of the manifest, and not all change.
    """
    if fragment.row_ids is None:
        return fragment
    num_rows, stored = fragment.physical_rows, fragment.updated_at
    if offsets is None or len(offsets) == num_rows:
        changed = VersionSequence.uniform(num_rows, version)
    elif stored is None:
        changed = VersionSequence.uniform(num_rows, 1).replaced(offsets, version)
    elif isinstance(stored, bytes):
        changed = VersionSequence.from_bytes(stored, num_rows).replaced(offsets, version)
    else:
        raise UnsupportedFeatureError(
            f"fragment {fragment.id}: new values for some rows while the versions of rows are in a "
            "hidden column; compact the table first"
        )
    return replace(fragment, updated_at=changed.to_bytes())


def with_lineage(fragments: Iterable[Fragment], lineage: Lineage | None) -> tuple[Fragment, ...]:
    """Return new fragments with the lineage of their first rows, in order, if it is known."""
    new = tuple(fragments)
    if lineage is None:
        return new
    bounds = np.cumsum([0, *(fragment.physical_rows for fragment in new)]).tolist()
    if len(lineage.row_ids) > bounds[-1]:
        raise InvalidInputError(f"the ids of {len(lineage.row_ids)} rows for {bounds[-1]} new rows")
    return tuple(
        _with(fragment, lineage.slice(start, start + fragment.physical_rows))
        for fragment, start in zip(new, bounds, strict=False)
    )


def _with(fragment: Fragment, lineage: Lineage) -> Fragment:
    if not len(lineage.row_ids):
        return fragment
    return replace(
        fragment,
        row_ids=lineage.row_ids.to_bytes(),
        created_at=lineage.created_at.to_bytes(),
        updated_at=lineage.updated_at.to_bytes() if lineage.updated_at else None,
    )
