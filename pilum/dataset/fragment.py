"""Fragments: reading one fragment, and writing new fragments without committing them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, Unpack, overload

import pyarrow as pa

from pilum.arguments import positions, with_keywords
from pilum.container.options import FileOptions
from pilum.dataset.base import DatasetBase, options_of, pinned_by, store_of
from pilum.dataset.base_paths import BaseRequest, DatasetBasePath
from pilum.dataset.forms import Transaction
from pilum.dataset.fragment_columns import FragmentColumns
from pilum.dataset.fragment_files import FragmentFiles, FragmentSession
from pilum.dataset.metadata import DataFile, FragmentMetadata
from pilum.dataset.projection import Columns, project
from pilum.dataset.scan import BlobHandling, Filter, Scan, ScanKeywords
from pilum.dataset.scanner import LanceScanner
from pilum.dataset.transactions import BlobRequest, WriteRequest, write_transaction
from pilum.encodings.options import EncodingOptions
from pilum.errors import InvalidInputError, UnknownArgumentError
from pilum.expressions import bind
from pilum.format.row_address import addresses_in
from pilum.storage.local import durable_at_commit
from pilum.storage.open import Location
from pilum.table.changes.row_changes import delete_rows, matching_rows
from pilum.table.model.deletion_vector import DeletionVector
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.read.json_columns import given_schema, given_table
from pilum.table.read.take import physical_rows, take_addresses
from pilum.table.write.write import WriteOptions

__all__ = ["LanceFragment", "write_fragments"]

_DEFAULTS = WriteOptions()
_SCAN_DEFAULTS = {"with_row_id": False, "with_row_address": False, "batch_readahead": 16}
"""The defaults of scan keywords that differ from those of a dataset."""


class LanceFragment(FragmentColumns, FragmentFiles):
    """One fragment of a version of a table; returned by `LanceDataset.get_fragments`."""

    def __init__(self, dataset: DatasetBase, fragment_id: int) -> None:
        self._dataset = dataset
        self._snapshot = dataset.snapshot
        self._fragment = self._find(fragment_id)

    def __reduce__(self) -> tuple[Any, ...]:
        one = self._dataset
        at_version = one.pinned(one.uri, options_of(one, None), self._snapshot)
        return LanceFragment, (at_version, self.fragment_id)

    def _find(self, fragment_id: int) -> Fragment:
        for fragment in self._snapshot.manifest.fragments:
            if fragment.id == fragment_id:
                return fragment
        raise InvalidInputError(f"{self._snapshot.store.uri} has no fragment {fragment_id}")

    @property
    def fragment_id(self) -> int:
        """The id of the fragment, unique in the table."""
        return self._fragment.id

    @property
    def metadata(self) -> FragmentMetadata:
        """The entry of the fragment in the manifest."""
        return FragmentMetadata.from_table(self._fragment)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the table."""
        return given_schema(self._snapshot.schema.arrow)

    @property
    def physical_schema(self) -> pa.Schema:
        """The same schema as `schema`."""
        return self.schema

    @property
    def physical_rows(self) -> int:
        """The number of rows, including deleted ones."""
        return self._fragment.physical_rows

    @property
    def num_deletions(self) -> int:
        """The number of deleted rows."""
        return self._fragment.num_deleted_rows

    def deletion_file(self) -> str | None:
        """The path of the deletion file, below the root of the table; None if no row is deleted."""
        file = self._fragment.deletion_file
        return file.path(self._fragment.id) if file else None

    def data_files(self) -> list[DataFile]:
        """The data files of the fragment."""
        return self.metadata.files

    @with_keywords(ScanKeywords, _SCAN_DEFAULTS, without=("fragments",))
    def scanner(self, **scan: Unpack[ScanKeywords]) -> LanceScanner:
        """Describe a scan of the fragment. The arguments are those of `LanceDataset.scanner`."""
        if "fragments" in scan:
            raise UnknownArgumentError("scans of a fragment have no argument 'fragments'")
        wanted = Scan.of(self._snapshot, {**scan, "fragments": (self,)})
        return LanceScanner(self._snapshot, wanted)

    @with_keywords(ScanKeywords, _SCAN_DEFAULTS, without=("fragments",))
    def to_table(  # type: ignore[misc]  # some keywords may also be positional
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        blob_handling: BlobHandling | None = None,
        **more: Unpack[ScanKeywords],
    ) -> pa.Table:
        """Read rows into memory. The arguments are those of `LanceDataset.scanner`."""
        scanner = self.scanner(
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            blob_handling=blob_handling,
            **more,
        )
        return scanner.to_table()

    @with_keywords(ScanKeywords, _SCAN_DEFAULTS, without=("fragments",))
    def to_batches(self, **scan: Unpack[ScanKeywords]) -> Iterator[pa.RecordBatch]:
        """Read rows batch by batch. The arguments are those of `LanceDataset.scanner`."""
        return self.scanner(**scan).to_batches()

    def to_pandas(self, columns: Columns | None = None, **kwargs: Any) -> Any:
        """Read rows into a pandas.DataFrame, as `LanceDataset.to_pandas`."""
        known = ScanKeywords.__annotations__.keys()
        scan: Any = {name: kwargs.pop(name) for name in known & kwargs.keys()}
        return self.scanner(columns=columns, **scan).to_table().to_pandas(**kwargs)

    def open_session(
        self, columns: Columns | None = None, with_row_address: bool | None = None
    ) -> FragmentSession:
        """Open a session for repeated takes of the same columns.

        Args:
            columns: As in `LanceDataset.scanner`.
            with_row_address: Whether to add the column `_rowaddr`.
        """
        return FragmentSession(self, columns, bool(with_row_address))

    def take(self, indices: Any, columns: Columns | None = None) -> pa.Table:
        """Read rows of the fragment by position; deleted rows are not counted.

        Args:
            indices: Positions, in any order; repeated positions are allowed.
            columns: As in `LanceDataset.scanner`.

        Returns:
            One row per index, in the order of the indices.

        Raises:
            InvalidInputError: If an index is negative or beyond the last row.
        """
        rows = positions(indices, self._fragment.num_rows)
        rows = physical_rows(self._snapshot, self._fragment, rows)
        addresses = addresses_in(self.fragment_id, rows)
        names, projection = project(columns, self._snapshot.described.arrow)
        table = take_addresses(self._snapshot, addresses, names)
        return given_table(projection.table(table) if projection else table)

    def head(self, num_rows: int) -> pa.Table:
        """Read the first rows."""
        return self.scanner().head(num_rows)

    def count_rows(self, filter: Filter | None = None) -> int:
        """Count rows; without a filter no data is read."""
        return (
            self._fragment.num_rows if filter is None else self.scanner(filter=filter).count_rows()
        )

    def delete(self, predicate: Filter) -> FragmentMetadata | None:
        """Write a new deletion file.

        The table does not change until `LanceOperation.Delete` is committed.

        Args:
            predicate: SQL, or a `pyarrow.compute` expression. Rows for which it is true are
                deleted.

        Returns:
            The fragment with the new file; the unchanged fragment if no row matches; None if no row
            is left.

        Raises:
            FilterError: If the predicate cannot be parsed, bound or evaluated.
        """
        wanted = bind(predicate, self._snapshot.schema.arrow)
        found = matching_rows(self._snapshot, wanted, (self.fragment_id,))
        return self._without(found.get(FragmentId(self.fragment_id)))

    def delete_rows(self, offsets: Iterable[int]) -> FragmentMetadata | None:
        """Write a new deletion file for rows given by offset; see `delete`.

        Args:
            offsets: Physical row offsets in the fragment; rows may already be deleted.

        Raises:
            InvalidInputError: If an offset is negative or beyond the last row.
        """
        rows = positions(offsets, self.physical_rows)
        deleted = self._snapshot.deletions(self._fragment)
        rows = rows[~deleted.contains(rows)] if deleted else rows
        return self._without(DeletionVector.of(rows))

    def _without(self, rows: DeletionVector | None) -> FragmentMetadata | None:
        if not rows:
            return self.metadata
        updated = delete_rows(self._snapshot, {FragmentId(self.fragment_id): rows}).updated
        return FragmentMetadata.from_table(updated[0]) if updated else None

    def __repr__(self) -> str:
        return f"LanceFragment(id={self.fragment_id}, rows={self.physical_rows})"


@overload
def write_fragments(
    data: Any,
    dataset_uri: Location | DatasetBase,
    schema: pa.Schema | None = None,
    *,
    return_transaction: Literal[False] = False,
    mode: str = "append",
    max_rows_per_file: int = ...,
    max_rows_per_group: int = ...,
    max_bytes_per_file: int = ...,
    data_cache_bytes: int | None = None,
    max_page_bytes: int | None = None,
    buffer_alignment: int = ...,
    encoding_options: EncodingOptions = ...,
    data_storage_version: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    enable_stable_row_ids: bool = False,
    target_bases: Iterable[str] | None = None,
    target_all_bases: bool | None = None,
    initial_bases: Iterable[DatasetBasePath] | None = None,
    external_blob_mode: Literal["reference", "ingest"] = "reference",
    allow_external_blob_outside_bases: bool = False,
) -> list[FragmentMetadata]: ...


@overload
def write_fragments(
    data: Any,
    dataset_uri: Location | DatasetBase,
    schema: pa.Schema | None = None,
    *,
    return_transaction: Literal[True],
    mode: str = "append",
    max_rows_per_file: int = ...,
    max_rows_per_group: int = ...,
    max_bytes_per_file: int = ...,
    data_cache_bytes: int | None = None,
    max_page_bytes: int | None = None,
    buffer_alignment: int = ...,
    encoding_options: EncodingOptions = ...,
    data_storage_version: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    enable_stable_row_ids: bool = False,
    target_bases: Iterable[str] | None = None,
    target_all_bases: bool | None = None,
    initial_bases: Iterable[DatasetBasePath] | None = None,
    external_blob_mode: Literal["reference", "ingest"] = "reference",
    allow_external_blob_outside_bases: bool = False,
) -> Transaction: ...


def write_fragments(
    data: Any,
    dataset_uri: Location | DatasetBase,
    schema: pa.Schema | None = None,
    *,
    return_transaction: bool = False,
    mode: str = "append",
    max_rows_per_file: int = _DEFAULTS.max_rows_per_file,
    max_rows_per_group: int = _DEFAULTS.layout.max_rows_per_group,
    max_bytes_per_file: int = _DEFAULTS.max_bytes_per_file,
    data_cache_bytes: int | None = None,
    max_page_bytes: int | None = None,
    buffer_alignment: int = _DEFAULTS.layout.buffer_alignment,
    encoding_options: EncodingOptions = _DEFAULTS.layout.encoding,
    data_storage_version: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    enable_stable_row_ids: bool = False,
    target_bases: Iterable[str] | None = None,
    target_all_bases: bool | None = None,
    initial_bases: Iterable[DatasetBasePath] | None = None,
    external_blob_mode: Literal["reference", "ingest"] = "reference",
    allow_external_blob_outside_bases: bool = False,
) -> list[FragmentMetadata] | Transaction:
    """Write data files without committing them; they are not visible until `LanceDataset.commit`.

    Args:
        data: As in `pilum.write_dataset`.
        dataset_uri: Location of the table, which need not exist yet.
        schema: Schema that the data is cast to.
        return_transaction: Whether to return a transaction for `LanceDataset.commit` instead of the
            fragments.
        mode: "append" fits the data to the table; "create" and "overwrite" assign new field ids to
            the columns.
        max_rows_per_file: Maximum number of rows in a file.
        max_rows_per_group: Rows per row group in files of version 0.1.
        max_bytes_per_file: A file that has reached this size receives no further batches.
        data_cache_bytes: As in `pilum.write_dataset`; the same holds for the next arguments.
        max_page_bytes: Maximum size of a page in memory, in bytes. A page always holds at least one
            row.
        buffer_alignment: Alignment of buffers in files, in bytes.
        encoding_options: Encoding preferences.
        data_storage_version: File version; None for that of the table.
        storage_options: Options of the object store.
        enable_stable_row_ids: Has no effect: rows get their ids when the fragments are committed,
            depending on the table.
        target_bases: As in `pilum.write_dataset`; the same holds for the next arguments.
        target_all_bases: Whether to write files to the table's own folder and to all base paths.
        initial_bases: Base paths of a table that does not exist yet.
        external_blob_mode: Whether blobs given by URI stay references or are read and stored.
        allow_external_blob_outside_bases: Whether references may point outside the table.

    Raises:
        SchemaMismatchError: If the data does not fit the table that it is appended to.
        InvalidInputError: If any other argument is invalid.
    """
    layout = FileOptions(
        data_cache_bytes, max_page_bytes, buffer_alignment, encoding_options, max_rows_per_group
    )
    wanted = WriteRequest(
        mode,
        max_rows_per_file,
        max_bytes_per_file,
        data_storage_version,
        layout=layout,
        blobs=BlobRequest(external_blob_mode, allow_external_blob_outside_bases),
        bases=BaseRequest.of(initial_bases, target_bases, target_all_bases),
    )
    store = store_of(dataset_uri, storage_options)
    with durable_at_commit(store) as pending:  # files are durable before they are reported
        written = write_transaction(pending, data, schema, wanted, pinned_by(dataset_uri, store))
    transaction = Transaction.from_table(written)
    return transaction if return_transaction else transaction.fragments
