"""Changes between two versions of a dataset, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from pilum.dataset.operations import Transaction
from pilum.dataset.options import request, require_count
from pilum.dataset.scanner import LanceScanner
from pilum.dataset.transaction_history import TransactionHistory
from pilum.errors import InvalidInputError
from pilum.expressions import bind_ranges
from pilum.table.change_feed.delta import deleted_row_ids
from pilum.table.read.snapshot import Snapshot

__all__ = ["DatasetDelta", "Deltas"]

_CREATED = "_row_created_at_version"
_UPDATED = "_row_last_updated_at_version"
_ROW_ID = "_rowid"
_NO_VERSION = 1 << 63
"""Versions in history are below it."""
_IDS = pa.schema([pa.field(_ROW_ID, pa.uint64())])


class DatasetDelta:
    """What changed behind one version, up to another; made by `LanceDataset.delta`.

    Rows are given as the dataset has them that made this: a row that was changed once more, later,
    counts for that later version only.
    """

    def __init__(self, history: TransactionHistory, begin: int, end: int) -> None:
        self._history = history
        self._snapshot = history.snapshot
        self._begin = begin
        self._end = end

    def list_transactions(self) -> list[Transaction | None]:
        """The transactions of the versions, oldest first.

        Returns:
            None for those that were not kept.

        Raises:
            VersionNotFoundError: If one of the versions is not there (any more).
            UnsupportedFeatureError: If an operation is unknown.
            CorruptFileError: If one is damaged.
        """
        versions = range(self._begin + 1, self._end + 1)
        return [self._history.read_transaction(version) for version in versions]

    def get_inserted_rows(self) -> pa.RecordBatchReader:
        """Read the rows that were added.

        Returns:
            All columns, `_rowid`, `_row_created_at_version` and `_row_last_updated_at_version`.

        Raises:
            InvalidInputError: If the table has no stable row ids, so that nobody can tell.
            CorruptFileError: If a file is damaged.
        """
        return self._rows({_CREATED: _versions(self._begin + 1, self._end)})

    def get_updated_rows(self) -> pa.RecordBatchReader:
        """Read the rows that were there before and have other values now.

        Returns:
            As `get_inserted_rows`.

        Raises:
            As `get_inserted_rows`.
        """
        return self._rows(
            {_CREATED: _versions(0, self._begin), _UPDATED: _versions(self._begin + 1, self._end)}
        )

    def get_deleted_row_ids(self) -> pa.RecordBatchReader:
        """Read the ids of the rows that the first version has and the last one has not.

        Returns:
            One column, `_rowid`.

        Raises:
            InvalidInputError: If the table has no stable row ids, or the versions are in no order.
            VersionNotFoundError: If one of them is not there (any more).
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
        wanted = request(
            self._snapshot,
            columns=[*self._snapshot.schema.names, _ROW_ID, _CREATED, _UPDATED],
            filter=None,
            limit=None,
            offset=None,
            batch_size=None,
            with_row_id=None,
            with_row_address=None,
        )
        filter = bind_ranges(versions, self._snapshot.described.arrow)
        wanted = replace(wanted, options=replace(wanted.options, filter=filter))
        return LanceScanner(self._snapshot, wanted).to_reader()


class Deltas(TransactionHistory):
    """The part of `LanceDataset` for changes between versions."""

    def delta(
        self,
        compared_against: int | None = None,
        *,
        begin_version: int | None = None,
        end_version: int | None = None,
    ) -> DatasetDelta:
        """Compare two versions.

        Args:
            compared_against: The version to begin behind, and to end with that of this dataset.
            begin_version: Instead, the version to begin behind; 0 for all of the history.
            end_version: With `begin_version`: the version to end with.

        Returns:
            What can be asked for changes; nothing is read yet.

        Raises:
            InvalidInputError: If neither one version nor a range of them is given.
        """
        if (begin_version is None) != (end_version is None):
            raise InvalidInputError("begin_version and end_version: pass both or none")
        if (compared_against is None) == (begin_version is None):
            raise InvalidInputError("pass either compared_against or begin_version and end_version")
        if compared_against is not None:
            begin, end = compared_against, self._snapshot.manifest.version
            return DatasetDelta(self, require_count("compared_against", begin), end)
        return DatasetDelta(
            self,
            require_count("begin_version", begin_version),
            require_count("end_version", end_version),
        )


def _versions(first: int, last: int) -> range:
    return range(min(first, _NO_VERSION), min(last + 1, _NO_VERSION))


def _require_ids(snapshot: Snapshot) -> None:
    if not snapshot.has_stable_row_ids:
        raise InvalidInputError(
            f"{snapshot.store.uri}, version {snapshot.manifest.version} has no stable row ids, so "
            "nobody can tell which rows changed; tables have them if they are made with "
            "enable_stable_row_ids=True"
        )


def _batches(older: Snapshot, newer: Snapshot) -> Iterator[pa.RecordBatch]:
    for ids in deleted_row_ids(older, newer):
        yield pa.record_batch([pa.array(ids)], schema=_IDS)
