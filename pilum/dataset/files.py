"""The files of a table: all existing ones, and those that its versions need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, TypeAlias

import pyarrow as pa

from pilum.format.pb import table_pb2
from pilum.storage.base import Store, entries_below
from pilum.table.model.base_paths import index_place, with_bases
from pilum.table.model.manifest import Manifest
from pilum.table.model.manifest_file import load_manifest
from pilum.table.model.names import transaction_path
from pilum.table.versions.commit_handler import list_manifests

__all__ = ["all_files", "tracked_files"]

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
OnVersion: TypeAlias = Callable[[int, int | None], object]


def all_files(store: Store, uri: str) -> pa.RecordBatchReader:
    """List all files below the root of a table; see `LanceDataset.all_files`."""
    return pa.RecordBatchReader.from_batches(_FILES, _listed(store, uri, ""))


def tracked_files(
    store: Store, uri: str, min_version: int, progress: OnVersion | None
) -> pa.RecordBatchReader:
    """List the files that versions of a table need; see `LanceDataset.tracked_files`."""
    return pa.RecordBatchReader.from_batches(_TRACKED, _tracked(store, uri, min_version, progress))


def _tracked(
    store: Store, uri: str, min_version: int, progress: OnVersion | None
) -> Iterator[pa.RecordBatch]:
    names = [name for name in reversed(list_manifests(store)) if name.version >= min_version]
    for number, name in enumerate(names, 1):
        manifest = load_manifest(store, name.path)
        places = [
            (uri, name.path, "manifest"),
            *_places(with_bases(store, manifest.base_paths), manifest, uri),
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
        for file in fragment.all_files:
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
