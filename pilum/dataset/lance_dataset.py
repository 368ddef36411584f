"""The front door: opening and writing tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime
from typing import Any, Literal

import pyarrow as pa

from pilum.container.options import FileOptions
from pilum.dataset.base import DatasetBase, Location, options_of, pinned_by, store_of
from pilum.dataset.base_paths import BaseRequest, DatasetBasePath
from pilum.dataset.blobs import Blobs
from pilum.dataset.branches import Branching
from pilum.dataset.cleaning import Cleaning
from pilum.dataset.cloning import Cloning
from pilum.dataset.configuring import Configuring
from pilum.dataset.deleting import Deleting
from pilum.dataset.delta import Deltas
from pilum.dataset.evolving import Evolving
from pilum.dataset.filing import Filing
from pilum.dataset.indexing import Indexing
from pilum.dataset.merging import Merging
from pilum.dataset.optimizing import AutoCleanupConfig, Optimizing, auto_cleanup_settings
from pilum.dataset.placing import Placing
from pilum.dataset.reading import Reading
from pilum.dataset.tags import Tagging
from pilum.dataset.transaction_history import TransactionHistory
from pilum.dataset.transactions import (
    BlobRequest,
    WriteRequest,
    properties_of,
    publish,
    snapshot_of_job,
    write_transaction,
)
from pilum.dataset.updating import Updating
from pilum.dataset.verifying import Verifying
from pilum.dataset.versions import Versions, moment
from pilum.dataset.writing import Writing
from pilum.encodings.options import EncodingOptions
from pilum.errors import InvalidInputError
from pilum.storage.finishing import left_to_commit
from pilum.table.commit.jobs import JobKey
from pilum.table.model.names import NamingScheme
from pilum.table.read.session import Session
from pilum.table.read.snapshot import Snapshot
from pilum.table.refs.references import Reference
from pilum.table.versions.commit_handler import CommitHandler, CommitLock
from pilum.table.versions.open import open_table
from pilum.table.write.write import WriteOptions

__all__ = ["LanceDataset", "dataset", "write_dataset"]

_DEFAULTS = WriteOptions()


class LanceDataset(
    Reading,
    Blobs,
    Writing,
    Deleting,
    Updating,
    Merging,
    Evolving,
    Indexing,
    Versions,
    Deltas,
    TransactionHistory,
    Tagging,
    Branching,
    Cloning,
    Placing,
    Configuring,
    Optimizing,
    Cleaning,
    Verifying,
    Filing,
):
    """One version of a table.

    What it gives never changes, whatever others write meanwhile; `checkout_latest`, `insert`,
    `delete`, `update`, `merge_insert` and the calls that change columns move it on. It pickles as
    its location and version, and exports itself to other libraries as an Arrow stream.
    """


def dataset(
    uri: Location,
    version: Reference | None = None,
    asof: datetime | date | str | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    metadata_cache_size_bytes: int | None = None,
    index_cache_size_bytes: int | None = None,
    session: Session | None = None,
    commit_lock: CommitLock | None = None,
    commit_handler: CommitHandler | None = None,
    default_scan_options: Mapping[str, Any] | None = None,
    block_size: int | None = None,
    index_cache_size: int | None = None,
    read_params: Mapping[str, Any] | None = None,
) -> LanceDataset:
    """Open a table.

    Args:
        uri: A local path or a `file://` URI.
        version: Its number, the name of a tag or `(branch, number)`, where None means the main
            branch or the newest version; None for the latest.
        asof: Instead of a version: the newest one at that moment. Local time unless it has a zone;
            a date means its first moment.
        storage_options: Options of the object store.
        metadata_cache_size_bytes: Uses caches of its own; see `pilum.Session`.
        index_cache_size_bytes: The same.
        session: Session whose caches are used; None for the caches of the process.
        commit_lock: As in `write_dataset`, for what this dataset commits.
        commit_handler: The same.
        default_scan_options: Arguments of `scanner` for all scans that do not give them.
        block_size: A hint that changes nothing, as the next ones.
        index_cache_size: A hint.
        read_params: Hints.

    Raises:
        DatasetNotFoundError: If no table exists there.
        VersionNotFoundError: If it has no such version, or is younger than `asof`.
        TagNotFoundError: If the tag does not exist.
        BranchNotFoundError: If the branch does not exist.
        UnsupportedFormatError: If the location or the table needs what is not there yet.
        InvalidInputError: If an argument is invalid.
    """
    del block_size, index_cache_size, read_params
    found = _opened(
        uri,
        version,
        asof,
        storage_options,
        _session(metadata_cache_size_bytes, index_cache_size_bytes, session),
        commit_lock,
        commit_handler,
    )
    if default_scan_options:
        found._scan_defaults = dict(default_scan_options)
    return found


def _session(
    metadata_cache_size_bytes: int | None,
    index_cache_size_bytes: int | None,
    session: Session | None,
) -> Session | None:
    if metadata_cache_size_bytes is not None or index_cache_size_bytes is not None:
        if session is not None:
            raise InvalidInputError("pass a session or the sizes of its caches, not both")
        return Session(index_cache_size_bytes, metadata_cache_size_bytes)
    return session


def _opened(
    uri: Location,
    version: Reference | None,
    asof: datetime | date | str | None,
    storage_options: Mapping[str, str] | None,
    session: Session | None,
    commit_lock: CommitLock | None,
    commit_handler: CommitHandler | None,
) -> LanceDataset:
    if asof is None:
        return LanceDataset(
            uri,
            version,
            storage_options=storage_options,
            session=session,
            commit_lock=commit_lock,
            commit_handler=commit_handler,
        )
    if version is not None:
        raise InvalidInputError("pass a version or asof, not both")
    store = open_table(uri, storage_options, commit_lock=commit_lock, commit_handler=commit_handler)
    snapshot = Snapshot.as_of(store, moment(asof), session)
    return LanceDataset.pinned(uri, storage_options, snapshot)


def write_dataset(
    data_obj: Any,
    uri: Location | DatasetBase,
    schema: pa.Schema | None = None,
    mode: str = "create",
    *,
    schema_mode: Literal["merge"] | None = None,
    max_rows_per_file: int = _DEFAULTS.max_rows_per_file,
    max_rows_per_group: int = _DEFAULTS.layout.max_rows_per_group,
    max_bytes_per_file: int = _DEFAULTS.max_bytes_per_file,
    data_cache_bytes: int | None = None,
    max_page_bytes: int | None = None,
    buffer_alignment: int = _DEFAULTS.layout.buffer_alignment,
    encoding_options: EncodingOptions = _DEFAULTS.layout.encoding,
    storage_options: Mapping[str, str] | None = None,
    data_storage_version: str | None = None,
    enable_v2_manifest_paths: bool = True,
    enable_stable_row_ids: bool = False,
    auto_cleanup_options: AutoCleanupConfig | None = None,
    commit_message: str | None = None,
    transaction_properties: Mapping[str, str] | None = None,
    initial_bases: Iterable[DatasetBasePath] | None = None,
    target_bases: Iterable[str] | None = None,
    target_all_bases: bool | None = None,
    external_blob_mode: Literal["reference", "ingest"] = "reference",
    allow_external_blob_outside_bases: bool = False,
    blob_pack_file_size_threshold: int | None = None,
    commit_lock: CommitLock | None = None,
    commit_handler: CommitHandler | None = None,
    idempotency_key: JobKey | None = None,
    use_legacy_format: bool | None = None,
    session: Session | None = None,
) -> LanceDataset:
    """Write rows as one new version of a table.

    Args:
        data_obj: A pyarrow Table, RecordBatch, RecordBatchReader, Dataset or Scanner; a pandas
            DataFrame; a list of dicts; a dict of columns; an iterable of record batches; a
            LanceDataset, a LanceScanner or anything else with `__arrow_c_stream__`. What can be
            streamed is never in memory as a whole.
        uri: A local path or a `file://` URI.
        schema: Schema that the data is cast to. Required for an iterable that may be empty.
        mode: "create" demands that there is no table; "append" adds rows, "overwrite" replaces
            schema and rows, and both create the table if there is none.
        schema_mode: "merge" adds columns and members of structs that the table lacks to it, in the
            same commit as the rows: they are null for all rows that are there. None refuses them.
        max_rows_per_file: Maximum number of rows in a file.
        max_rows_per_group: Rows per row group in files of version 0.1; later versions have no
            groups.
        max_bytes_per_file: A file that has reached this size receives no further batches.
        data_cache_bytes: Bytes of rows to buffer before pages are written, for all columns
            together; if None, a page is about 8 MiB.
        max_page_bytes: Maximum size of a page in memory, in bytes. A page always holds at least one
            row.
        buffer_alignment: Alignment of buffers in files, in bytes; 4096 suits direct I/O.
        encoding_options: Encoding preferences; metadata of a field take precedence.
        storage_options: Options of the object store.
        data_storage_version: File version of a new or overwritten table, such as "2.1".
        enable_v2_manifest_paths: Whether manifests of a new table have the newer names, with which
            it opens as fast as ever however many versions it has.
        enable_stable_row_ids: Whether rows of a new table keep their ids when they move; a table
            that exists stays as it was made.
        auto_cleanup_options: Old versions of a new table are removed after every `interval`
            versions, if they are older than `older_than_seconds`; by every writer.
        commit_message: A message that is recorded in the history.
        transaction_properties: More notes.
        initial_bases: Other folders that data files of a new table may lie in.
        target_bases: Names or paths of such folders: data files go there, in turn.
        target_all_bases: Whether they go, in turn, to the table's own folder and to all others.
        external_blob_mode: Whether blobs given by URI stay references or are read and stored.
        allow_external_blob_outside_bases: Whether references may point outside the table.
        blob_pack_file_size_threshold: A file in which blobs are packed is closed at this size;
            1 GiB if None.
        commit_lock: Called with the number of the version to be committed, gives a context manager
            in which nobody else writes it; for stores that cannot create a file conditionally.
            What it raises on entering is a `CommitError`, and nothing is committed.
        commit_handler: Another way to decide about versions: a `pilum.commit.CommitHandler`, such
            as `pilum.commit.ExternalManifests`.
        idempotency_key: Names the job that this write is: if the table has it already, nothing is
            read or written. A text is remembered for 100 such jobs; of a pair `(app_id, number)`
            the highest number is remembered, for streams that number their batches.
        use_legacy_format: The same as `data_storage_version="0.1"` if True.
        session: Whose caches the dataset uses; None for those of the process.

    Returns:
        The dataset at the new version, or at that which took the job in.

    Raises:
        DatasetAlreadyExistsError: If mode is "create" and there is a table.
        SchemaMismatchError: If the data does not fit the table or `schema`.
        UnsupportedTypeError: If a new table cannot hold a type of the data.
        UnsupportedFormatError: If the location or the table needs what is not there yet.
        CommitError: If others wrote at the same time and this write cannot stand beside.
        InvalidInputError: If any other argument is invalid.
    """
    if use_legacy_format and data_storage_version is not None:
        raise InvalidInputError("pass data_storage_version or use_legacy_format, not both")
    location = uri.uri if isinstance(uri, DatasetBase) else uri
    store = store_of(uri, storage_options, commit_lock, commit_handler)
    wanted = WriteRequest(
        mode,
        max_rows_per_file,
        max_bytes_per_file,
        "0.1" if use_legacy_format else data_storage_version,
        properties_of(commit_message, transaction_properties, idempotency_key),
        FileOptions(
            data_cache_bytes, max_page_bytes, buffer_alignment, encoding_options, max_rows_per_group
        ),
        BlobRequest(
            external_blob_mode, allow_external_blob_outside_bases, blob_pack_file_size_threshold
        ),
        stable_row_ids=bool(enable_stable_row_ids),
        bases=BaseRequest.of(initial_bases, target_bases, target_all_bases),
        config=auto_cleanup_settings(auto_cleanup_options) if auto_cleanup_options else {},
        schema_mode=schema_mode,
    )
    snapshot = snapshot_of_job(store, idempotency_key)
    if snapshot is None:
        scheme = NamingScheme.V2 if enable_v2_manifest_paths else NamingScheme.V1
        with left_to_commit():
            written = write_transaction(store, data_obj, schema, wanted, pinned_by(uri, store))
            snapshot = publish(store, written, scheme=scheme)
    if session is not None:
        snapshot = replace(snapshot, session=session)
    return LanceDataset.pinned(location, options_of(uri, storage_options), snapshot)
