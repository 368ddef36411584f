"""Fragments: reading one fragment, and writing new fragments without committing them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Self, Unpack, overload

import pyarrow as pa

from pilum.arguments import positions, require_count, require_known, with_keywords
from pilum.dataset.base import DatasetBase, options_of, pinned_by, store_of
from pilum.dataset.forms import Transaction
from pilum.dataset.fragment_columns import FragmentColumns
from pilum.dataset.metadata import DataFile, FragmentMetadata
from pilum.dataset.namespaces import located_at
from pilum.dataset.projection import Columns, taken
from pilum.dataset.scan import BlobHandling, Filter, Scan, ScanKeywords
from pilum.dataset.scanner import LanceScanner
from pilum.dataset.search_filters import ScanFilter
from pilum.dataset.write import WRITE_DEFAULTS, FragmentKeywords, Write, write_transaction
from pilum.errors import CorruptFileError, InvalidInputError, UnknownArgumentError
from pilum.expressions import bind
from pilum.format.meta_columns import ROW_ADDRESS
from pilum.format.rows import addresses_in
from pilum.progress import FragmentWriteProgress
from pilum.storage.local import durable_at_commit
from pilum.storage.open import Location, location_text
from pilum.table.changes.row_changes import delete_rows, matching_rows
from pilum.table.model.base_options import with_base_params
from pilum.table.model.deletion_vector import DeletionVector
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.read.json_columns import given_schema
from pilum.table.read.session import Session
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import physical_rows, take_addresses
from pilum.table.write.align import adopted_file

__all__ = ["FragmentSession", "LanceFragment", "write_fragments"]

_NO_LIMIT = 1 << 62
_SCAN_DEFAULTS = {"with_row_id": False, "with_row_address": False, "batch_readahead": 16}
"""The defaults of scan keywords that differ from those of a dataset."""


def _require_dataset(dataset: object) -> None:
    if not isinstance(dataset, DatasetBase):
        raise InvalidInputError(f"dataset: expected an open table, found {dataset!r:.80}")


class LanceFragment(FragmentColumns):
    """One fragment of a version of a table; returned by `LanceDataset.get_fragments`."""

    def __init__(self, dataset: DatasetBase, fragment_id: int) -> None:
        _require_dataset(dataset)
        self._dataset = dataset
        self._snapshot = dataset.snapshot
        self._fragment = self._find(fragment_id)

    @classmethod
    def _of(cls, dataset: DatasetBase, snapshot: Snapshot, fragment: Fragment) -> Self:
        """Return a fragment of a version at which the dataset was."""
        found = cls.__new__(cls)
        found._dataset, found._snapshot, found._fragment = dataset, snapshot, fragment
        return found

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
    def _ds(self) -> DatasetBase:
        """The dataset; other packages expect it by this name."""
        return self._dataset

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
        """Return the path of the deletion file below the root of the table, or None."""
        file = self._fragment.deletion_file
        return file.path(self._fragment.id) if file else None

    def data_files(self) -> list[DataFile]:
        """Return the data files of the fragment."""
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
        filter: ScanFilter | None = None,
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

    @staticmethod
    def create(
        dataset_uri: Location | DatasetBase,
        data: Any,
        fragment_id: int | None = None,
        schema: pa.Schema | None = None,
        max_rows_per_group: int | None = 1024,
        *,
        mode: str = "append",
        data_storage_version: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        progress: FragmentWriteProgress | None = None,
        session: Session | None = None,
        use_legacy_format: bool | None = None,
        namespace_client: Any = None,
        table_id: Sequence[str] | None = None,
    ) -> FragmentMetadata:
        """Write rows as one fragment of any size, without committing it.

        Args:
            dataset_uri: Location of the table, which need not exist yet.
            data: As in `pilum.write_dataset`.
            fragment_id: Id of the fragment; a commit assigns a new id.
            schema: Schema that the data is cast to.
            max_rows_per_group: Rows per row group in files of version 0.1; None for 1,024.
            mode: "append" fits the data to the table; "create" and "overwrite" assign new field ids
                to the columns.
            data_storage_version: File version; None for that of the table.
            storage_options: Options of the object store.
            progress: Is called at the beginning and the end of the fragment.
            session: Has no effect: a write fills no cache.
            use_legacy_format: True is the same as `data_storage_version="0.1"`.
            namespace_client: As in `write_fragments`.
            table_id: As in `write_fragments`.

        Raises:
            SchemaMismatchError: If the data does not fit the table that it is appended to.
            InvalidInputError: If there are no rows, or if another argument is invalid.
        """
        made = write_fragments(
            data,
            dataset_uri,
            schema,
            mode=mode,
            max_rows_per_file=_NO_LIMIT,
            max_bytes_per_file=_NO_LIMIT,
            max_rows_per_group=max_rows_per_group or 1024,
            data_storage_version=data_storage_version,
            storage_options=storage_options,
            progress=progress,
            use_legacy_format=use_legacy_format,
            namespace_client=namespace_client,
            table_id=table_id,
        )
        if len(made) != 1:
            raise InvalidInputError("a fragment has at least one row")
        [fragment] = made
        fragment.id = 0 if fragment_id is None else require_count("fragment_id", fragment_id)
        return fragment

    @staticmethod
    def create_from_file(filename: str, dataset: DatasetBase, fragment_id: int) -> FragmentMetadata:
        """Create a fragment from an existing data file in the folder `data/` of the table.

        Args:
            filename: Path of the file below that folder.
            dataset: The table. Each column of the file must match a column of the table by name and
                type; columns that the file lacks are null.
            fragment_id: Id of the fragment; a commit assigns a new id.

        Raises:
            SchemaMismatchError: If a column does not fit.
            UnsupportedVersionError: If the file version is 0.1.
            NotFoundError: If the file does not exist.
            CorruptFileError: If the file is damaged.
        """
        _require_dataset(dataset)
        number = require_count("fragment_id", fragment_id)
        file, num_rows = adopted_file(dataset.snapshot, location_text(filename))
        made = Fragment(FragmentId(number), (file,), num_rows)
        return FragmentMetadata.from_table(made)

    def validate(self) -> None:
        """Check that the files of the fragment exist with the recorded sizes and numbers of rows.

        Raises:
            CorruptFileError: If a file is missing or damaged. The message lists all of them.
        """
        from pilum.table.upkeep.verify import check_fragment

        faults = check_fragment(self._snapshot, self._fragment)
        if faults:
            lines = [f"{fault.kind} {fault.path}: {fault.what}" for fault in faults]
            where = f"{self._snapshot.store.uri}, version {self._snapshot.manifest.version}"
            raise CorruptFileError("the fragment is not whole:\n" + "\n".join(lines), where)

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
        snapshot = self._snapshot
        rows = positions(indices, self._fragment.num_rows)
        addresses = addresses_in(self.fragment_id, physical_rows(snapshot, self._fragment, rows))
        return taken(snapshot, columns, lambda names: take_addresses(snapshot, addresses, names))

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

    def _repr_html_(self) -> str:
        from pilum.pictures.html import card, facts, table
        from pilum.pictures.words import size_text

        names = self._snapshot.schema
        rows = [
            (
                file.path,
                f"{file.major}.{file.minor}",
                "" if file.size_bytes is None else size_text(file.size_bytes),
                ", ".join(filter(None, map(names.path, file.fields))),
            )
            for file in self._fragment.files
        ]
        counts = [("rows", f"{self._fragment.num_rows:,}"), ("deleted", f"{self.num_deletions:,}")]
        files = table(("file", "version", "size", "columns"), rows)
        return card(f"Fragment {self.fragment_id}", facts(counts), files)

    def __repr__(self) -> str:
        return f"LanceFragment(id={self.fragment_id}, rows={self.physical_rows})"


class FragmentSession:
    """A session for repeated takes from a fragment; created by `LanceFragment.open_session`."""

    def __init__(
        self, fragment: LanceFragment, columns: Columns | None, with_row_address: bool
    ) -> None:
        names = list(fragment.schema.names) if columns is None else columns
        if with_row_address and isinstance(names, Mapping):
            names = {**names, ROW_ADDRESS: ROW_ADDRESS}
        elif with_row_address and ROW_ADDRESS not in names:
            names = [*names, ROW_ADDRESS]
        self._fragment = fragment
        self._columns = names

    def take(self, indices: Any) -> pa.Table:
        """Read rows by position, as `LanceFragment.take`."""
        return self._fragment.take(indices, self._columns)


@overload
def write_fragments(
    data: Any,
    dataset_uri: Location | DatasetBase,
    schema: pa.Schema | None = None,
    *,
    return_transaction: Literal[False] = False,
    mode: str = "append",
    **keywords: Unpack[FragmentKeywords],
) -> list[FragmentMetadata]: ...


@overload
def write_fragments(
    data: Any,
    dataset_uri: Location | DatasetBase,
    schema: pa.Schema | None = None,
    *,
    return_transaction: Literal[True],
    mode: str = "append",
    **keywords: Unpack[FragmentKeywords],
) -> Transaction: ...


@with_keywords(FragmentKeywords, WRITE_DEFAULTS)
def write_fragments(
    data: Any,
    dataset_uri: Location | DatasetBase,
    schema: pa.Schema | None = None,
    *,
    return_transaction: bool = False,
    mode: str = "append",
    **keywords: Unpack[FragmentKeywords],
) -> list[FragmentMetadata] | Transaction:
    """Write data files without committing them; they are not visible until `LanceDataset.commit`.

    All other arguments are those of `pilum.write_dataset`.

    Args:
        data: As in `pilum.write_dataset`.
        dataset_uri: Location of the table, which need not exist yet.
        schema: Schema that the data is cast to.
        return_transaction: Whether to return a transaction for `LanceDataset.commit` instead of the
            fragments.
        mode: "append" fits the data to the table; "create" and "overwrite" assign new field ids to
            the columns.
        data_storage_version: File version; None for that of the table.
        enable_stable_row_ids: Has no effect: rows get their ids when the fragments are committed,
            depending on the table.
        initial_bases: Base paths of a table that does not exist yet.
        session: Has no effect: a write fills no cache.
        namespace_client: As in `pilum.dataset`, besides the location: its options open the store,
            and are renewed if they expire.
        table_id: As in `pilum.dataset`.

    Raises:
        SchemaMismatchError: If the data does not fit the table that it is appended to.
        InvalidInputError: If any other argument is invalid.
    """
    require_known("write_fragments has", keywords, FragmentKeywords.__annotations__)
    wanted = Write.of(mode, keywords)
    _, options, handler = located_at(
        dataset_uri,
        keywords.get("storage_options"),
        keywords.get("namespace_client"),
        keywords.get("table_id"),
    )
    options = with_base_params(options, keywords.get("base_store_params"))
    store = store_of(dataset_uri, options, commit_handler=handler)
    with durable_at_commit(store) as pending:  # files are durable before they are reported
        written = write_transaction(pending, data, schema, wanted, pinned_by(dataset_uri, store))
    transaction = Transaction.from_table(written)
    return transaction if return_transaction else transaction.fragments
