"""Snapshots: a pinned version of a table, from which everything is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from pilum.cache import Cache, CacheSlot
from pilum.errors import CorruptFileError, UnsupportedVersionError, VersionNotFoundError
from pilum.expressions import scope_of
from pilum.format.blobs import described, given
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.lazy import cached_property
from pilum.storage.base import Store, prefetch
from pilum.storage.local import LocalStore
from pilum.storage.wrapper import StoreWrapper
from pilum.table.model.base_paths import with_bases
from pilum.table.model.deletion_vector import DeletionVector, load_deletions
from pilum.table.model.features import Feature
from pilum.table.model.fragment import Fragment
from pilum.table.model.fragments import Fragments
from pilum.table.model.index_segments import IndexSegment, index_segments
from pilum.table.model.manifest import Manifest, require_readable
from pilum.table.model.manifest_file import load_named
from pilum.table.model.names import ManifestName
from pilum.table.model.stored_fragments import StoredFragments
from pilum.table.read.fragment_files import FragmentReader, open_data_file
from pilum.table.read.mem_wal import warn_of_generations
from pilum.table.read.session import DEFAULT_SESSION, Session
from pilum.table.versions.commit_handler import latest_manifest, list_manifests
from pilum.table.versions.history import Line, load_version, newest_sound, no_table
from pilum.tracing import DATASET_EVENTS, RECEIVERS, emit

if TYPE_CHECKING:
    from pilum.expressions.binding import Scope

__all__ = ["Snapshot", "with_counted_rows"]

# Approximate sizes of Python objects.
_MANIFEST_BYTES = 8 * 1024
_PARSED_FACTOR = 16
_MOST_PREPARED = 256
"""Maximum number of entries of `Snapshot.prepared`."""


@dataclass(frozen=True)
class Snapshot:
    """A version of a table and its store, with a session that caches open files. Immutable."""

    store: Store
    manifest: Manifest
    session: Session = field(default=DEFAULT_SESSION, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.manifest.base_paths or isinstance(self.store, StoreWrapper):
            object.__setattr__(self, "store", with_bases(self.store, self.manifest.base_paths))

    @classmethod
    def latest(cls, store: Store, session: Session | None = None) -> Snapshot:
        """Open the newest version.

        Raises:
            DatasetNotFoundError: If there is no table.
            UnsupportedFeatureError: If the table has features that this library cannot read.
            CorruptFileError: If its manifest contradicts the format.
        """
        name = latest_manifest(store)
        if name is None:
            raise no_table(store)
        session = session or DEFAULT_SESSION
        slot = _slot_of_newest(session, store)
        known: Manifest | None = slot.get() if slot else None
        try:
            manifest = load_named(store, name, known)
        except CorruptFileError as error:
            raise CorruptFileError(
                f"{error.what}\n{_way_back(store, name.version)}", *error.where
            ) from error
        if slot and manifest is not known and isinstance(manifest.fragments, StoredFragments):
            parsed = _PARSED_FACTOR * len(manifest.fragments.survey.data)
            slot.put(manifest, _MANIFEST_BYTES + parsed)
        return cls._checked(store, manifest, session)

    @classmethod
    def at(cls, store: Store, version: int, session: Session | None = None) -> Snapshot:
        """Open the version with a number; other errors as `latest`.

        Raises:
            VersionNotFoundError: If the table has no such version.
        """
        return cls._checked(store, load_version(store, version), session)

    @classmethod
    def as_of(cls, store: Store, when: datetime, session: Session | None = None) -> Snapshot:
        """Open the newest version that was committed at or before a moment, as `latest`.

        A time without a time zone is local time.

        Raises:
            VersionNotFoundError: If the table was created later.
        """
        names = list_manifests(store)
        if not names:
            raise no_table(store)
        moment = _zoned(when)
        tasks = (partial(_loaded_or_damage, store, name) for name in reversed(names))
        damage: CorruptFileError | None = None
        for manifest in prefetch(store, tasks):
            if isinstance(manifest, CorruptFileError):
                damage = damage or manifest
            elif manifest.timestamp <= moment:
                if damage:  # the damaged one may be the version of that moment
                    raise damage
                return cls._checked(store, manifest, session)
            else:
                damage = None  # the damaged one is later too
        raise VersionNotFoundError(f"{store.uri} has no version as old as {when.isoformat()}")

    @cached_property
    def line(self) -> Line:
        """The line of history that contains the version."""
        return Line.of(self.store, self.manifest.branch)

    @cached_property
    def prepared(self) -> Cache:
        """A cache of what requests derive from the version, such as resolved columns.

        Values refer to `twin` instead of the version: a version that is no longer used would
        otherwise stay in memory, with open files and indices, until garbage is collected.
        """
        return Cache(_MOST_PREPARED)

    @cached_property
    def twin(self) -> Snapshot:
        """The same version with a cache of its own, for values of `prepared`."""
        twin = Snapshot(self.store, self.manifest, self.session)
        known = vars(self)
        vars(twin).update({name: known[name] for name in known.keys() - {"prepared"}})
        return twin

    @cached_property
    def index_segments(self) -> tuple[IndexSegment, ...]:
        """The entries of the index section, usable or not.

        CorruptFileError is raised if they are damaged.
        """
        section = self.manifest.index_section
        return index_segments(section) if section else ()

    @cached_property
    def scope(self) -> Scope:
        """The columns that filters of scans may name."""
        return scope_of(self.described.arrow)

    @property
    def schema(self) -> Schema:
        """The schema of the table."""
        return self.manifest.schema

    @cached_property
    def described(self) -> Schema:
        """The schema of scans, with descriptors for blobs.

        Blobs of legacy files are not changed.
        """
        if not self.schema.has_marks or self.manifest.data_version is FileVersion.LEGACY:
            return self.schema
        return described(self.schema)

    @cached_property
    def written(self) -> Schema:
        """The schema with which rows are rewritten, with payloads for blobs."""
        return given(self.schema) if self.schema.has_marks else self.schema

    @cached_property
    def has_stable_row_ids(self) -> bool:
        """Whether rows keep their ids when they move."""
        return bool(self.manifest.reader_flags & Feature.STABLE_ROW_IDS)

    @property
    def num_rows(self) -> int:
        """The number of rows that are not deleted."""
        return self.manifest.num_rows

    def deletions(self, fragment: Fragment) -> DeletionVector | None:
        """Return the deleted rows of a fragment of the version, None if there are none."""
        return self.reader(fragment).deletions if fragment.deletion_file else None

    def reader(self, fragment: Fragment) -> FragmentReader:
        """Return the reader of a fragment of the version."""
        return FragmentReader.of(self.session, self.store, fragment)

    @classmethod
    def _checked(cls, store: Store, manifest: Manifest, session: Session | None) -> Snapshot:
        require_readable(manifest.reader_flags, f"{store.uri}, version {manifest.version}")
        warn_of_generations(store, manifest)
        session = session or DEFAULT_SESSION
        if RECEIVERS:
            report = {"event": "loading", "uri": store.uri, "version": manifest.version}
            emit(DATASET_EVENTS, status="success", **report)
        return cls(store, with_counted_rows(store, manifest, session), session)


def _zoned(when: datetime) -> datetime:
    """Return a moment with a time zone: that of this machine if it has none."""
    try:
        return when.astimezone()
    except (OverflowError, ValueError):  # at an end of the calendar, where zones do not matter
        return when.replace(tzinfo=UTC)


def _slot_of_newest(session: Session, store: Store) -> CacheSlot | None:
    """Return the place of the newest manifest of a table, as it was read last; None for none.

    It is used again if the file is still the same, byte for byte. In remote stores that would save
    little, because the file is read each time.
    """
    if isinstance(store, LocalStore):
        return CacheSlot(session.metadata, (Manifest, store.root))
    return None


def _loaded_or_damage(store: Store, name: ManifestName) -> Manifest | CorruptFileError:
    try:
        return load_named(store, name)
    except CorruptFileError as error:
        return error


def _way_back(store: Store, damaged: int) -> str:
    """Describe what to do about a table whose newest version cannot be opened."""
    whole = newest_sound(store, damaged)
    if whole is None:
        return f"version {damaged} is the newest of {store.uri}, and no other can be read"
    return (
        f"version {damaged} is the newest of {store.uri}; version {whole.version} is whole: open "
        f"it with version={whole.version}, and make it the newest by its restore() or by "
        f"`pilum repair --restore {store.uri}`"
    )


def with_counted_rows(store: Store, manifest: Manifest, session: Session) -> Manifest:
    """Return the manifest with the physical row counts of its fragments; unchanged if it has them.

    Manifests without a writer version have no number of physical rows, or a wrong one: some writers
    recorded the rows that were not deleted. They do not record the number of deleted rows either.
    Both are then read from the files. Source: docs/format/table.md, "Deleted rows".

    Rows are counted when the fragments are first used, which may then raise the errors of
    `_all_counted`. Thus the history and the indices of a table can be listed even if its data files
    are missing.
    """
    if manifest.writer_version is not None and manifest.fragments.are_counted:
        return manifest
    counted = Fragments(partial(_all_counted, store, manifest, session))
    return replace(manifest, fragments=counted)


def _all_counted(store: Store, manifest: Manifest, session: Session) -> Iterator[Fragment]:
    """Count the rows of every fragment; raise if a file is missing, damaged or too new."""
    store = with_bases(store, manifest.base_paths)
    for stored in manifest.fragments:
        fragment = _uncounted(stored) if manifest.writer_version is None else stored
        yield fragment if fragment.is_counted else _counted(store, fragment, session)


def _uncounted(fragment: Fragment) -> Fragment:
    file = fragment.deletion_file and replace(fragment.deletion_file, num_deleted_rows=0)
    return replace(fragment, physical_rows=0, deletion_file=file)


def _counted(store: Store, fragment: Fragment, session: Session) -> Fragment:
    if not fragment.physical_rows and fragment.files:
        num_rows = _rows_of_file(store, fragment, session)
        fragment = replace(fragment, physical_rows=num_rows)
    deleted = load_deletions(store, fragment)
    if fragment.deletion_file is None or deleted is None:
        return fragment
    file = replace(fragment.deletion_file, num_deleted_rows=len(deleted))
    return replace(fragment, deletion_file=file)


def _rows_of_file(store: Store, fragment: Fragment, session: Session) -> int:
    try:
        reader = open_data_file(session, store, fragment.files[0])
    except UnsupportedVersionError as error:
        raise UnsupportedVersionError(
            f"{store.uri}: the number of rows is not recorded, and {error}"
        ) from None
    return reader.num_rows
