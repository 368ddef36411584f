"""The files of a fragment: writing, adopting, checking, and opening them for repeated takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pilum.arguments import require_count
from pilum.container.options import FileOptions
from pilum.dataset.base import DatasetBase, pinned_by, store_of
from pilum.dataset.metadata import FragmentMetadata
from pilum.dataset.projection import Columns
from pilum.dataset.transactions import WriteRequest, write_transaction
from pilum.errors import CorruptFileError, InvalidInputError
from pilum.format.meta_columns import ROW_ADDRESS
from pilum.storage.open import Location
from pilum.table.commit.operations.append import Append
from pilum.table.commit.operations.base import Operation
from pilum.table.commit.operations.overwrite import Overwrite
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.read.snapshot import Snapshot
from pilum.table.write.adopted import adopted_file

if TYPE_CHECKING:
    from pilum.dataset.fragment import LanceFragment

__all__ = ["FragmentFiles", "FragmentSession"]

_NO_LIMIT = 1 << 62


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


class FragmentFiles:
    """Methods of `LanceFragment` for its files."""

    _snapshot: Snapshot
    _fragment: Fragment

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

        Raises:
            SchemaMismatchError: If the data does not fit the table that it is appended to.
            InvalidInputError: If there are no rows, or if another argument is invalid.
        """
        layout = FileOptions(max_rows_per_group=max_rows_per_group or 1024)
        wanted = WriteRequest(mode, _NO_LIMIT, _NO_LIMIT, data_storage_version, layout=layout)
        store = store_of(dataset_uri, storage_options)
        pinned = pinned_by(dataset_uri, store)
        written = write_transaction(store, data, schema, wanted, pinned)
        made = _new_fragments(written.operation)
        if len(made) != 1:
            raise InvalidInputError("a fragment has at least one row")
        number = 0 if fragment_id is None else require_count("fragment_id", fragment_id)
        return _numbered(FragmentMetadata.from_table(made[0]), number)

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
        number = require_count("fragment_id", fragment_id)
        file, num_rows = adopted_file(dataset.snapshot, filename)
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
            lines = [f"{fault.kind.value} {fault.path}: {fault.what}" for fault in faults]
            where = f"{self._snapshot.store.uri}, version {self._snapshot.manifest.version}"
            raise CorruptFileError("the fragment is not whole:\n" + "\n".join(lines), where)


def _new_fragments(operation: Operation) -> tuple[Fragment, ...]:
    assert isinstance(operation, Append | Overwrite)
    return operation.fragments


def _numbered(fragment: FragmentMetadata, number: int) -> FragmentMetadata:
    fragment.id = number
    return fragment
