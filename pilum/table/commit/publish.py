"""Publish a transaction as the next version of a table.

    1  find the latest version; compare footprints with all concurrent commits,
       and adopt the changes that can be merged
    2  write _transactions/{read_version}-{uuid}.txn
    3  build the manifest of latest + 1, with the transaction inside
    4  put it under its final name unless that exists          <- the only visible step
    5  won: write the hint file. Lost: begin again at 1, after a random pause

The n-th pause is a random number of slots, each as long as the first attempt took. Writers that
lost together draw different slots, and every round doubles the number of slots:

    lost    1       2       3       4       …
    slots   0..3    0..7    0..15   0..31   …

Step 4 has three answers, not two: a put whose answer was lost may have won nevertheless, and its
repetition then loses against itself. A writer that loses, or gets no answer, therefore reads the
manifest that now exists and compares its uuid with its own. The commit handler of the store
implements step 4, see `commit_handler.py`. A transaction with a job (`jobs.py`) is not committed if
the table contains its job.

Source: docs/format/table.md, "Commit protocol".
"""

from __future__ import annotations

import math
import random
import secrets
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from pilum.errors import (
    CommitConflictError,
    CommitContentionError,
    CommitError,
    CommitStatusUnknownError,
    CorruptFileError,
    DatasetAlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    PilumError,
    UnsupportedFormatError,
)
from pilum.format.schema import Schema
from pilum.storage.base import Store, prefetch, write_object
from pilum.storage.local import pending_of
from pilum.storage.wrapper import StoreWrapper
from pilum.table.commit.footprint import Verdict, fragment_ids_of, verdict
from pilum.table.commit.jobs import JOB_PROPERTY, Job, find_job
from pilum.table.commit.operations.base import Operation
from pilum.table.commit.transaction import (
    Committed,
    Transaction,
    continuable,
    load_transaction,
    next_version,
    uuid_at,
)
from pilum.table.model.base_paths import data_file_place, with_bases
from pilum.table.model.fragments import Fragments
from pilum.table.model.manifest import Manifest
from pilum.table.model.manifest_file import (
    encode_manifest_file,
    is_inlined,
    keep_version,
    load_named,
    replace_copies,
)
from pilum.table.model.names import (
    DETACHED_BIT,
    HINT_PATH,
    ManifestName,
    NamingScheme,
    detached_manifest_path,
    transaction_path,
)
from pilum.table.versions.commit_handler import (
    ConditionalPut,
    handler_of,
    latest_manifest,
    list_manifests,
)
from pilum.table.versions.history import load_version, newest_sound, no_table
from pilum.table.write.sidecars import discard_file
from pilum.tracing import DATASET_EVENTS, RECEIVERS, emit

__all__ = ["NOT_COMMITTED", "Backoff", "commit", "commit_detached"]

NOT_COMMITTED = (
    CommitError,
    DatasetAlreadyExistsError,
    InvalidInputError,
    UnsupportedFormatError,
)
"""Errors after which a commit has certainly not happened."""

_OUTCOME_PAUSES_SECONDS = (0.0, 0.05, 0.2)
_BUDGET_SECONDS = 30.0
_FIRST_SLOTS = 4
_MAX_SLOTS = 256


def commit(
    store: Store,
    transaction: Transaction,
    *,
    attempts: int = 20,
    timeout_seconds: float = math.inf,
    scheme: NamingScheme = NamingScheme.V2,
    owns_files: bool = False,
) -> Manifest:
    """Publish a transaction as the next version.

    Args:
        store: Where the table is, or will be.
        transaction: The change to publish.
        attempts: Maximum number of attempts when others commit at the same time.
        timeout_seconds: No attempt except the first begins later than this.
        scheme: How the manifests of a new table are named.
        owns_files: Whether the new files of the operation are deleted if it is certain that no
            version will refer to them. Otherwise they stay, so that the caller can retry.

    Returns:
        The manifest of the new version; of an older one if that already contains the transaction or
        its job.

    Raises:
        CommitConflictError: If a commit since `transaction.read_version` contradicts it.
        CommitContentionError: If every attempt lost against another commit.
        DatasetNotFoundError: If there is no table and the operation does not create one.
        DatasetAlreadyExistsError: If another writer has created the table that it was to create.
        UnsupportedFeatureError: If the table uses a feature that would be lost.
        InvalidInputError: If the operation does not fit the table.
        NotFoundError: If the operation needs a file of the table that does not exist.
        CommitStatusUnknownError: If the store failed and it is unknown whether the version exists.
        OSError: If the store failed earlier.
    """
    if attempts < 1:
        raise InvalidInputError(f"expected at least 1 attempt, found {attempts}")
    committer = _Committer(store, transaction, owns_files)
    try:
        manifest = committer.run(attempts, timeout_seconds, scheme)
    except NOT_COMMITTED:  # after any other failure the files stay: they may be in use
        committer.discard()
        raise
    return committer.reported(manifest)


def commit_detached(store: Store, transaction: Transaction) -> Manifest:
    """Publish a transaction as a detached version, which conflicts with nothing.

    It is not part of the history, and opened by its random number. The read version may be a
    detached one. The errors are those of `commit`, without those of conflicts; names of manifests
    of the older scheme are an InvalidInputError.
    """
    committer = _Committer(store, transaction)
    try:
        manifest = committer.run_detached()
    except NOT_COMMITTED:
        committer.discard()
        raise
    return committer.reported(manifest, is_detached=True)


class _Committer:
    """The state of one commit over its attempts."""

    def __init__(self, store: Store, transaction: Transaction, owns_files: bool = False) -> None:
        self.store = store
        self.owns_files = owns_files
        self.given = self.transaction = transaction
        properties = transaction.properties
        self.job = Job.of(properties) if JOB_PROPERTY in properties else None
        self.data = transaction.to_bytes()
        self.checked_version = transaction.read_version
        self.conflict: CommitConflictError | None = None
        self.has_file = False
        self.conflicts = 0

    def reported(self, manifest: Manifest, *, is_detached: bool = False) -> Manifest:
        """Report the commit to those that trace events, and return its manifest."""
        if not RECEIVERS:
            return manifest
        amount = self.transaction.operation.amount
        emit(
            DATASET_EVENTS,
            event="committed",
            uri=self.store.uri,
            version=manifest.version,
            read_version=self.given.read_version,
            operation=type(self.given.operation).__name__,
            detached=str(is_detached).lower(),
            rows=amount.num_rows,
            files=amount.num_files,
            bytes=amount.size_bytes,
            conflicts=self.conflicts,
        )
        return manifest

    def discard(self, keep: Transaction | None = None) -> None:
        """Delete the files written for the transaction, except those of `keep`.

        By default, the files that the transaction came with stay if the caller owns them.
        """
        store, given = self.store, self.given.operation
        store.delete(transaction_path(self.transaction.file_name))
        files = set(self.transaction.operation.new_files())
        if keep is not None:
            files.difference_update(keep.operation.new_files())
        elif self.owns_files:
            files.update(given.new_files())
            _discard_in_bases(store, given)
        else:
            files.difference_update(given.new_files())
        for path in files:
            discard_file(store, path)

    def run(self, attempts: int, timeout_seconds: float, scheme: NamingScheme) -> Manifest:
        pause = Backoff(timeout_seconds)
        for attempt in range(attempts):
            names = list_manifests(self.store, self.checked_version)
            if found := self._find_job(names):
                return found
            if landed := self._check(names):
                return load_named(self.store, landed)
            manifest = self._build(names)
            if names:
                scheme = names[-1].scheme
                keep_version(self.store, names[-1])
            if self._publish(manifest, scheme.manifest_name(manifest.version)):
                self._leave_hint(manifest.version)
                if scheme is NamingScheme.V1:
                    self._replace_copies()
                return manifest
            self.conflicts += 1
            if attempt + 1 < attempts and not pause.take():
                break
        raise CommitContentionError(
            f"{self.store.uri}: version {manifest.version} was taken by another commit after "
            f"{attempt + 1} attempts; too many writers at once"
        )

    def _find_job(self, names: list[ManifestName]) -> Manifest | None:
        """Return the version that contains the job, as recorded by the version to build on."""
        if self.job is None:
            return None
        found = find_job(self.store, self.job, names[-1] if names else None)
        if found and self.transaction.uuid not in found.transaction_file:
            self.discard()
        return found

    def run_detached(self) -> Manifest:
        base = load_version(self.store, self.transaction.read_version)
        name = latest_manifest(self.store)
        if name is not None and name.scheme is NamingScheme.V1:
            raise InvalidInputError(
                f"{self.store.uri}: detached versions need the newer names of manifests; call "
                "migrate_manifest_paths_v2 first"
            )
        manifest = self._built_on(continuable(self.store, base))
        self._write_transaction_file()
        while True:
            manifest = replace(manifest, version=secrets.randbits(63) | DETACHED_BIT)
            data = encode_manifest_file(manifest, self.data)
            if self.store.put_if_absent(detached_manifest_path(manifest.version), data):
                return manifest

    def _check(self, names: list[ManifestName]) -> ManifestName | None:
        """Compare with concurrent commits; return the own commit if it already succeeded."""
        newer = [name for name in names if name.version > self.checked_version]
        others = prefetch(self.store, (partial(self._load, name) for name in newer))
        for name in newer:
            self._require_next(name, names[-1])
            other = next(others)
            if other.uuid == self.transaction.uuid:
                return name
            self._compare_with(other)
            self.checked_version = name.version
        if self.checked_version > (names[-1].version if names else 0):
            raise InvalidInputError(
                f"{self.store.uri} has no version {self.checked_version} to continue"
            )
        return None

    def _compare_with(self, other: Committed) -> None:
        """Raise for conflicts that cannot be resolved; keep those that `_merge` may resolve."""
        mine = self.transaction.operation
        worst, clash = verdict(mine.footprint(), other.operation.footprint())
        if worst is not Verdict.COMPATIBLE:
            again = worst is not Verdict.INCOMPATIBLE
            error = self._conflict(
                other.version,
                f"the {mine.arm} for version {self.transaction.read_version} "
                f"conflicts with the {other.operation.arm} of version {other.version} over "
                + ", ".join(map(str, clash))
                + ("; do it again on the latest version" if again else ""),
                retryable=again,
                other_operation=other.operation.arm,
                fragment_ids=fragment_ids_of(clash),
            )
            if worst is not Verdict.MERGEABLE and not (again and mine.can_follow_more):
                raise error
            self.conflict = error

    def _merge(self, base: Manifest) -> None:
        """Rebase the transaction on `base`, adopting what others changed."""
        if self.conflict is None:
            return
        operation = self.transaction.operation.rebase(self._with_bases(base), base)
        if operation is None:
            raise self.conflict
        self.conflicts += 1
        old = self.transaction
        merged = replace(old, read_version=base.version, operation=operation)
        self.discard(keep=merged)
        self.transaction, self.data = merged, merged.to_bytes()
        self.has_file, self.conflict = False, None

    def _require_next(self, name: ManifestName, newest: ManifestName) -> None:
        """Check that no version is missing, or that its changes do not matter."""
        read, operation = self.transaction.read, self.transaction.operation
        if name.version == self.checked_version + 1:
            return
        if read is None or not operation.fits(read, load_named(self.store, newest)):
            missing = self.checked_version + 1
            raise self._conflict(
                missing,
                f"version {missing} is gone, so what it changed is unknown; open the newest "
                "version and do it again",
            )

    def _require_direct(self, base: Manifest) -> None:
        """Check that no version came between, if that is not allowed."""
        mine = self.transaction
        if mine.follows_directly and mine.read_version != base.version:
            raise self._conflict(
                base.version,
                f"version {base.version} came after version {mine.read_version}; the "
                f"{mine.operation.arm} is for version {mine.read_version} alone",
                retryable=True,
            )

    def _load(self, name: ManifestName) -> Committed:
        try:
            return load_transaction(self.store, name.version, name.path)
        except (NotFoundError, CorruptFileError, UnsupportedFormatError) as error:
            what = f"cannot find out what version {name.version} changed: {error}"
            raise self._conflict(name.version, what) from error

    def _conflict(self, version: int, what: str, **more: Any) -> CommitConflictError:
        mine = self.transaction
        return CommitConflictError(
            f"{self.store.uri}: {what}",
            operation=mine.operation.arm,
            read_version=mine.read_version,
            version=version,
            **more,
        )

    def _build(self, names: list[ManifestName]) -> Manifest:
        """Return the manifest of the next version: the operation's result and the common parts."""
        base = self._base(names)
        self._require_direct(base)
        self._merge(base)
        return self._built_on(base)

    def _built_on(self, base: Manifest) -> Manifest:
        prepared = self.transaction.operation.prepared(self._with_bases(base), base)
        self.transaction = replace(self.transaction, operation=prepared)
        return next_version(self.store, base, self.transaction, self.job)

    def _with_bases(self, base: Manifest) -> Store:
        """Return the store with access to the base paths of a version, and of no other one."""
        if base.base_paths or isinstance(self.store, StoreWrapper):
            return with_bases(self.store, base.base_paths)
        return self.store

    def _base(self, names: list[ManifestName]) -> Manifest:
        if not names:
            if self.transaction.operation.creates:
                return Manifest(Schema(()), Fragments(), version=0)
            raise no_table(self.store)
        newest = names[-1].version
        try:
            base = load_named(self.store, names[-1], self.transaction.read).sound()
            return continuable(self.store, base)
        except CorruptFileError:
            whole = newest_sound(self.store, newest) if self.transaction.operation.mends else None
            if whole is None:
                raise
            # Only the number of the damaged version is kept.
            return replace(continuable(self.store, whole), version=newest)

    def _publish(self, manifest: Manifest, name: ManifestName) -> bool:
        """Publish the manifest; return whether it is now the one of its version."""
        if not self.has_file:
            self._write_transaction_file()
            self.has_file = True
        data = encode_manifest_file(manifest, self.data)
        handler = handler_of(self.store)
        pending = pending_of(self.store)
        if pending and type(handler) is not ConditionalPut:
            pending.wait_for_commit()  # otherwise, the store does it while it writes the manifest
        try:
            won = handler.publish(self.store, name, data)
        except (CommitError, CommitStatusUnknownError):
            raise
        except OSError as error:
            return self._settled(name, error)
        return won or self._read_back(name) is True

    def _settled(self, name: ManifestName, error: OSError) -> bool:
        """Return whether a commit without an answer succeeded.

        It lost if the version belongs to another transaction.
        """
        for pause in _OUTCOME_PAUSES_SECONDS:
            time.sleep(pause)
            with suppress(OSError):
                if (landed := self._read_back(name)) is not None:
                    return landed
        raise CommitStatusUnknownError(
            f"{self.store.uri}: it is not known whether version {name.version} is this "
            f"{self.transaction.operation.arm}: {error}; before doing it again, look whether that "
            f"version has the transaction {self.transaction.uuid}. Nothing was deleted",
            version=name.version,
            transaction_uuid=self.transaction.uuid,
        ) from error

    def _read_back(self, name: ManifestName) -> bool | None:
        """Return whether the version is of this transaction; None if there is no such version."""
        path = handler_of(self.store).settle(self.store, name.version) or name.path
        try:
            return uuid_at(self.store, path) == self.transaction.uuid
        except NotFoundError:
            return None

    def _write_transaction_file(self) -> None:
        if is_inlined(self.data):
            self.store.put(transaction_path(self.transaction.file_name), self.data)
            return
        write_object(self.store, transaction_path(self.transaction.file_name), self.data)

    def _replace_copies(self) -> None:
        """Replace copies of the manifest, for the oldest readers.

        The version exists without them, and the next commit repairs them.
        """
        written = None
        with suppress(OSError):
            while (name := latest_manifest(self.store)) and name != written:
                replace_copies(self.store, name.path)  # again, if another writer was faster
                written = name

    def _leave_hint(self, version: int) -> None:
        if self.store.lists_in_order:
            return  # the first name of a listing shows the latest version
        with suppress(OSError):  # a hint for other writers; the version exists without it
            self.store.put(HINT_PATH, f'{{"version":{version}}}'.encode())


def _discard_in_bases(store: Store, operation: Operation) -> None:
    """Delete the new data files in base paths, which are not among those of `new_files`."""
    files = [file for fragment in operation.new_fragments for file in fragment.files]
    files = [file for file in files if file.base_id is not None]
    if not files:
        return
    with suppress(PilumError):  # the base may be gone; the error of the commit matters more
        bases = operation.new_bases
        if not bases and (name := latest_manifest(store)):
            bases = load_named(store, name).base_paths
        with_places = with_bases(store, bases)
        for file in files:
            discard_file(*data_file_place(with_places, file))


class Backoff:
    """The pauses of one commit, from its first attempt on; none ends after `budget_seconds`."""

    def __init__(self, budget_seconds: float = _BUDGET_SECONDS) -> None:
        self._budget = min(budget_seconds, _BUDGET_SECONDS)
        self._start = time.monotonic()
        self._unit: float | None = None
        self._slots = _FIRST_SLOTS

    def take(self) -> bool:
        """Sleep; return False without sleeping if the time budget is used up."""
        elapsed = time.monotonic() - self._start
        if self._unit is None:
            self._unit = elapsed  # the first attempt measures how long a commit takes
        seconds = random.randrange(self._slots) * self._unit
        self._slots = min(2 * self._slots, _MAX_SLOTS)
        if elapsed + seconds > self._budget:
            return False
        time.sleep(seconds)
        return True
