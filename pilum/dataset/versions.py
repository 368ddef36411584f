"""The history of a table, and travelling in it."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any, Self, TypedDict

from pilum.dataset.base import DatasetBase, require_version
from pilum.errors import InvalidInputError
from pilum.table.snapshot import Snapshot
from pilum.table.versions import list_manifests, list_versions

__all__ = ["Version", "Versions", "moment"]


class Version(TypedDict):
    """One version in the history; the timestamp is local time without a zone."""

    version: int
    timestamp: datetime
    metadata: dict[str, str]


class Versions(DatasetBase):
    """Chapter of `LanceDataset`: versions."""

    @property
    def version(self) -> int:
        """Number of the pinned version."""
        return self._snapshot.manifest.version

    @property
    def latest_version(self) -> int:
        """Number of the newest version of the table, looked up now."""
        names = list_manifests(self._snapshot.store)
        return names[-1].version if names else self.version

    def versions(self) -> list[Version]:
        """Describes all versions, oldest first."""
        return [
            Version(version=info.version, timestamp=_local(info.timestamp), metadata=info.metadata)
            for info in list_versions(self._snapshot.store)
        ]

    def get_version(self) -> Version:
        """Describes the pinned version."""
        return next(found for found in self.versions() if found["version"] == self.version)

    def checkout_version(self, version: int) -> Self:
        """Opens another version of the table; this dataset stays where it is.

        Raises:
            VersionNotFoundError: If there is no such version.
        """
        number = require_version(version)
        snapshot = Snapshot.at(self._snapshot.store, number, self._snapshot.session)
        return self.pinned(self._uri, self._storage_options, snapshot)

    def checkout_latest(self) -> None:
        """Moves this dataset to the newest version."""
        self._snapshot = Snapshot.latest(self._snapshot.store, self._snapshot.session)


def moment(asof: Any) -> datetime:
    """Reads a point in time.

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


def _local(timestamp: datetime) -> datetime:
    return timestamp.astimezone().replace(tzinfo=None)
