"""Row-level changes between two versions of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from pilum.dataset.forms import Transaction
from pilum.dataset.scan import Scan
from pilum.dataset.scanner import LanceScanner
from pilum.errors import InvalidInputError
from pilum.expressions import bind_ranges
from pilum.format.meta_columns import CREATED_AT_VERSION, ROW_ID, UPDATED_AT_VERSION
from pilum.table.change_feed import deleted_row_ids
from pilum.table.read.scan import ScanOptions
from pilum.table.read.snapshot import Snapshot

__all__ = ["ChangeCounts", "DatasetDelta", "count_changes"]

_NO_VERSION = 1 << 63
"""Upper bound (exclusive) of version numbers in the history."""
_IDS = pa.schema([pa.field(ROW_ID, pa.uint64())])


class DatasetDelta:
    """The changes after one version, up to another; created by `LanceDataset.delta`.

    Rows are returned as they are in the dataset that created this object: a row that changed again
    later is reported for the later version only.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        transaction_of: Callable[[int], Transaction | None],
        begin: int,
        end: int,
    ) -> None:
        self._snapshot = snapshot
        self._transaction_of = transaction_of
        self._begin = begin
        self._end = end

    def list_transactions(self) -> list[Transaction | None]:
        """Return the transactions of the versions, oldest first.

        Returns:
            One item per version; None if its transaction was not kept.

        Raises:
            VersionNotFoundError: If one of the versions does not exist (any more).
            UnsupportedFeatureError: If an operation is unknown.
            CorruptFileError: If a transaction is damaged.
        """
        versions = range(self._begin + 1, self._end + 1)
        return [self._transaction_of(version) for version in versions]

    def get_inserted_rows(self) -> pa.RecordBatchReader:
        """Read the rows that were added.

        Returns:
            All columns, and `_rowid`, `_row_created_at_version` and `_row_last_updated_at_version`.

        Raises:
            InvalidInputError: If the table has no stable row ids, which are needed to detect the
                changes.
            CorruptFileError: If a file is damaged.
        """
        return self._rows({CREATED_AT_VERSION: _versions(self._begin + 1, self._end)})

    def get_updated_rows(self) -> pa.RecordBatchReader:
        """Read the rows that existed before and whose values changed.

        Returns:
            As `get_inserted_rows`.

        Raises:
            As `get_inserted_rows`.
        """
        return self._rows(
            {
                CREATED_AT_VERSION: _versions(0, self._begin),
                UPDATED_AT_VERSION: _versions(self._begin + 1, self._end),
            }
        )

    def get_deleted_row_ids(self) -> pa.RecordBatchReader:
        """Read the ids of the rows that exist in the first version but not in the last one.

        Returns:
            One column, `_rowid`.

        Raises:
            InvalidInputError: If the table has no stable row ids, or the versions are not in order.
            VersionNotFoundError: If one of the versions does not exist (any more).
            CorruptFileError: If row ids are damaged.
        """
        if self._begin > self._end:
            raise InvalidInputError(
                f"begin_version: version {self._begin} is later than {self._end}"
            )
        if self._begin == 0:  # before the first version there were no rows
            return pa.RecordBatchReader.from_batches(_IDS, [])
        snapshot = self._snapshot
        older = Snapshot.at(snapshot.store, self._begin, snapshot.session)
        newer = Snapshot.at(snapshot.store, self._end, snapshot.session)
        for version in (older, newer):
            _require_ids(version)
        return pa.RecordBatchReader.from_batches(_IDS, _batches(older, newer))

    def _rows(self, versions: Mapping[str, range]) -> pa.RecordBatchReader:
        _require_ids(self._snapshot)
        names = (*self._snapshot.schema.names, ROW_ID, CREATED_AT_VERSION, UPDATED_AT_VERSION)
        return _scanner(self._snapshot, names, versions).to_reader()


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """The numbers of rows that were inserted, updated and deleted between two versions."""

    inserted: int
    updated: int
    deleted: int


def count_changes(older: Snapshot, newer: Snapshot) -> ChangeCounts:
    """Count the changes between two versions of a line of history, with stable row ids.

    Only ids and versions of rows are read, no columns.

    Raises:
        InvalidInputError: If the table has no stable row ids.
        CorruptFileError: If row ids are damaged.
    """
    for snapshot in (older, newer):
        _require_ids(snapshot)
    begin, end = older.manifest.version, newer.manifest.version
    during, before = _versions(begin + 1, end), _versions(0, begin)
    updated = {CREATED_AT_VERSION: before, UPDATED_AT_VERSION: during}
    return ChangeCounts(
        _scanner(newer, (ROW_ID,), {CREATED_AT_VERSION: during}).count_rows(),
        _scanner(newer, (ROW_ID,), updated).count_rows(),
        sum(map(len, deleted_row_ids(older, newer))),
    )


def _scanner(
    snapshot: Snapshot, names: tuple[str, ...], versions: Mapping[str, range]
) -> LanceScanner:
    filter = bind_ranges(versions, snapshot.described.arrow)
    return LanceScanner(snapshot, Scan(ScanOptions(names, filter)))


def _versions(first: int, last: int) -> range:
    return range(min(first, _NO_VERSION), min(last + 1, _NO_VERSION))


def _require_ids(snapshot: Snapshot) -> None:
    if not snapshot.has_stable_row_ids:
        raise InvalidInputError(
            f"{snapshot.store.uri}, version {snapshot.manifest.version} has no stable row ids, so "
            "it is unknown which rows changed; tables have them if they are created with "
            "enable_stable_row_ids=True"
        )


def _batches(older: Snapshot, newer: Snapshot) -> Iterator[pa.RecordBatch]:
    for ids in deleted_row_ids(older, newer):
        yield pa.record_batch([pa.array(ids)], schema=_IDS)
