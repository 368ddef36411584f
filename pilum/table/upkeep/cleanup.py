"""Remove old versions and the files that only they need, by a plan; drop a whole table.

    versions     1    2    3    4*   5            * tagged
                 └─ chosen by age or number
    files        a
                 b────b
                      c─────────c────c            a and b go, c stays
    stray        d (of a commit that failed)      goes when it is 7 days old

A plan reads all manifests and changes nothing. Then, starting from the oldest version, manifests
are removed before the files that only they need. An interrupted cleanup therefore leaves every
version whole or removed, and at most files that nothing refers to. A later cleanup removes these by
their age. Between both steps the history is read again, because an old version may have been
restored. Source: docs/format/table.md, "Cleanup".
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Self

from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.parallel import ThreadPool
from pilum.storage.base import Entry, Store, entries_below
from pilum.storage.local import LocalStore
from pilum.storage.wrapper import StoreWrapper
from pilum.table.model.manifest import Manifest
from pilum.table.model.names import DATA_FOLDER, VERSIONS_FOLDER, ManifestName
from pilum.table.refs.references import Pin, pinned_versions
from pilum.table.upkeep.managed_references import Bases, ManagedReferences
from pilum.table.upkeep.owned_files import (
    FileKind,
    OwnedFile,
    References,
    all_references,
    detached_paths,
    fragment_keys,
    needed_by_branches,
    owned_files,
    references,
)
from pilum.table.versions.commit_handler import (
    ConditionalPut,
    forget_versions,
    handler_of,
    latest_manifest,
    list_manifests,
)
from pilum.table.versions.history import Line, no_table

__all__ = [
    "IN_FLIGHT_SECONDS",
    "CleanupPlan",
    "CleanupPolicy",
    "OldVersion",
    "drop_table",
    "plan_cleanup",
    "run_cleanup",
]

IN_FLIGHT_SECONDS = 7 * 24 * 3600
"""Age from which an unreferenced file cannot belong to a commit in progress."""
_CHUNK = 64
_CONCURRENCY = 8
OnFile = Callable[[int], None]
FindManaged = Callable[[Mapping[bytes, Bases]], Mapping[bytes, frozenset[str]]]


@dataclass(frozen=True, slots=True)
class CleanupPolicy:
    """The versions that a cleanup may remove: those that meet all given conditions.

    Attributes:
        before: The version was committed before this time, seconds since 1970.
        keep_newest: The version is not among this many of the newest.
        versions: The version is one of these.
        delete_unverified: Whether files that no manifest ever referred to are removed at any age.
        refuse_tagged: Whether it is an error if a tagged version is chosen; it stays in any case.
        always_reads_blobs: Whether the descriptors of managed blobs are read even if no data file
            goes, to find objects that no version ever referred to. If not, all objects stay then.
    """

    before: float | None = None
    keep_newest: int | None = None
    versions: frozenset[int] | None = None
    delete_unverified: bool = False
    refuse_tagged: bool = True
    always_reads_blobs: bool = True


@dataclass(frozen=True, slots=True)
class OldVersion:
    """A version to remove, with the files that no newer one needs."""

    manifest: OwnedFile
    version: int
    files: tuple[OwnedFile, ...]


@dataclass(frozen=True, slots=True)
class CleanupPlan:
    """The files that a cleanup removes.

    Attributes:
        read_version: This version and all newer ones stay.
        versions: Versions to remove, oldest first.
        strays: Files that no manifest refers to, old enough not to belong to a commit in progress.
        waiting: Files that no manifest refers to, but too recent: their commit may be in progress.
        pins: Tags and branches that keep chosen versions.
        seen: The versions that were read.
        managed: What was read of the objects of managed blobs; None if all of them stay.
    """

    read_version: int
    versions: tuple[OldVersion, ...]
    strays: tuple[OwnedFile, ...]
    waiting: tuple[OwnedFile, ...]
    pins: tuple[Pin, ...]
    seen: frozenset[int]
    managed: ManagedReferences | None

    def files(self) -> Iterator[OwnedFile]:
        """Return all files to remove, manifests included."""
        for version in self.versions:
            yield version.manifest
            yield from version.files
        yield from self.strays


def plan_cleanup(store: Store, manifest: Manifest, policy: CleanupPolicy) -> CleanupPlan:
    """Plan a cleanup without changing anything; the version of `manifest` and newer ones stay.

    Raises:
        InvalidInputError: If tagged versions are chosen and that is refused.
        UnsupportedFeatureError: If a manifest has features that may refer to files in unknown ways.
    """
    manifest.require_continuable(f"{store.uri}, version {manifest.version}")
    names = list_manifests(store)  # before the folder is listed, because this may finish a commit
    listed = {entry.name: entry for entry in store.list(VERSIONS_FOLDER)}
    line = Line.of(store, manifest.branch)
    pins = pinned_versions(line.root, line.branch)
    chooser = _Chooser(names, manifest.version, policy, {pin.version for pin in pins})
    kept, dropped = _Uses(), _Uses()
    for one in all_references(store, names):
        (dropped if chooser.drops(one) else kept).add(one)
    kept_pins = tuple(pin for pin in pins if pin.version in chooser.pinned)
    _refuse_tagged(kept_pins, policy)
    for path in detached_paths(listed):
        kept.add(references(store, path))
    needed, uses = set(kept.files()), dropped.files()
    managed = None
    if policy.always_reads_blobs or not kept.has_managed or _data_files(uses.keys() - needed):
        managed = ManagedReferences(line.store)
        needed.update(kept.objects(managed.of), needed_by_branches(line))
        uses |= dropped.objects(managed.of_readable)
    last_use = {key: last for key, last in uses.items() if key not in needed}
    of_version: dict[int, list[OwnedFile]] = {number: [] for number in dropped.versions}
    strays: list[OwnedFile] = []
    waiting: list[OwnedFile] = []
    for file in owned_files(store, with_blobs=managed is not None):
        if file.is_needed(needed):
            continue
        if file.is_needed(last_use):
            last = max(last_use[key] for key in file.keys if key in last_use)
            of_version[last].append(file)
        else:
            (strays if _is_abandoned(file, policy) else waiting).append(file)
    by_version = {name.version: name for name in names}
    versions = tuple(
        OldVersion(_manifest_file(by_version[number], listed), number, tuple(of_version[number]))
        for number in sorted(of_version)
    )
    return CleanupPlan(
        manifest.version,
        versions,
        tuple(strays),
        tuple(waiting),
        kept_pins,
        frozenset(by_version),
        managed,
    )


class _Chooser:
    """Chooses the versions to remove; reports versions that only pins keep."""

    def __init__(
        self, names: list[ManifestName], first_kept: int, policy: CleanupPolicy, pins: set[int]
    ) -> None:
        if policy.keep_newest is not None and names:
            first_kept = min(first_kept, names[-policy.keep_newest :][0].version)
        self._first_kept = first_kept
        self._policy = policy
        self._pins = pins
        self.pinned: set[int] = set()

    def drops(self, one: References) -> bool:
        policy = self._policy
        if one.version >= self._first_kept:
            return False
        if policy.before is not None and one.timestamp >= policy.before:
            return False
        if policy.versions is not None and one.version not in policy.versions:
            return False
        if one.version in self._pins:
            self.pinned.add(one.version)
            return False
        return True


class _Uses:
    """The keys that many versions refer to, each with the last version that does."""

    def __init__(self) -> None:
        self.versions: list[int] = []
        self._fragments: dict[bytes, int] = {}
        self._managed: dict[bytes, Bases] = {}
        self._others: dict[str, int] = {}

    def add(self, one: References) -> None:
        """Count a version that is newer than those before."""
        self.versions.append(one.version)
        self._fragments.update(dict.fromkeys(one.fragments, one.version))
        self._others.update(dict.fromkeys(one.others, one.version))
        if one.managed is not None:
            self._managed.update(dict.fromkeys(one.fragments, one.managed))

    @property
    def has_managed(self) -> bool:
        """Whether a version may have managed blobs."""
        return bool(self._managed)

    def files(self) -> dict[str, int]:
        """Return the last version that refers to each key of a file of its own."""
        fragments = self._fragments.items()
        keys = ((key, version) for data, version in fragments for key in fragment_keys([data]))
        return _last((*self._others.items(), *keys))

    def objects(self, managed: FindManaged) -> dict[str, int]:
        """Return the last version that refers to each key of an object of managed blobs."""
        found = managed(self._managed).items()
        return _last((key, self._fragments[data]) for data, keys in found for key in keys)


def _last(uses: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the greatest version of each key."""
    found: dict[str, int] = {}
    for key, version in uses:
        found[key] = max(found.get(key, 0), version)
    return found


def _data_files(keys: Iterable[str]) -> list[str]:
    """Return the keys of data files: only without one of them, an object is left alone."""
    return [key for key in keys if key.startswith(f"{DATA_FOLDER}/")]


def _refuse_tagged(pins: tuple[Pin, ...], policy: CleanupPolicy) -> None:
    tagged = {pin.name: pin.version for pin in pins if pin.is_tag}
    if tagged and policy.refuse_tagged:
        raise InvalidInputError(
            f"versions with tags would be removed: {tagged}; delete the tags, or pass "
            "error_if_tagged_old_versions=False to keep these versions"
        )


def _is_abandoned(file: OwnedFile, policy: CleanupPolicy) -> bool:
    if policy.delete_unverified:
        return True
    return file.modified is not None and file.modified < time.time() - IN_FLIGHT_SECONDS


def _manifest_file(name: ManifestName, listed: dict[str, Entry]) -> OwnedFile:
    entry = listed.get(name.path.rpartition("/")[2], Entry("", 0))
    return OwnedFile(name.path, FileKind.MANIFEST, (), entry.size, entry.modified)


def run_cleanup(
    store: Store,
    plan: CleanupPlan,
    *,
    per_second: int | None = None,
    concurrency: int | None = None,
    on_file: OnFile = lambda num_files: None,
) -> tuple[list[OwnedFile], int]:
    """Remove the planned files; return those removed, and how many the store did not remove.

    There are at most `per_second` files a second, and `concurrency` requests at a time; `on_file`
    is called with the number of files done.
    """
    with _Remover(store, per_second, concurrency or _CONCURRENCY, on_file) as remover:
        for start in range(0, len(plan.versions), _CHUNK):
            chunk = plan.versions[start : start + _CHUNK]
            forget_versions(store, [version.version for version in chunk])
            gone = set(remover.remove([version.manifest for version in chunk]))
            needed = _needed_by_new_versions(store, plan)
            remover.remove(
                file
                for version in chunk
                if version.manifest in gone
                for file in version.files
                if not file.is_needed(needed)
            )
        needed = _needed_by_new_versions(store, plan)
        remover.remove(file for file in plan.strays if not file.is_needed(needed))
    return remover.removed, remover.num_failed


class _Remover:
    """Removes files, several at a time and at a limited rate."""

    def __init__(
        self,
        store: Store,
        per_second: int | None,
        concurrency: int,
        on_file: OnFile,
    ) -> None:
        self.removed: list[OwnedFile] = []
        self.num_failed = 0
        self._store = store
        self._pool = ThreadPool(concurrency, "pilum-cleanup")
        self._pause = 1 / per_second if per_second else 0.0
        self._next = time.monotonic()
        self._on_file = on_file
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def remove(self, files: Iterable[OwnedFile]) -> list[OwnedFile]:
        """Remove files and return those that are gone."""
        wanted = list(files)
        done = list(self._pool.map(self._remove, wanted))
        gone = [file for file, is_gone in zip(wanted, done, strict=True) if is_gone]
        self.removed += gone
        self.num_failed += len(wanted) - len(gone)
        return gone

    def _remove(self, file: OwnedFile) -> bool:
        self._wait()
        try:
            self._store.delete(file.path)
        except OSError:
            return False
        with self._lock:
            self._on_file(1)
        return True

    def _wait(self) -> None:
        if not self._pause:
            return
        with self._lock:
            now = time.monotonic()
            self._next = max(self._next, now) + self._pause
            seconds = self._next - self._pause - now
        time.sleep(max(seconds, 0.0))


def _needed_by_new_versions(store: Store, plan: CleanupPlan) -> set[str]:
    """Return the keys that versions committed since the plan refer to."""
    names = list_manifests(store)
    new = [name for name in names if name.version not in plan.seen]
    return {key for one in all_references(store, new) for key in one.keys(plan.managed)}


def drop_table(store: Store) -> None:
    """Delete a table and all other files in its folder; files in base paths stay.

    The newest manifests are removed first, so that no reader sees part of a version.

    Raises:
        DatasetNotFoundError: If there is no table; other folders are never touched.
        InvalidInputError: If this is a branch of a table.
        UnsupportedFeatureError: If an external store holds its versions.
    """
    if latest_manifest(store) is None:
        raise no_table(store)
    if Line.at(store).branch is not None:
        raise InvalidInputError(f"{store.uri} is a branch: use `branches.delete` of the table")
    if not isinstance(handler_of(store), ConditionalPut):
        raise UnsupportedFeatureError(f"{store.uri}: an external store holds its versions")
    for name in reversed(list_manifests(store)):
        store.delete(name.path)
    for path, _ in list(entries_below(store, "")):
        store.delete(path)
    while isinstance(store, StoreWrapper):
        store = store.wrapped
    if isinstance(store, LocalStore):  # only file systems have folders without files
        shutil.rmtree(store.root, ignore_errors=True)
