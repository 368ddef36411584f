"""The rows that new versions of a table add, for readers that follow it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from pilum.dataset.fragment import LanceFragment
from pilum.dataset.lance_dataset import LanceDataset
from pilum.errors import InvalidInputError
from pilum.inspection.history import VersionChange, changes_of
from pilum.table.change_feed import added_step
from pilum.table.read.snapshot import Snapshot

__all__ = ["NewVersion", "last_rows", "new_versions"]


@dataclass(frozen=True, slots=True)
class NewVersion:
    """A new version.

    Attributes:
        change: What its commit changed.
        rows: The rows that it added, with their new values if it changed them.
    """

    change: VersionChange
    rows: Iterator[pa.RecordBatch]


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
            yield NewVersion(change, _added(dataset, change.version, columns))


def _added(
    dataset: LanceDataset, version: int, columns: list[str] | None
) -> Iterator[pa.RecordBatch]:
    snapshot = Snapshot.at(dataset.snapshot.store, version, dataset.snapshot.session)
    opened = LanceDataset.pinned(dataset.uri, dataset.initial_storage_options, snapshot)
    pieces = added_step(snapshot).pieces
    if fragments := [LanceFragment(opened, piece.fragment.id) for piece in pieces]:
        yield from opened.to_batches(columns=columns, fragments=fragments)
