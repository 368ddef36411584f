"""The files of a table: all existing ones, and those that its versions need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pilum.arguments import require_count
from pilum.dataset.base import DatasetBase
from pilum.errors import DatasetNotFoundError
from pilum.format.pb import table_pb2
from pilum.storage.base import Store, entries_below
from pilum.storage.open import Location
from pilum.table.model.base_paths import index_place, own_store, with_bases
from pilum.table.model.manifest import Manifest
from pilum.table.model.manifest_file import load_manifest
from pilum.table.model.names import transaction_path
from pilum.table.upkeep.drop import drop_table
from pilum.table.versions.commit_handler import list_manifests
from pilum.table.versions.open import open_table

if TYPE_CHECKING:
    from pilum.file.session import LanceFileSession

__all__ = ["Files"]

_URI = pa.field("base_uri", pa.dictionary(pa.int32(), pa.string()), nullable=False)
_PATH = pa.field("path", pa.string(), nullable=False)
_FILES = pa.schema(
    [
        _URI,
        _PATH,
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", "UTC"), nullable=False),
    ]
)
_TRACKED = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        _URI,
        _PATH,
        pa.field("type", pa.dictionary(pa.int8(), pa.string()), nullable=False),
    ]
)
_EPOCH = datetime.fromtimestamp(0, UTC)
_Place = tuple[str, str, str]


class Files(DatasetBase):
    """Methods of `LanceDataset` for the files of the table."""

    def fragment_ids(self) -> set[int]:
        """Return the ids of all fragments of the pinned version."""
        return {int(fragment.id) for fragment in self._snapshot.manifest.fragments}

    def all_files(self) -> pa.RecordBatchReader:
        """List all files below the root of the table, except in base paths.

        Returns:
            A stream of `base_uri`, `path` below it, `size_bytes` and `last_modified`.
        """
        store = own_store(self._snapshot.store)
        return pa.RecordBatchReader.from_batches(_FILES, _listed(store, self._uri, ""))

    def tracked_files(
        self,
        *,
        min_version: int | None = None,
        progress: Callable[[int, int | None], object] | None = None,
    ) -> pa.RecordBatchReader:
        """List the files that versions of the table need, version by version, newest first.

        Args:
            min_version: The oldest version to include.
            progress: Called after each version with the number of versions done and the total.

        Returns:
            A stream of `version`, `base_uri`, `path` below it, and `type`: "manifest", "data file",
            "deletion file", "transaction file" or "index file". A file is listed for each version
            that needs it.
        """
        least = 0 if min_version is None else require_count("min_version", min_version)
        return pa.RecordBatchReader.from_batches(_TRACKED, self._tracked(least, progress))

    def new_file_session(self) -> LanceFileSession:
        """Return a session that opens and writes single files below the root of the table."""
        from pilum.file.session import LanceFileSession

        return LanceFileSession(self._uri, self._storage_options)

    @property
    def initial_storage_options(self) -> dict[str, str] | None:
        """Return the storage options that the dataset was opened with; None if there were none."""
        return dict(self._storage_options) or None

    def latest_storage_options(self) -> dict[str, str] | None:
        """Return the same as `initial_storage_options`, because options are never refreshed."""
        return self.initial_storage_options

    @staticmethod
    def drop(
        base_uri: Location,
        storage_options: Mapping[str, str] | None = None,
        ignore_not_found: bool | None = None,
    ) -> None:
        """Delete a table with all versions, branches and tags, and anything else in its folder.

        Files in base paths are not deleted.

        Args:
            base_uri: Location of the table.
            storage_options: Options of the object store.
            ignore_not_found: Whether to do nothing if no table exists.

        Raises:
            DatasetNotFoundError: If no table exists there. Other folders are never deleted.
            InvalidInputError: If the location is a branch of a table.
            UnsupportedFeatureError: If an external manifest store holds the versions of the table.
        """
        try:
            drop_table(open_table(base_uri, storage_options))
        except DatasetNotFoundError:
            if not ignore_not_found:
                raise

    def _tracked(
        self, least: int, progress: Callable[[int, int | None], object] | None
    ) -> Iterator[pa.RecordBatch]:
        store = own_store(self._snapshot.store)
        names = [name for name in reversed(list_manifests(store)) if name.version >= least]
        for number, name in enumerate(names, 1):
            manifest = load_manifest(store, name.path)
            places = [
                (self._uri, name.path, "manifest"),
                *_places(with_bases(store, manifest.base_paths), manifest, self._uri),
            ]
            yield _batch(_TRACKED, [(name.version, *place) for place in places])
            if progress is not None:
                progress(number, len(names))


def _places(store: Store, manifest: Manifest, uri: str) -> Iterator[_Place]:
    """Yield the files of a version, except its manifest."""
    bases = {base.id: base for base in manifest.base_paths}
    if manifest.transaction_file:
        yield uri, transaction_path(manifest.transaction_file), "transaction file"
    for fragment in manifest.fragments:
        for file in fragment.files:
            base = None if file.base_id is None else bases.get(file.base_id)
            within = base is None or base.is_dataset_root
            path = file.path_in_table if within else file.path
            yield base.path if base else uri, path, "data file"
        deleted = fragment.deletion_file
        if deleted is not None:
            base = None if deleted.base_id is None else bases.get(deleted.base_id)
            yield base.path if base else uri, deleted.path(fragment.id), "deletion file"
    for index in table_pb2.IndexSection.FromString(manifest.index_section).indices:
        base = bases.get(index.base_id) if index.HasField("base_id") else None
        home, folder = index_place(store, index)
        recorded = [f"{folder}/{file.path}" for file in index.files]
        for path in recorded or [path for path, _ in entries_below(home, folder)]:
            yield base.path if base else uri, path, "index file"


def _listed(store: Store, uri: str, folder: str) -> Iterator[pa.RecordBatch]:
    rows = [
        (
            uri,
            f"{folder}{entry.name}",
            entry.size,
            _EPOCH if entry.modified is None else datetime.fromtimestamp(entry.modified, UTC),
        )
        for entry in store.list(folder.rstrip("/"))
    ]
    if rows:
        yield _batch(_FILES, rows)
    for name in sorted(store.folders(folder.rstrip("/"))):
        yield from _listed(store, uri, f"{folder}{name}/")


def _batch(schema: pa.Schema, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(values, field.type.value_type).dictionary_encode().cast(field.type)
        if isinstance(field.type, pa.DictionaryType)
        else pa.array(values, field.type)
        for field, values in zip(schema, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
