"""The sizes of the columns of a table, and of its files by kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pilum.dataset.explain import explain
from pilum.dataset.lance_dataset import LanceDataset

__all__ = ["FileFacts", "FileSizes", "TableSizes", "files_of", "sizes_of"]

_KINDS = {
    "data": "data files and blobs",
    "_blobs": "managed blobs",
    "_versions": "manifests",
    "_transactions": "transactions",
    "_deletions": "deletion files",
    "_indices": "indices",
    "_refs": "tags and branches",
    "tree": "branches",
}
"""The folders of a table, and what they contain."""


@dataclass(frozen=True, slots=True)
class ColumnSizes:
    """The sizes of one leaf column of one version.

    Attributes:
        name: Names from the column to the leaf, joined by dots.
        size_bytes: Bytes of its pages.
        raw_bytes: Bytes of its values in memory; None if unknown.
        pages: Number of its pages.
    """

    name: str
    size_bytes: int
    raw_bytes: int | None
    pages: int


@dataclass(frozen=True, slots=True)
class FileSizes:
    """The files of one kind, of all versions: their number and size."""

    kind: str
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TableSizes:
    """The sizes of a table.

    Attributes:
        columns: Columns of this version, the largest first.
        files: The files below the root of the table by kind, the largest first; files in base paths
            are not included.
        version_bytes: Bytes of the data files of this version, as far as it was recorded.
    """

    columns: tuple[ColumnSizes, ...]
    files: tuple[FileSizes, ...]
    version_bytes: int


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One file of a version.

    Attributes:
        fragment: Id of the fragment that it belongs to.
        kind: "data" or "deletions".
        path: Path below the root of the table, or of its base path.
        base_id: Id of the base path; None for the table's own folder.
        size_bytes: Size of the file; None if it was not recorded.
        version: File version; empty for deletion files.
        rows: Number of rows that it stores, or deletes.
        columns: Names of the columns that it contains.
    """

    fragment: int
    kind: str
    path: str
    base_id: int | None
    size_bytes: int | None
    version: str
    rows: int
    columns: tuple[str, ...]


def sizes_of(dataset: LanceDataset) -> TableSizes:
    """Measure a table: its columns from the metadata of data files, all files from a listing."""
    picture = explain(dataset).picture()
    columns = [
        ColumnSizes(one.name, one.size_bytes, one.raw_bytes, len(one.boxes))
        for one in picture.columns
    ]
    version_bytes = sum(one.size_bytes or 0 for one in files_of(dataset) if one.kind == "data")
    return TableSizes(
        tuple(sorted(columns, key=lambda one: -one.size_bytes)),
        tuple(sorted(_file_sizes(dataset), key=lambda one: -one.size_bytes)),
        version_bytes,
    )


def files_of(dataset: LanceDataset) -> Iterator[FileFacts]:
    """Yield the data files and deletion files of the pinned version, by fragment."""
    schema = dataset.lance_schema.stored
    for fragment in dataset.snapshot.manifest.fragments:
        for file in fragment.all_files:
            fields = (schema.find(one) for one in file.fields)
            names = {
                (schema.path(field.id) or field.name).split(".")[0] for field in fields if field
            }
            yield FileFacts(
                int(fragment.id),
                "data",
                file.path if file.base_id is not None else file.path_in_table,
                file.base_id,
                file.size_bytes,
                f"{file.major}.{file.minor}",
                fragment.physical_rows,
                tuple(name for name in schema.names if name in names),
            )
        if fragment.deletion_file is not None:
            deleted = fragment.deletion_file
            yield FileFacts(
                int(fragment.id),
                "deletions",
                deleted.path(fragment.id),
                deleted.base_id,
                None,
                "",
                fragment.num_deleted_rows,
                (),
            )


def _file_sizes(dataset: LanceDataset) -> Iterator[FileSizes]:
    found = dataset.all_files().read_all()
    folders = pc.list_element(pc.split_pattern(found["path"], "/", max_splits=1), 0)
    groups = pa.table({"folder": folders, "size": found["size_bytes"]}).group_by("folder")
    counts: dict[str, tuple[int, int]] = {}
    for row in groups.aggregate([("size", "sum"), ("size", "count")]).to_pylist():
        kind = _KINDS.get(row["folder"], "other files")
        files, size = counts.get(kind, (0, 0))
        counts[kind] = files + row["size_count"], size + row["size_sum"]
    for kind, (files, size) in counts.items():
        yield FileSizes(kind, files, size)
