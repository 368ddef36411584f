"""Marks: which table a version belongs to.

Two tables can be at one place, one after the other.

    {"version": 6, "timestamp_ns": 1763…, "transaction": "5-3b0c….txn"}

A table that was dropped and created again has versions of the same numbers, but no version of the
same transaction. Source: docs/spark.md, "Following a table".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pilum.errors import InvalidInputError, VersionNotFoundError
from pilum.storage.base import Store
from pilum.table.model.manifest import Manifest
from pilum.table.versions.history import list_manifests, load_named, load_version

__all__ = ["Mark"]


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark of a version, which differs from the mark of the same version of another table.

    Attributes:
        version: Number of the version.
        timestamp_ns: When it was committed, nanoseconds since 1970 (UTC).
        transaction: Name of the file of its transaction; empty if the writer kept none.
    """

    version: int
    timestamp_ns: int
    transaction: str

    @classmethod
    def of(cls, manifest: Manifest) -> Mark:
        """Return the mark of a version."""
        return cls(manifest.version, manifest.timestamp_ns, manifest.transaction_file)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Mark:
        """Read what `to_json` wrote.

        Raises:
            KeyError, TypeError, ValueError: If it is something else.
        """
        version, timestamp = int(values["version"]), int(values["timestamp_ns"])
        return cls(version, timestamp, str(values["transaction"]))

    def to_json(self) -> dict[str, Any]:
        """Return the mark as values of JSON."""
        return asdict(self)

    def require(self, manifest: Manifest, uri: str) -> None:
        """Check that a version of the same number belongs to the same table.

        Raises:
            InvalidInputError: If the version is of another table.
        """
        if Mark.of(manifest) != self:
            raise _other_table(uri, self.version)

    def require_in(self, store: Store, latest: Manifest) -> None:
        """Check that the table is the one of the mark.

        If the version was cleaned up, the older versions that are left must have earlier
        timestamps. If there are none, the check passes.

        Args:
            store: Where the table is.
            latest: Its newest version.

        Raises:
            InvalidInputError: If the table is another one.
        """
        if self.version > latest.version:
            raise InvalidInputError(
                f"{store.uri} has versions up to {latest.version}, and the stream has come to "
                f"version {self.version}: the table was dropped and made again. {_ADVICE}"
            )
        if self.version == latest.version:
            self.require(latest, store.uri)
            return
        try:
            self.require(load_version(store, self.version), store.uri)
        except VersionNotFoundError as error:
            older = [name for name in list_manifests(store) if name.version < self.version]
            if older and load_named(store, older[-1]).timestamp_ns > self.timestamp_ns:
                raise _other_table(store.uri, self.version) from error


_ADVICE = (
    "Begin with a new checkpoint, which reads the rows of the new table; if they are to replace "
    "those of the old one, empty the target first"
)


def _other_table(uri: str, version: int) -> InvalidInputError:
    return InvalidInputError(
        f"{uri}: version {version} is not the one that the stream has read: the table was dropped "
        f"and made again. {_ADVICE}"
    )
