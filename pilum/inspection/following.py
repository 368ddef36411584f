"""The rows that new versions of a table add and delete, for readers that follow it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from pilum.dataset.fragment import LanceFragment
from pilum.dataset.lance_dataset import LanceDataset
from pilum.errors import InvalidInputError
from pilum.inspection.history import VersionChange, changes_of
from pilum.table.change_feed import added_step, rows_of_delete
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import take_addresses

_BATCH_ROWS = 8192

__all__ = ["NewVersion", "last_rows", "new_versions"]


@dataclass(frozen=True, slots=True)
class NewVersion:
    """A new version.

    Attributes:
        change: What its commit changed.
        rows: The rows that it added, with their new values if it changed them.
        deleted: The rows that it deleted.
    """

    change: VersionChange
    rows: Iterator[pa.RecordBatch]
    deleted: Iterator[pa.RecordBatch]


def last_rows(
    dataset: LanceDataset, num_rows: int, columns: list[str] | None
) -> Iterator[pa.RecordBatch]:
    """Read the last rows of a version."""
    skipped = max(dataset.count_rows() - num_rows, 0)
    return iter(dataset.to_batches(columns=columns, offset=skipped, limit=num_rows))


def new_versions(
    dataset: LanceDataset, after: int, columns: list[str] | None
) -> Iterator[NewVersion]:
    """Yield the versions after one, oldest first; nothing if there are none.

    Versions that were cleaned up before they were read are left out.

    Raises:
        InvalidInputError: If the newest version is older: the table was dropped and created again.
    """
    latest = dataset.latest_version
    if latest < after:
        raise InvalidInputError(
            f"{dataset.uri}: the newest version is {latest}, after version {after}: the table was "
            "dropped and created again"
        )
    if latest == after:
        return
    for change in changes_of(dataset, since=after):
        if not change.fault:
            snapshot = Snapshot.at(dataset.snapshot.store, change.version, dataset.snapshot.session)
            yield NewVersion(
                change, _added(dataset, snapshot, columns), _deleted(snapshot, columns)
            )


def _deleted(snapshot: Snapshot, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
    for before, addresses in rows_of_delete(snapshot):
        for start in range(0, len(addresses), _BATCH_ROWS):
            part = addresses[start : start + _BATCH_ROWS]
            yield from take_addresses(before, part, columns).to_batches()


def _added(
    dataset: LanceDataset, snapshot: Snapshot, columns: list[str] | None
) -> Iterator[pa.RecordBatch]:
    opened = LanceDataset.pinned(dataset.uri, dataset.initial_storage_options, snapshot)
    pieces = added_step(snapshot).pieces
    if fragments := [LanceFragment(opened, piece.fragment.id) for piece in pieces]:
        yield from opened.to_batches(columns=columns, fragments=fragments)
