"""The version history of a table, and time travel."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any, Self, TypedDict

from pilum.dataset.base import DatasetBase
from pilum.dataset.commits import publish
from pilum.errors import InvalidInputError
from pilum.table.commit.jobs import AppCommit, last_commit
from pilum.table.commit.operations.restore import Restore
from pilum.table.commit.transaction import Transaction
from pilum.table.read.snapshot import Snapshot
from pilum.table.refs.references import Reference, locate
from pilum.table.versions.history import (
    VersionInfo,
    describe_version,
    latest_manifest,
    list_manifests,
    list_versions,
)
from pilum.table.versions.migration import migrate_to_v2_names

__all__ = ["Version", "VersionRef", "Versions", "moment"]


class Version(TypedDict):
    """A version in the history; the timestamp is local time without a time zone."""

    version: int
    timestamp: datetime
    metadata: dict[str, str]


class VersionRef(TypedDict):
    """The number of a version, without the facts that require its manifest."""

    version: int


class Versions(DatasetBase):
    """Methods of `LanceDataset` for versions."""

    @property
    def version(self) -> int:
        """The number of the pinned version."""
        return self._snapshot.manifest.version

    @property
    def latest_version(self) -> int:
        """The number of the newest version of the table; each access looks it up."""
        name = latest_manifest(self._snapshot.store)
        return name.version if name else self.version

    def last_commit(self, app_id: str) -> AppCommit | None:
        """Look up the last commit of an application to the table.

        Args:
            app_id: The first part of the `idempotency_key` of its commits.

        Returns:
            Its number and the version that contains it; None if the newest version records none.

        Raises:
            CorruptFileError: If the config of the table contradicts the format.
        """
        return last_commit(Snapshot.latest(self._snapshot.store).manifest.config, app_id)

    def versions(self) -> list[Version]:
        """Return descriptions of all versions, oldest first."""
        return list(map(_shown, list_versions(self._snapshot.store)))

    def version_refs(self) -> list[VersionRef]:
        """Return the numbers of all versions, oldest first, without reading manifests."""
        names = list_manifests(self._snapshot.store)
        return [VersionRef(version=name.version) for name in names]

    def get_version(self) -> Version:
        """Return a description of the pinned version."""
        return _shown(describe_version(self._snapshot.store, self.version))

    def checkout_version(self, version: Reference) -> Self:
        """Open another version of the table; this dataset does not change.

        Args:
            version: Number of a version on the branch of this dataset, the name of a tag, or
                `(branch, number)`, where None means the main branch or the newest version.

        Raises:
            VersionNotFoundError: If the version does not exist.
            TagNotFoundError: If the tag does not exist.
            BranchNotFoundError: If the branch does not exist.
        """
        found = locate(self._snapshot.line, version)
        snapshot = Snapshot.at(found.line.store, found.version, self._snapshot.session)
        return self._on_line(snapshot)

    def checkout_latest(self) -> None:
        """Move this dataset to the newest version of its branch."""
        self._snapshot = Snapshot.latest(self._snapshot.store, self._snapshot.session)

    def migrate_manifest_paths_v2(self) -> None:
        """Rename the manifests of an old table to the V2 naming scheme; idempotent.

        With V2 names, opening a table takes constant time regardless of the number of versions. No
        one may write to the table concurrently. After an interruption, call this method again.

        Raises:
            UnsupportedFeatureError: If an external manifest store holds the older names.
        """
        migrate_to_v2_names(self._snapshot.store)

    def restore(self) -> None:
        """Restore the pinned version as the newest one and move this dataset to it.

        Schema, rows, config and metadata are restored; the versions in between are kept.

        Raises:
            VersionNotFoundError: If the pinned version was removed concurrently.
            CommitConflictError: If a concurrent commit changed metadata of columns.
            CommitContentionError: If every attempt lost to a concurrent commit.
            UnsupportedFeatureError: If a restore would lose something of this version or of the
                newest one.
        """
        store = self._snapshot.store
        transaction = Transaction(self.latest_version, Restore(self.version))
        self._move_to(publish(store, transaction))


def moment(asof: Any) -> datetime:
    """Parse a point in time.

    Args:
        asof: A datetime, a date (its first moment) or ISO 8601 text; local time unless it has a
            zone.

    Raises:
        InvalidInputError: If it is none of these.
    """
    if isinstance(asof, datetime):
        return asof
    if isinstance(asof, date):
        return datetime.combine(asof, time.min)
    try:
        return datetime.fromisoformat(asof)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"asof: expected a datetime, a date or ISO 8601 text, found {asof!r}"
        ) from error


def _shown(info: VersionInfo) -> Version:
    return Version(version=info.version, timestamp=_local(info.timestamp), metadata=info.metadata)


def _local(timestamp: datetime) -> datetime:
    return timestamp.astimezone().replace(tzinfo=None)
