"""Versions of a table: history, transactions, time travel, restores, tags, branches and clones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from typing import Any, Self, TypedDict

from pilum.arguments import MOST_UNSIGNED, require_count, require_function
from pilum.dataset.base import DatasetBase, publish, store_of
from pilum.dataset.delta import DatasetDelta
from pilum.dataset.forms import Transaction
from pilum.dataset.refs import Branches, Tags
from pilum.errors import (
    InvalidInputError,
    NotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from pilum.storage.base import Store
from pilum.storage.open import Location
from pilum.table.commit import transaction
from pilum.table.commit.jobs import AppCommit, last_commit
from pilum.table.commit.operations.restore import Restore
from pilum.table.commit.transaction import load_transaction
from pilum.table.model.manifest import Manifest
from pilum.table.model.names import is_detached
from pilum.table.read.snapshot import Snapshot
from pilum.table.refs import branches, clone
from pilum.table.refs.clone import CopyProgress
from pilum.table.refs.references import Reference, locate
from pilum.table.versions.commit_handler import latest_manifest, list_manifests, open_table
from pilum.table.versions.history import (
    VersionInfo,
    describe_version,
    list_versions,
    manifest_place,
    migrate_to_v2_names,
)

__all__ = [
    "Version",
    "VersionList",
    "VersionRef",
    "Versions",
    "moment",
    "snapshot_at",
    "td_to_micros",
]


class Version(TypedDict):
    """A version in the history; the timestamp is local time without a time zone."""

    version: int
    timestamp: datetime
    metadata: dict[str, str]


class VersionList(list[Version]):
    """The versions of a table, oldest first."""

    def _repr_html_(self) -> str:
        from pilum.pictures.history import Change, History, Step
        from pilum.pictures.history_svg import history_svg

        steps, rows = list[Step](), 0
        for one in self:
            if (recorded := one["metadata"].get("total_rows")) is not None:
                now = int(recorded)
                change = Change.ADDED if now > rows else Change.REMOVED
                change = Change.OTHER if now == rows else change
                steps.append(Step(one["version"], now, change, "", one["timestamp"]))
                rows = now
        return history_svg(History(f"{len(self):,} versions", steps), has_ground=False)


class VersionRef(TypedDict):
    """The number of a version, without the facts that require its manifest."""

    version: int


class Versions(DatasetBase):
    """Methods of `LanceDataset` for versions, their tags and branches, and clones of them."""

    @property
    def version(self) -> int:
        """The number of the pinned version."""
        return self._snapshot.manifest.version

    @property
    def latest_version(self) -> int:
        """The number of the newest version of the table; each access looks it up."""
        snapshot = self._snapshot
        name = latest_manifest(snapshot.store)
        return name.version if name else snapshot.manifest.version

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
        """Return descriptions of all versions, oldest first; a notebook draws them."""
        return VersionList(map(_shown, list_versions(self._snapshot.store)))

    def version_refs(self) -> list[VersionRef]:
        """Return the numbers of all versions, oldest first, without reading manifests."""
        names = list_manifests(self._snapshot.store)
        return [VersionRef(version=name.version) for name in names]

    def get_version(self) -> Version:
        """Return a description of the pinned version."""
        snapshot = self._snapshot
        return _shown(describe_version(snapshot.store, snapshot.manifest.version))

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
        return self._on_line(snapshot_at(self._snapshot, version))

    def checkout_latest(self) -> None:
        """Move this dataset to the newest version of its branch."""
        before = self._snapshot
        self.advance(Snapshot.latest(before.store, before.session), since=before)

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
        snapshot = self._snapshot
        name, version = latest_manifest(snapshot.store), snapshot.manifest.version
        restored = transaction.Transaction(name.version if name else version, Restore(version))
        self.advance(publish(snapshot.store, restored), since=snapshot)

    def delta(
        self,
        compared_against: int | None = None,
        *,
        begin_version: int | None = None,
        end_version: int | None = None,
    ) -> DatasetDelta:
        """Compare two versions.

        Args:
            compared_against: Return the changes after this version, up to the version of this
                dataset.
            begin_version: Alternative to `compared_against`: return only changes after this
                version; 0 for the whole history.
            end_version: The last version to include; used with `begin_version`.

        Returns:
            An object that reads the changes on demand.

        Raises:
            InvalidInputError: If neither one version nor a range of versions is given.
        """
        if (begin_version is None) != (end_version is None):
            raise InvalidInputError("begin_version and end_version: pass both or none")
        if (compared_against is None) == (begin_version is None):
            raise InvalidInputError("pass either compared_against or begin_version and end_version")
        snapshot = self._snapshot
        if compared_against is not None:
            begin = require_count("compared_against", compared_against)
            end = snapshot.manifest.version
        else:
            begin = require_count("begin_version", begin_version)
            end = require_count("end_version", end_version)
        return DatasetDelta(snapshot, self.read_transaction, begin, end)

    def read_transaction(self, version: int) -> Transaction | None:
        """Return the transaction that created a version of this branch.

        Its operation is a bare `LanceOperation.BaseOperation` if there is no public class for it.

        Args:
            version: Number of the version; it may be a detached version.

        Returns:
            The transaction; None if it was not kept.

        Raises:
            VersionNotFoundError: If the version does not exist.
            UnsupportedFeatureError: If the operation is unknown.
            CorruptFileError: If the transaction is damaged.
        """
        number = require_count("version", version, 1, MOST_UNSIGNED)
        store = self._snapshot.store
        path, _ = manifest_place(store, number)
        try:
            return Transaction.from_table(load_transaction(store, number, path))
        except NotFoundError:
            return None

    def get_transactions(self, recent_transactions: int = 10) -> list[Transaction | None]:
        """Return the transactions of the pinned version and earlier ones, newest first.

        Args:
            recent_transactions: Maximum number of transactions.

        Returns:
            One item per version; None if the transaction was not kept or its operation is unknown.

        Raises:
            CorruptFileError: If a transaction is damaged.
        """
        count = require_count("recent_transactions", recent_transactions, 1)
        snapshot = self._snapshot
        version, found = snapshot.manifest.version, list[Transaction | None]()
        while is_detached(version) and len(found) < count:
            last = self._known(version)
            found.append(last)
            version = last.read_version if last else 0
        names = reversed(list_manifests(snapshot.store))
        numbers = [name.version for name in names if name.version <= version]
        return [*found, *map(self._known, numbers[: count - len(found)])]

    @property
    def tags(self) -> Tags:
        """The tags of the table, to create, move, delete and list them."""
        return Tags(self)

    @property
    def branches(self) -> Branches:
        """The branches of the table, to list and delete them."""
        return Branches(self)

    def create_branch(
        self,
        branch: str,
        reference: Reference | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Create a branch; no file is copied.

        If several writers create the same branch concurrently, exactly one succeeds.

        Args:
            branch: Name of the branch: segments of letters, digits, `.`, `-` and `_`, separated by
                `/`.
            reference: Version that the branch starts at: its number, the name of a tag, or
                `(branch, number)`, where None means the main branch or the newest version; None for
                the version of this dataset.
            storage_options: Options of the object store; None for those of this dataset.

        Returns:
            A dataset on the new branch. Writes to it affect only the branch.

        Raises:
            BranchAlreadyExistsError: If the branch already exists.
            VersionNotFoundError: If the version does not exist.
            TagNotFoundError: If the tag does not exist.
            BranchNotFoundError: If the version is on a branch that does not exist.
            InvalidInputError: If the name is not allowed.
        """
        source = self._snapshot
        if storage_options is not None:
            store = store_of(self, storage_options)
            source = Snapshot(store, source.manifest, source.session)
        if reference is not None:
            source = snapshot_at(source, reference)
        line, manifest = branches.create_branch(source, branch)
        begun = self._on_line(Snapshot(line.store, manifest, source.session))
        if storage_options is not None:
            begun._storage_options = dict(storage_options)
        return begun

    def shallow_clone(
        self,
        target_path: Location,
        reference: Reference,
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Create a table that refers to the files of a version and writes to its own folder.

        Nothing protects these files: do not clean up or delete the source version while clones of
        it exist.

        Args:
            target_path: Location of the clone; no table may exist there.
            reference: Number of the version, name of a tag, or `(branch, number)`, where None means
                the main branch or the newest version.
            storage_options: Options of the clone's object store; None for those of this dataset.

        Returns:
            The clone, at a version with the same number as the source.

        Raises:
            DatasetAlreadyExistsError: If a table exists at `target_path`.
            VersionNotFoundError: If the version does not exist.
            TagNotFoundError: If the tag does not exist.
            BranchNotFoundError: If the branch does not exist.
        """
        return self._clone(clone.shallow_clone, target_path, reference, storage_options)

    def deep_clone(
        self,
        target_path: Location,
        reference: Reference,
        storage_options: Mapping[str, str] | None = None,
        *,
        progress: Callable[[CopyProgress], None] | None = None,
    ) -> Self:
        """Create a table with copies of all files of a version.

        Args:
            target_path: Location of the clone; no table may exist there.
            reference: As in `shallow_clone`.
            storage_options: Options of the clone's object store; None for those of this dataset.
            progress: Called after each copied file, with `files`, `num_files` and `size_bytes`.

        Returns:
            The clone, at a version with the same number as the source. It shares no files with the
            source.

        Raises:
            As `shallow_clone`. After any error, including an interrupt, no file is left.
        """
        require_function("progress", progress)

        def copy(source: Snapshot, target: Store) -> Manifest:
            return clone.deep_clone(source, target, progress)

        return self._clone(copy, target_path, reference, storage_options)

    def _known(self, version: int) -> Transaction | None:
        with suppress(UnsupportedFeatureError, VersionNotFoundError):
            return self.read_transaction(version)
        return None

    def _clone(
        self,
        make: Callable[[Snapshot, Store], Manifest],
        target_path: Location,
        reference: Reference,
        storage_options: Mapping[str, str] | None,
    ) -> Self:
        source = snapshot_at(self._snapshot, reference)
        options = self._storage_options if storage_options is None else storage_options
        store = open_table(target_path, options)
        snapshot = Snapshot(store, make(source, store), source.session)
        return self.pinned(target_path, options, snapshot)


def snapshot_at(snapshot: Snapshot, reference: Reference) -> Snapshot:
    """Open another version of the table, possibly on another branch."""
    found = locate(snapshot.line, reference)
    return Snapshot.at(found.line.store, found.version, snapshot.session)


def moment(asof: Any) -> datetime:
    """Parse a datetime, a date (its first moment) or ISO 8601 text, local time without a zone."""
    try:
        if isinstance(asof, datetime):  # or a timestamp of pandas, whose methods differ
            return datetime.combine(asof.date(), asof.timetz())
        if isinstance(asof, date):
            return datetime.combine(asof, time.min)
        return datetime.fromisoformat(asof)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"asof: expected a datetime, a date or ISO 8601 text, found {asof!r}"
        ) from error


def td_to_micros(td: timedelta) -> int:
    """Return the number of microseconds of a duration."""
    return round(td / timedelta(microseconds=1))


def _shown(info: VersionInfo) -> Version:
    local = info.timestamp.astimezone().replace(tzinfo=None)
    return Version(version=info.version, timestamp=local, metadata=info.metadata)
