"""Public forms of fragments and data files: plain values with a JSON form."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pilum.dataset.row_metadata import RowDatasetVersionMeta, RowIdMeta, stored_sequence
from pilum.errors import InvalidInputError
from pilum.table.model import deletion_file as table_files
from pilum.table.model import fragment as table

if TYPE_CHECKING:
    from pilum.dataset.base import DatasetBase

__all__ = ["DataFile", "DeletionFile", "FragmentMetadata"]


@dataclass
class DataFile:
    """One data file of a fragment.

    Attributes:
        path: Path below the folder `data/` of the table.
        fields: Ids of the fields that it contains.
        column_indices: Column index in the file for each of `fields`.
        file_major_version: Major file version.
        file_minor_version: Minor file version.
        file_size_bytes: Size of the file; None if it was not recorded.
        base_id: Base path that contains it; None for the table's own folder.
    """

    path: str
    fields: list[int]
    column_indices: list[int] = field(default_factory=list)
    file_major_version: int = 0
    file_minor_version: int = 0
    file_size_bytes: int | None = None
    base_id: int | None = None

    def field_ids(self) -> list[int]:
        """The ids of the fields, as in `fields`."""
        return self.fields

    @classmethod
    def create(cls, dataset: DatasetBase, path: str, *, base_id: int | None = None) -> DataFile:
        """Describe an existing data file, for operations such as `DataReplacement`.

        Args:
            dataset: The table. Each column of the file must match a column of the table by name and
                type.
            path: Path below the folder `data/` of the table.
            base_id: Base path that contains it; None for the table's own folder.

        Raises:
            SchemaMismatchError: If a column does not fit.
            UnsupportedVersionError: If the file version is 0.1.
            NotFoundError: If the file does not exist.
            CorruptFileError: If the file is damaged.
        """
        from pilum.table.write.adopted import adopted_file

        return cls.from_table(adopted_file(dataset.snapshot, path, base_id)[0])

    @classmethod
    def from_table(cls, file: table.DataFile) -> DataFile:
        """Convert a manifest entry to its public form."""
        return cls(**file.to_json())

    def to_table(self) -> table.DataFile:
        """Convert to the form that the manifest stores.

        Raises:
            InvalidInputError: If a value has the wrong type.
        """
        return table.DataFile.from_json(vars(self))


@dataclass
class DeletionFile:
    """The file that lists the deleted rows of a fragment.

    Attributes:
        read_version: The version that the writer read.
        id: Random id, which is part of the file name.
        file_type: "array" or "bitmap".
        num_deleted_rows: Number of listed rows; 0 if it was not recorded.
        base_id: Base path that contains it; None for the table's own folder.
    """

    read_version: int
    id: int
    file_type: str
    num_deleted_rows: int
    base_id: int | None = None

    def path(self, fragment_id: int, base_uri: str | None = None) -> str:
        """Return the path of the file, below the root of the table or below `base_uri`."""
        path = self.to_table().path(fragment_id)
        return f"{base_uri.rstrip('/')}/{path}" if base_uri else path

    def asdict(self) -> dict[str, Any]:
        """Return a plain dictionary."""
        return dict(vars(self))

    def json(self) -> str:
        """Return the JSON form."""
        return json.dumps(self.asdict())

    @staticmethod
    def from_json(json: str) -> DeletionFile:
        """Read the JSON form that `json` returns.

        Raises:
            InvalidInputError: If the text is not JSON, or does not describe a deletion file.
        """
        return DeletionFile.from_table(table_files.DeletionFile.from_json(_values(json)))

    @classmethod
    def from_table(cls, file: table_files.DeletionFile) -> DeletionFile:
        """Convert a manifest entry to its public form."""
        return cls(**file.to_json())

    def to_table(self) -> table_files.DeletionFile:
        """Convert to the form that the manifest stores.

        Raises:
            InvalidInputError: If a value has the wrong type.
        """
        return table_files.DeletionFile.from_json(vars(self))


@dataclass
class FragmentMetadata:
    """The metadata of a fragment, which holds some rows of a table.

    Attributes:
        id: Id, unique in the table; 0 for a fragment that is not committed yet.
        files: Data files; each contains some columns of all rows.
        physical_rows: Number of rows, including deleted ones.
        deletion_file: File that lists the deleted rows; None if no row is deleted.
        row_id_meta: Row ids, in a table with stable row ids. A new fragment lists the ids of its
            first rows, which existed elsewhere before; the commit assigns ids to the rows after
            them.
        created_at_version_meta: Versions in which the rows were created; determined by the commit.
        last_updated_at_version_meta: Versions in which the rows last changed; determined by the
            commit.
    """

    id: int
    files: list[DataFile]
    physical_rows: int
    deletion_file: DeletionFile | None = None
    row_id_meta: RowIdMeta | None = None
    created_at_version_meta: RowDatasetVersionMeta | None = None
    last_updated_at_version_meta: RowDatasetVersionMeta | None = None

    @property
    def num_rows(self) -> int:
        """The number of rows that are not deleted."""
        return self.physical_rows - self.num_deletions

    @property
    def num_deletions(self) -> int:
        """The number of deleted rows."""
        return self.deletion_file.num_deleted_rows if self.deletion_file else 0

    def data_files(self) -> list[DataFile]:
        """The data files, as in `files`."""
        return self.files

    def to_json(self) -> dict[str, Any]:
        """Return a plain dictionary that `json.dumps` accepts."""
        return self.to_table().to_json()

    @staticmethod
    def from_json(json_data: str) -> FragmentMetadata:
        """Read the JSON form that `json.dumps(fragment.to_json())` returns.

        Raises:
            InvalidInputError: If the text is not JSON, or does not describe a fragment.
            UnsupportedFeatureError: If the fragment has overlays.
        """
        return FragmentMetadata.from_table(table.Fragment.from_json(_values(json_data)))

    @classmethod
    def from_table(cls, fragment: table.Fragment) -> FragmentMetadata:
        """Convert a manifest entry to its public form."""
        deleted = fragment.deletion_file
        return cls(
            fragment.id,
            [_file(file) for file in fragment.files],
            fragment.physical_rows,
            DeletionFile.from_table(deleted) if deleted else None,
            None if fragment.row_ids is None else RowIdMeta(fragment.row_ids),
            *(
                None if stored is None else RowDatasetVersionMeta(stored)
                for stored in (fragment.created_at, fragment.updated_at)
            ),
        )

    def to_table(self) -> table.Fragment:
        """Convert to the form that the manifest stores.

        Raises:
            InvalidInputError: If a value has the wrong type.
        """
        values = {
            "id": self.id,
            "files": list(map(vars, self.files)),
            "physical_rows": self.physical_rows,
            "deletion_file": self.deletion_file and vars(self.deletion_file),
        }
        return replace(
            table.Fragment.from_json(values),
            row_ids=stored_sequence(RowIdMeta, self.row_id_meta),
            created_at=stored_sequence(RowDatasetVersionMeta, self.created_at_version_meta),
            updated_at=stored_sequence(RowDatasetVersionMeta, self.last_updated_at_version_meta),
        )


def _values(text: str) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"not JSON: {text!r} ({error})") from error


def _file(file: table.DataFile) -> DataFile:
    return DataFile(**file.to_json())
