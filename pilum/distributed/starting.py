"""The start of a distributed write: reads the table and fixes the job that all tasks follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal
from uuid import uuid4

import pyarrow as pa

from pilum.container.open import default_version
from pilum.distributed.job import Mode, WriteJob
from pilum.errors import DatasetAlreadyExistsError, DatasetNotFoundError, InvalidInputError
from pilum.format.version import FileVersion
from pilum.table.changes.add_columns import require_not_legacy
from pilum.table.changes.schema_changes import with_missing_columns
from pilum.table.commit.operations.overwrite import IfCreated
from pilum.table.model.manifest import Manifest
from pilum.table.read.snapshot import Snapshot
from pilum.table.versions.commit_handler import TableStore
from pilum.table.versions.open import open_table
from pilum.table.write.align import new_schema
from pilum.table.write.blob_inputs import schema_with_blobs_v2
from pilum.table.write.write import WriteOptions

__all__ = ["start_job"]


def start_job(
    uri: str,
    schema: pa.Schema,
    mode: Mode,
    options: WriteOptions | None = None,
    *,
    version: FileVersion | None = None,
    storage_options: Mapping[str, str] | None = None,
    schema_mode: Literal["merge"] | None = None,
    stable_row_ids: bool = False,
) -> WriteJob:
    """Read the table and create the job of a write; write nothing.

    Args:
        uri: Location of the table.
        schema: Schema of the data; in append mode the table keeps its own.
        mode: "create" requires that no table exists; the other modes create it if none exists.
        options: Options that determine how rows are divided into files.
        version: File version; if None, that of the table or the default for a new table.
        storage_options: Options of the object store.
        schema_mode: "merge" adds the columns that the table lacks, in append mode.
        stable_row_ids: Whether rows of a new table keep their ids when they move; it does not
            affect existing tables.

    Raises:
        DatasetAlreadyExistsError: If `mode` is "create" and a table exists.
        InvalidInputError: If a table cannot have such columns, or files of another version would be
            appended.
        UnsupportedVersionError: If writing the file version of the table is not supported, or
            tables of this version cannot get more columns.
        UnsupportedFeatureError: If the next version of the table would lose something.
        CorruptFileError: If the table contradicts itself.
    """
    access = dict(storage_options or {})
    store = open_table(uri, access)
    location = uri if isinstance(store, TableStore) else store.uri
    draft = _Draft(location, str(uuid4()), options or WriteOptions(), access)
    try:
        latest = Snapshot.latest(store)
    except DatasetNotFoundError:
        job = draft.new("create", schema, version, stable_row_ids=stable_row_ids)
        return replace(job, if_created=IfCreated(mode))
    if mode == "create":
        raise DatasetAlreadyExistsError(
            f"{store.uri}: there is a table already; use mode append or overwrite"
        )
    # The commit would also refuse it, but only after all tasks have written.
    latest.manifest.require_continuable(f"{store.uri}, version {latest.manifest.version}")
    if mode == "overwrite":
        return draft.new(mode, schema, version, latest.manifest)
    return draft.append(latest, schema, version, merges=schema_mode == "merge")


@dataclass(frozen=True, slots=True)
class _Draft:
    """The attributes that all jobs share, regardless of the table."""

    uri: str
    uuid: str
    options: WriteOptions
    access: Mapping[str, str]

    def new(
        self,
        mode: Mode,
        schema: pa.Schema,
        version: FileVersion | None,
        latest: Manifest | None = None,
        *,
        stable_row_ids: bool = False,
    ) -> WriteJob:
        """Return a job whose columns are those of the data."""
        if version is None and latest is not None:
            version = latest.data_version
        version = version or default_version(new_schema(schema), has_sidecars=True)
        if version.has_blobs_v2:
            schema = schema_with_blobs_v2(schema)
        created = new_schema(schema, latest.first_new_field_id if latest else 0)
        read_version = latest.version if latest else 0
        options = replace(self.options, version=version)
        job = WriteJob(self.uri, self.uuid, mode, read_version, created, options, self.access)
        return replace(job, stable_row_ids=stable_row_ids)

    def append(
        self, latest: Snapshot, schema: pa.Schema, version: FileVersion | None, *, merges: bool
    ) -> WriteJob:
        """Return a job whose columns are those of the table, and possibly more."""
        manifest = latest.manifest
        if version not in {None, manifest.data_version}:
            raise InvalidInputError(
                f"{self.uri}: the table has files of version {manifest.data_version}; "
                f"{version} cannot be appended"
            )
        options = replace(self.options, version=manifest.data_version)
        job = WriteJob(
            self.uri, self.uuid, "append", manifest.version, manifest.schema, options, self.access
        )
        if not merges:
            return job
        if manifest.data_version.has_blobs_v2:
            schema = schema_with_blobs_v2(schema)
        grown = with_missing_columns(manifest, schema)
        if grown == manifest.schema:
            return job
        require_not_legacy(latest)
        return replace(job, schema=grown, read_schema=manifest.schema)
