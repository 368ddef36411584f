"""`LanceDataset`, and the functions that open and write tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any, Unpack

import pyarrow as pa

from pilum.arguments import require_known, with_keywords
from pilum.dataset.base import DatasetBase, options_of, pinned_by, session_of, store_of
from pilum.dataset.columns import ColumnChanges
from pilum.dataset.indices import Indices
from pilum.dataset.namespaces import Expected, located, only_handler
from pilum.dataset.reading import Reading
from pilum.dataset.rows import RowChanges
from pilum.dataset.settings import Settings
from pilum.dataset.upkeep import AutoCleanupConfig, Upkeep, auto_cleanup_settings
from pilum.dataset.versions import Versions, moment
from pilum.dataset.write import WRITE_DEFAULTS, FragmentKeywords, InsertKeywords, Write, write
from pilum.dataset.writing import Writing
from pilum.errors import InvalidInputError
from pilum.storage.open import Location
from pilum.table.model.base_options import with_base_params
from pilum.table.model.names import NamingScheme
from pilum.table.read.session import Session
from pilum.table.read.snapshot import Snapshot
from pilum.table.refs.references import Reference
from pilum.table.versions.commit_handler import CommitHandler, CommitLock, open_table

__all__ = ["LanceDataset", "dataset", "write_dataset"]


class LanceDataset(
    Reading,
    Writing,
    RowChanges,
    ColumnChanges,
    Indices,
    Versions,
    Settings,
    Upkeep,
):
    """One version of a table.

    A dataset is a snapshot: concurrent writes do not change what it returns. `checkout_latest`,
    `insert`, `delete`, `update`, `merge_insert` and the methods that change columns move it to a
    newer version. It is pickled as its location and version, and can be exported to other libraries
    as an Arrow stream.

    A location is a local path or the URI of a folder in an object store; see `dataset`.
    """

    @classmethod
    def from_pydantic_model(
        cls,
        model_class: Any,
        data: Sequence[Any],
        uri: Location | None = None,
        mode: str = "create",
        **kwargs: Any,
    ) -> LanceDataset:
        """Write instances of a model of pydantic as rows.

        The schema is that of the annotations, see `pilum.pydantic`, and not that of the values.

        Args:
            model_class: The model.
            data: The instances.
            uri: Location of the table; None for the name of the model in lower case, with an
                underscore before each word, in the current folder, unless a namespace is given.
            mode: As in `pilum.write_dataset`.
            kwargs: Further arguments of `pilum.write_dataset`.

        Raises:
            MissingDependencyError: If pydantic is not installed.
            UnsupportedTypeError: If the annotation of a field has no Arrow type.
            InvalidInputError: If one of the data is not an instance.
        """
        from pilum.pydantic import pydantic_to_schema, rows_of

        schema, rows = pydantic_to_schema(model_class), rows_of(model_class, data)
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", model_class.__name__).lower()
        table = pa.Table.from_pylist(rows, schema)
        if uri is None and kwargs.get("namespace_client") is None:
            uri = name
        return write_dataset(table, uri, mode=mode, **kwargs)


def dataset(
    uri: Location | None = None,
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
    namespace_client: Any = None,
    table_id: Sequence[str] | None = None,
    base_store_params: Mapping[str, Mapping[str, str]] | None = None,
) -> LanceDataset:
    """Open a table.

    Args:
        uri: A local path, or the URI of a folder: `file://`, `s3://`, `gs://`, `az://` or
            `memory://`; the guide of object stores lists the options of each. None with a
            namespace.
        version: Number of the version, name of a tag, or `(branch, number)`, where None means the
            main branch or the newest version; None for the latest.
        asof: Open the newest version at this point in time, instead of `version`. Local time unless
            it has a zone; a date means its start.
        storage_options: Options of the object store.
        metadata_cache_size_bytes: Size of the metadata cache; the dataset then has its own caches.
            See `pilum.Session`.
        index_cache_size_bytes: Size of the index cache; the dataset then has its own caches.
        session: Session whose caches the dataset uses; None for the caches of the process.
        commit_lock: As in `write_dataset`, for commits of this dataset.
        commit_handler: As in `write_dataset`, for commits of this dataset.
        default_scan_options: Default arguments of `scanner` for all scans.
        block_size: Accepted for compatibility; has no effect.
        index_cache_size: Accepted for compatibility; has no effect.
        read_params: Accepted for compatibility; has no effect.
        namespace_client: A `lance_namespace.LanceNamespace`, which is asked for the location of the
            table and for options of its object store. These take precedence over
            `storage_options`. If they expire, it is asked again in time, as long as the dataset is
            used. Errors of the namespace are passed on.
        table_id: The id of the table in the namespace, such as `["workspace", "table"]`.
        base_store_params: Options of the object store for single base paths, by their location.
            They take precedence over options `base_{id}.{option}` of `storage_options`, and these
            over the options of the table.

    Raises:
        DatasetNotFoundError: If no table exists there.
        VersionNotFoundError: If the version does not exist, or the table is newer than `asof`.
        TagNotFoundError: If the tag does not exist.
        BranchNotFoundError: If the branch does not exist.
        UnsupportedFormatError: If the location or the table needs a feature that is not supported.
        InvalidInputError: If an argument is invalid.
    """
    location, options, handler = located(uri, storage_options, namespace_client, table_id)
    commit_handler = only_handler(handler, commit_handler, commit_lock)
    storage_options = with_base_params(options, base_store_params)
    if asof is None:
        return LanceDataset(
            location,
            version,
            block_size=block_size,
            index_cache_size=index_cache_size,
            commit_lock=commit_lock,
            storage_options=storage_options,
            default_scan_options=default_scan_options,
            metadata_cache_size_bytes=metadata_cache_size_bytes,
            index_cache_size_bytes=index_cache_size_bytes,
            read_params=read_params,
            session=session,
            commit_handler=commit_handler,
        )
    if version is not None:
        raise InvalidInputError("pass a version or asof, not both")
    session = session_of(session, index_cache_size_bytes, metadata_cache_size_bytes)
    store = open_table(
        location, storage_options, commit_lock=commit_lock, commit_handler=commit_handler
    )
    snapshot = Snapshot.as_of(store, moment(asof), session)
    found = LanceDataset.pinned(location, storage_options, snapshot)
    if default_scan_options:
        found._scan_defaults = dict(default_scan_options)
    return found


class WriteKeywords(InsertKeywords, FragmentKeywords, total=False):
    """The keywords of `write_dataset`, which explains them."""

    enable_v2_manifest_paths: bool
    auto_cleanup_options: AutoCleanupConfig | None
    blob_pack_file_size_threshold: int | None
    commit_lock: CommitLock | None
    commit_handler: CommitHandler | None


@with_keywords(WriteKeywords, WRITE_DEFAULTS)
def write_dataset(
    data_obj: Any,
    uri: Location | DatasetBase | None = None,
    schema: pa.Schema | None = None,
    mode: str = "create",
    **keywords: Unpack[WriteKeywords],
) -> LanceDataset:
    """Write rows as one new version of a table.

    Args:
        data_obj: A pyarrow Table, RecordBatch, RecordBatchReader, Dataset or Scanner; a pandas
            DataFrame; a list of dicts; a dict of columns; an iterable of record batches; a
            LanceDataset, a LanceScanner or anything else with `__arrow_c_stream__`. Streams are
            never held in memory as a whole.
        uri: A local path, or the URI of a folder, as in `dataset`; or a dataset, which is then
            continued. None with a namespace.
        schema: Schema that the data is cast to. Required for an iterable that may be empty.
        mode: "create" requires that no table exists. "append" adds rows, and "overwrite" replaces
            schema and rows; both create the table if none exists.
        schema_mode: "merge" adds columns and struct members that the table lacks, in the same
            commit as the rows; they are null for all existing rows. None rejects such columns.
        max_rows_per_file: Maximum number of rows in a file.
        max_rows_per_group: Rows per row group in files of version 0.1; later versions have no
            groups.
        max_bytes_per_file: A file that has reached this size receives no further batches.
        data_cache_bytes: Bytes of rows to buffer before pages are written, for all columns
            together; if None, a page is about 8 MiB, and less if a stream has more than six
            columns: 32 MiB for all of them, but at least 1 MiB each.
        max_page_bytes: Maximum size of a page in memory, in bytes. A page always holds at least one
            row.
        buffer_alignment: Alignment of buffers in files, in bytes; 4096 suits direct I/O.
        encoding_options: Encoding preferences; metadata of a field take precedence.
        storage_options: Options of the object store.
        base_store_params: As in `pilum.dataset`.
        data_storage_version: File version of a new or overwritten table, such as "2.1".
        enable_v2_manifest_paths: Whether manifests of a new table use the V2 naming scheme, with
            which opening the table takes constant time regardless of the number of versions.
        enable_stable_row_ids: Whether rows of a new table keep their ids when they move; it does
            not affect existing tables.
        auto_cleanup_options: Cleanup settings of a new table: every `interval` versions, the writer
            removes versions older than `older_than_seconds`.
        commit_message: A message that is recorded in the history of versions.
        transaction_properties: Further properties that are recorded in the history.
        initial_bases: Base paths of a new table: other folders that may contain data files.
        target_bases: Names or paths of base paths that data files are written to, in turn.
        target_all_bases: Whether data files are written, in turn, to the table's own folder and to
            all base paths.
        progress: Is called at the beginning and the end of each new fragment.
        external_blob_mode: Whether blobs given by URI stay references or are read and stored.
        allow_external_blob_outside_bases: Whether references may point outside the table.
        blob_pack_file_size_threshold: Size at which a packed blob file is closed; 1 GiB if None.
        commit_lock: Function that takes the number of the version to be committed and returns a
            context manager that keeps other writers out; for stores without conditional put. An
            error that it raises on entering is reported as a `CommitError`, and nothing is
            committed.
        commit_handler: Handler that commits and resolves versions: a `pilum.commit.CommitHandler`,
            such as `pilum.commit.ExternalManifests`.
        namespace_client: As in `pilum.dataset`. With `mode` "create", the table is declared in the
            namespace first, and stays declared if the write fails; with the other modes, the
            namespace has to list the table.
        table_id: As in `pilum.dataset`.
        idempotency_key: Identifies this job, so that the write is idempotent: if the table already
            contains the job, nothing is read or written. A string key is remembered for 100 such
            jobs. For a pair `(app_id, number)` the highest number is remembered, for streams that
            number their batches.
        use_legacy_format: True is the same as `data_storage_version="0.1"`.
        session: Session whose caches the dataset uses; None for the caches of the process.
        storage_options_provider: Must be None; older releases of the reference have it.

    Returns:
        The dataset at the new version, or at the version that already contains the job.

    Raises:
        DatasetAlreadyExistsError: If `mode` is "create" and a table exists.
        SchemaMismatchError: If the data does not fit the table or `schema`.
        UnsupportedTypeError: If the file version of a new table cannot store a type of the data.
        UnsupportedFormatError: If the location or the table needs a feature that is not supported.
        CommitError: If a concurrent commit conflicts with this write.
        InvalidInputError: If any other argument is invalid.
    """
    require_known("write_dataset has", keywords, WriteKeywords.__annotations__)
    wanted = Write.of(mode, keywords)
    if cleanup := keywords.get("auto_cleanup_options"):
        wanted = replace(wanted, config=auto_cleanup_settings(cleanup))
    table, options, handler = located(
        uri,
        keywords.get("storage_options"),
        keywords.get("namespace_client"),
        keywords.get("table_id"),
        _expected(wanted),
    )
    if (own := keywords.get("base_store_params")) is not None:
        options = with_base_params(options, own)
    lock = keywords.get("commit_lock")
    handler = only_handler(handler, keywords.get("commit_handler"), lock)
    store = store_of(table, options, lock, handler)
    is_v2 = keywords.get("enable_v2_manifest_paths", True)
    scheme = NamingScheme.V2 if is_v2 else NamingScheme.V1
    snapshot = write(store, data_obj, schema, wanted, pinned_by(table, store), scheme)
    if (session := keywords.get("session")) is not None:
        snapshot = replace(snapshot, session=session)
    location = table.uri if isinstance(table, DatasetBase) else table
    return LanceDataset.pinned(location, options_of(table, options), snapshot)


def _expected(wanted: Write) -> Expected:
    """Return what a write expects of the id of its table in a namespace."""
    if wanted.mode != "create":
        return Expected.LISTED
    return Expected.NEW if wanted.job is None else Expected.EITHER
