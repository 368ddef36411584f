"""Summaries of tables: what a table is in one line, and the tables in a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from pilum.dataset.lance_dataset import LanceDataset
from pilum.errors import DatasetNotFoundError, PilumError
from pilum.storage.open import open_store
from pilum.table.versions.commit_handler import latest_manifest, open_table

__all__ = ["ColumnFacts", "TableSummary", "columns_of", "summary_of", "tables_in"]


@dataclass(frozen=True, slots=True)
class TableSummary:
    """One version of a table in a line; if it cannot be read, only `uri` and `fault` are known.

    Attributes:
        uri: Location of the table.
        version: Number of the version.
        committed: When it was committed, UTC.
        rows: Number of rows that are not deleted.
        deleted_rows: Number of rows that are stored and deleted.
        columns: Number of columns.
        fragments: Number of fragments.
        data_bytes: Size of its data files, as far as it was recorded.
        indices: Names of its indices.
        data_storage_version: The file version that the table is written in.
        fault: Why it cannot be read; empty if it can.
    """

    uri: str
    version: int | None = None
    committed: datetime | None = None
    rows: int | None = None
    deleted_rows: int | None = None
    columns: int | None = None
    fragments: int | None = None
    data_bytes: int | None = None
    indices: tuple[str, ...] = ()
    data_storage_version: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One field of a schema, nested ones included.

    Attributes:
        id: Id of the field.
        path: Names from the column to the field, joined by dots.
        type: Its Arrow type.
        nullable: Whether nulls are allowed.
        metadata: Metadata of the field.
    """

    id: int
    path: str
    type: str
    nullable: bool
    metadata: Mapping[str, str]


def summary_of(dataset: LanceDataset) -> TableSummary:
    """Summarize the version of a dataset, from its manifest."""
    manifest = dataset.snapshot.manifest
    fragments = list(manifest.fragments)
    return TableSummary(
        dataset.uri,
        manifest.version,
        manifest.timestamp,
        dataset.count_rows(),
        sum(one.num_deleted_rows for one in fragments),
        len(manifest.schema.fields),
        len(fragments),
        sum(file.size_bytes or 0 for one in fragments for file in one.all_files),
        tuple(one.name for one in dataset.describe_indices()),
        manifest.data_format,
    )


def columns_of(dataset: LanceDataset) -> list[ColumnFacts]:
    """Return the fields of the schema, each after its parent."""
    schema = dataset.lance_schema.stored
    return [
        ColumnFacts(
            int(field.id),
            schema.path(field.id) or field.name,
            str(field.arrow_type),
            field.nullable,
            dict(field.metadata),
        )
        for field in schema.walk()
    ]


def tables_in(
    location: str, storage_options: Mapping[str, str] | None = None
) -> Iterator[TableSummary]:
    """Summarize the table at a location, or else the tables in the folder there, by name.

    A table that cannot be opened is reported with its fault.

    Raises:
        DatasetNotFoundError: If there is neither a table nor a folder with one.
    """
    if latest_manifest(open_table(location, storage_options)) is not None:
        yield _summary(location, storage_options)
        return
    found = False
    for name in sorted(open_store(location, storage_options).folders("")):
        place = f"{location.rstrip('/')}/{name}"
        if latest_manifest(open_table(place, storage_options)) is not None:
            found = True
            yield _summary(place, storage_options)
    if not found:
        raise DatasetNotFoundError(f"there is no Lance table at {location}, and none in it")


def _summary(location: str, storage_options: Mapping[str, str] | None) -> TableSummary:
    try:
        return summary_of(LanceDataset(location, storage_options=storage_options))
    except (PilumError, OSError) as error:
        return TableSummary(location, fault=str(error).splitlines()[0])
