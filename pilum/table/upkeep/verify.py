"""A structural check of a table: it finds missing, damaged and unreferenced files.

    manifests      read, version equal to the name, ids of fragments distinct, transaction present
    data files     present, of the recorded size, an intact end, as many rows as the fragment
    deletions      present, decoded, as many rows as recorded
    row ids        stable ones: one per row, none of them twice; versions of all rows
    indices        their files present, of the recorded size
    tags           name versions that exist
    deep           all pages of one version are decoded, and payloads of blobs read; zone maps agree

Each file is checked once, however many versions refer to it. Nothing is changed. Source:
docs/format/table.md, "Files".
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from pilum.container.open import open_file
from pilum.errors import CorruptFileError, InvalidInputError, NotFoundError, PilumError
from pilum.format.fields import Field
from pilum.format.messages import parse_message
from pilum.format.pb import table_pb2, transaction_pb2
from pilum.storage.base import Entry, Store
from pilum.table.model.base_paths import data_file_place, own_store, with_bases
from pilum.table.model.deletion_vector import load_deletions
from pilum.table.model.features import Feature
from pilum.table.model.fragment import DataFile, Fragment
from pilum.table.model.manifest import Manifest
from pilum.table.model.manifest_file import (
    load_manifest,
    load_manifest_and_transaction,
)
from pilum.table.model.names import (
    DATA_FOLDER,
    VERSIONS_FOLDER,
    ManifestName,
    branch_folder,
    manifest_names,
    transaction_path,
)
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.live_rows import live_rows
from pilum.table.read.row_id_index import row_id_index
from pilum.table.read.session import Session
from pilum.table.read.snapshot import Snapshot, with_counted_rows
from pilum.table.upkeep.faults import (
    Fault,
    FaultKind,
    VerifyReport,
    branch_names,
    newest_readable,
    reference_faults,
)
from pilum.table.upkeep.managed_references import ManagedReferences
from pilum.table.upkeep.misread_nulls import files_with_misread_nulls
from pilum.table.upkeep.owned_files import (
    detached_paths,
    index_folder_of,
    needed_by_branches,
    owned_files,
    references,
)
from pilum.table.upkeep.zone_check import ZoneCheck
from pilum.table.versions.commit_handler import latest_manifest, list_manifests
from pilum.table.versions.history import Line

__all__ = ["Fault", "check_fragment", "decode_fragment", "verify"]

_FIRST_SIZED = (0, 3)
_WITH_SCHEMA = ("merge", "overwrite", "project")
_CACHE_BYTES = 16 * 1024 * 1024
_NO_BYTES = 0

OnRows = Callable[[int], None]


def verify(
    snapshot: Snapshot,
    *,
    deep: bool,
    all_versions: bool,
    on_rows: OnRows = lambda num_rows: None,
) -> VerifyReport:
    """Check a table; a deep check also decodes the pages of the snapshot.

    Unless `all_versions` are checked, which finds orphans, only this one is. `on_rows` is called
    with the number of rows decoded.
    """
    return _Check(snapshot).run(deep=deep, all_versions=all_versions, on_rows=on_rows)


def decode_fragment(
    snapshot: Snapshot, fragment: Fragment, on_rows: OnRows = lambda num_rows: None
) -> Fault | None:
    """Decode all pages of a fragment, those of deleted rows included; return the fault, if any.

    Progress is reported in rows.
    """
    path, version = _path_of(fragment), snapshot.manifest.version
    size = sum(file.size_bytes or 0 for file in fragment.files[:1])
    try:
        zones = ZoneCheck(snapshot.reader(fragment), snapshot.described)
        for batch in live_rows(snapshot, [replace(fragment, deletion_file=None)], None):
            zones.add(batch)
            on_rows(batch.num_rows)
    except NotFoundError as error:
        return Fault("missing", path, 0, version, str(error))
    except (PilumError, OSError) as error:
        return Fault("damaged", path, size, version, str(error))
    return None


def check_fragment(snapshot: Snapshot, fragment: Fragment) -> list[Fault]:
    """Return the faults in the files of one fragment of a version."""
    return _Check(snapshot).fragment(fragment)


def _path_of(fragment: Fragment) -> str:
    return fragment.files[0].path_in_table if fragment.files else DATA_FOLDER


def _place_of(file: DataFile) -> str:
    if file.base_id is None:
        return file.path_in_table
    return f"{file.path} of base path {file.base_id}"


class _Check:
    """The state of one check: checked files, and the sizes in bytes of those that exist."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._store: Store = own_store(snapshot.store)
        self._session = Session(_NO_BYTES, _CACHE_BYTES)  # no index is read twice
        self._num_versions = 0
        self._faults: list[Fault] = []
        latest_manifest(self._store)  # finishes a commit that an external store has accepted
        self.sizes = {file.path: file.size for file in owned_files(self._store)}
        self._listed = {entry.name: entry for entry in self._store.list(VERSIONS_FOLDER)}
        self._seen: set[object] = set()
        self.paths: set[str] = set()

    def run(self, *, deep: bool, all_versions: bool, on_rows: OnRows) -> VerifyReport:
        for name in self._names():
            if all_versions or name.version == self._snapshot.manifest.version:
                self._check_version(name)
        if all_versions:
            self._check_references()
            self._look_for_orphans()
        if deep:
            with suppress(PilumError, OSError):  # fragments that cannot be built were reported
                for fragment in self._snapshot.manifest.fragments:
                    self._decode(fragment, on_rows)
        with suppress(PilumError, OSError):
            self._look_for_misread_nulls()
        size_bytes = sum(self.sizes.get(path, 0) for path in self.paths)
        report = VerifyReport(self._num_versions, len(self.paths), size_bytes, deep)
        return report.with_faults(self._faults)

    def fragment(self, fragment: Fragment) -> list[Fault]:
        """Return the faults of one fragment."""
        snapshot = self._snapshot
        self._check_fragment(snapshot.store, fragment, snapshot.manifest.version)
        return self._faults

    def _names(self) -> list[ManifestName]:
        try:
            return manifest_names(self._listed, VERSIONS_FOLDER) or list_manifests(self._store)
        except CorruptFileError as error:
            self._fault("damaged", VERSIONS_FOLDER, None, str(error))
            parsed = map(ManifestName.parse, self._listed)
            return sorted(filter(None, parsed))

    def _check_version(self, name: ManifestName) -> None:
        self._num_versions += 1
        self.paths.add(name.path)
        self.sizes[name.path] = self._entry(name).size
        try:
            manifest = load_manifest(self._store, name.path)
            _, transaction = load_manifest_and_transaction(self._store, name.path)
        except (PilumError, OSError) as error:
            self._fault("damaged", name.path, name.version, str(error))
            return
        if manifest.version != name.version:
            what = f"it says version {manifest.version}"
            self._fault("damaged", name.path, name.version, what)
        self._try(name.path, name.version, lambda: self._check_content(manifest, transaction, name))

    def _check_content(
        self,
        manifest: Manifest,
        transaction: transaction_pb2.Transaction | None,
        name: ManifestName,
    ) -> None:
        """Check the content of a manifest; raise faults that prevent further checks."""
        if contradiction := manifest.contradiction:
            self._fault("damaged", name.path, name.version, contradiction)
        if lost := _lost_fields(manifest, transaction):
            self._fault("damaged", name.path, name.version, lost)
        self._check_transaction(manifest, transaction is not None)
        self._check_indices(manifest)
        store = with_bases(self._store, manifest.base_paths)
        with suppress(PilumError, OSError):  # their faults are reported below
            counted = with_counted_rows(self._store, manifest, self._session)
            _ = counted.fragments
            manifest = counted
        fields = Snapshot(store, manifest, self._session).described.fields
        for fragment in manifest.fragments:
            self._check_fragment(store, fragment, name.version)
            self._check_columns(store, fragment, fields, name.version)
        if manifest.reader_flags & Feature.STABLE_ROW_IDS:
            self._check_row_ids(Snapshot(store, manifest, self._session), name)

    def _check_transaction(self, manifest: Manifest, is_inside: bool) -> None:
        """Check the file of a transaction.

        It may be missing if the manifest contains the transaction.
        """
        if not manifest.transaction_file:
            return
        path = transaction_path(manifest.transaction_file)
        if (path in self.sizes or not is_inside) and self._require(path, None, manifest.version):
            self._try(path, manifest.version, lambda: _parse_transaction(self._store, path))

    def _check_row_ids(self, snapshot: Snapshot, name: ManifestName) -> None:
        try:
            with suppress(NotFoundError):  # missing files were reported above
                row_id_index(snapshot)
                for reader in map(snapshot.reader, snapshot.manifest.fragments):
                    _ = reader.created_at, reader.updated_at
        except (PilumError, OSError) as error:
            self._fault("damaged", name.path, name.version, str(error))

    def _check_indices(self, manifest: Manifest) -> None:
        section = table_pb2.IndexSection.FromString(manifest.index_section)
        for index in section.indices:
            for file in () if index.HasField("base_id") else index.files:
                path = f"{index_folder_of(index)}/{file.path}"
                if self._require(path, file.size_bytes or None, manifest.version):
                    self._try(path, manifest.version, partial(_check_index_file, self._store, path))

    def _check_fragment(self, store: Store, fragment: Fragment, version: int) -> None:
        overlays = ((one.file, None) for one in fragment.overlays)
        for file, num_rows in (
            *((file, fragment.physical_rows) for file in fragment.files),
            *overlays,
        ):
            key = (file, num_rows)
            if key not in self._seen:
                self._seen.add(key)
                self._check_data_file(store, fragment, file, num_rows, version)
        deleted = fragment.deletion_file
        if deleted is None:
            return
        path = deleted.path(fragment.id)
        if deleted.base_id is not None:
            place = f"{path} of base path {deleted.base_id}"
            if place not in self._seen:
                self._seen.add(place)
                self._try(place, version, lambda: load_deletions(store, fragment))
        elif self._require(path, None, version):
            self._try(path, version, lambda: load_deletions(store, fragment))

    def _check_columns(
        self, store: Store, fragment: Fragment, fields: tuple[Field, ...], version: int
    ) -> None:
        """Check the columns of files: their places in the file, and the number of rows."""
        paths = {_place_of(file) for file in fragment.all_files}
        key = (fragment.all_files, fragment.physical_rows, *(field.ids for field in fields))
        if key in self._seen or any(fault.path in paths for fault in self._faults):
            return
        self._seen.add(key)
        reader = FragmentReader(self._session, store, fragment)
        place = _place_of(fragment.files[0]) if fragment.files else DATA_FOLDER
        self._try(place, version, lambda: reader.fields(fields))

    def _check_data_file(
        self, store: Store, fragment: Fragment, file: DataFile, num_rows: int | None, version: int
    ) -> None:
        path = file.path_in_table
        # Releases around 0.30 of the reference recorded 0.1 files as smaller than they are.
        is_legacy = (file.major, file.minor) < _FIRST_SIZED
        size = None if is_legacy else file.size_bytes
        if file.base_id is not None:
            place = _place_of(file)
            check = partial(_check_end, store, fragment, file, num_rows)
            self._try(place, version, partial(check, size))
        elif self._require(path, size, version):
            check = partial(_check_end, store, fragment, file, num_rows)
            self._try(path, version, partial(check, None))

    def _decode(self, fragment: Fragment, on_rows: OnRows) -> None:
        path = _path_of(fragment)
        if any(fault.path == path for fault in self._faults):
            return
        snapshot = replace(self._snapshot, session=self._session)
        fault = decode_fragment(snapshot, fragment, on_rows)
        if fault is not None:
            self._fault(fault.kind, path, fault.version, fault.what)

    def _check_references(self) -> None:
        """Check tags and branches, if this is the main line."""
        if self._snapshot.manifest.branch is not None:
            return
        line = Line(self._store, None, self._store)
        self._faults.extend(reference_faults(line))
        for name in branch_names(self._store):
            with suppress(InvalidInputError):  # no branch can have this name
                self._check_branch(line.other(name).store, f"{branch_folder(name)}/")

    def _check_branch(self, store: Store, prefix: str) -> None:
        readable = newest_readable(store)
        if readable is None:
            return  # its record was reported as naming no version, or all manifests are damaged
        snapshot = Snapshot(store, load_manifest(store, readable.path), self._session)
        check = _Check(snapshot)
        found = check.run(deep=False, all_versions=True, on_rows=lambda num_rows: None)
        self._num_versions += found.num_versions
        self._faults += [replace(one, path=prefix + one.path) for one in found.faults]
        self.paths |= {prefix + path for path in check.paths}
        self.sizes |= {prefix + path: size for path, size in check.sizes.items()}

    def _look_for_orphans(self) -> None:
        keys: set[str] = set()
        managed = ManagedReferences(self._store)
        try:
            for path in self._manifest_paths():
                keys |= references(self._store, path).keys(managed)
            line = Line.of(self._store, self._snapshot.manifest.branch)
            keys.update(needed_by_branches(line))
        except (PilumError, OSError):
            return  # its references are unknown
        for file in owned_files(self._store):
            if not file.is_needed(keys):
                what = "no version refers to it"
                self._faults.append(Fault("orphaned", file.path, file.size, None, what))

    def _look_for_misread_nulls(self) -> None:
        version = self._snapshot.manifest.version
        snapshot = replace(self._snapshot, session=self._session)
        for file, members in files_with_misread_nulls(snapshot):
            what = f"not every reader sees the null structs around {', '.join(members)}"
            what = f"{what}; compact_files() writes them again"
            self._fault("misread", _place_of(file), version, what)

    def _manifest_paths(self) -> list[str]:
        names = (name for name in self._listed if ManifestName.parse(name) is not None)
        attached = [f"{VERSIONS_FOLDER}/{name}" for name in names]
        if not attached:
            attached = [name.path for name in list_manifests(self._store)]
        return [*attached, *detached_paths(self._listed)]

    def _require(self, path: str, size: int | None, version: int) -> bool:
        """Return whether a file exists with its recorded size; report a fault otherwise."""
        if path in self.paths:
            return False  # it was checked for another version
        self.paths.add(path)
        found = self.sizes.get(path)
        if found is None:
            self._fault("missing", path, version, "there is no such file")
            return False
        if size is not None and found != size:
            what = f"{found} bytes instead of {size}"
            self._fault("damaged", path, version, what)
            return False
        return True

    def _try(self, path: str, version: int, check: Callable[[], object]) -> None:
        try:
            check()
        except NotFoundError as error:
            self._fault("missing", path, version, str(error))
        except (PilumError, OSError) as error:
            self._fault("damaged", path, version, str(error))

    def _fault(self, kind: FaultKind, path: str, version: int | None, what: str) -> None:
        size = self.sizes.get(path, 0)
        self._faults.append(Fault(kind, path, size, version, what))

    def _entry(self, name: ManifestName) -> Entry:
        file_name = name.path.rpartition("/")[2]
        found = self._listed.get(file_name)
        return found or next(one for one in self._store.list("") if one.name == file_name)


def _lost_fields(manifest: Manifest, transaction: transaction_pb2.Transaction | None) -> str:
    """Return how the schema differs from its transaction's, or "" if it does not differ.

    Only some operations have a schema; the metadata of its fields may be changed by the commit.
    """
    arm = transaction and transaction.WhichOneof("operation")
    if arm not in _WITH_SCHEMA:
        return ""
    given = {field.id: field for field in getattr(transaction, arm).schema}
    stored = {field.id: field for field in manifest.schema.to_proto()}
    for number, field in given.items():
        if number >= 0 and number not in stored:
            return f"the schema lacks field {field.name!r} (id {number}) of the {arm}"
    for number, field in stored.items():
        if number >= 0 and (number not in given or given[number].name != field.name):
            return f"the schema has field {field.name!r} (id {number}), which the {arm} has not"
    return ""


def _parse_transaction(store: Store, path: str) -> None:
    parse_message(transaction_pb2.Transaction, store.read(path), path)


def _check_index_file(store: Store, path: str) -> None:
    """Open a file of an index, if it is a Lance file."""
    if path.endswith(".lance"):
        source = store.source(path)
        try:
            open_file(source)
        finally:
            source.close()


def _check_end(
    store: Store, fragment: Fragment, file: DataFile, num_rows: int | None, size: int | None
) -> None:
    """Open a data file and compare it with the manifest; of overlays, readers check the rows."""
    home, path = data_file_place(store, file)
    reader = open_file(home.source(path, size))
    try:
        if num_rows is not None and reader.num_rows != num_rows:
            raise CorruptFileError(
                f"rows: the manifest says {num_rows}, the file {reader.num_rows}",
                f"fragment {fragment.id}",
            )
    finally:
        reader.source.close()
