"""Public forms of the data files of fragments, and of overlays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pilum.bitmap import Bitmap
from pilum.table.model import fragment as table
from pilum.table.model.overlay_rows import OverlayRows

if TYPE_CHECKING:
    from pilum.dataset.base import DatasetBase

__all__ = ["DataFile", "DataOverlayFile"]


class _Path(str):
    """A path that can also be called, as other packages do with that of a data file."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)


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

    def __post_init__(self) -> None:
        self.path = _Path(self.path)

    def field_ids(self) -> list[int]:
        """Return the ids of the fields, as in `fields`."""
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
        from pilum.table.write.align import adopted_file

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
class DataOverlayFile:
    """A file with new values for some cells of a fragment.

    Attributes:
        data_file: The file, with one row for each row that has new values.
        offsets: The physical rows with new values, counting deleted ones, in any order: of all
            fields, or a list with the rows of each field. The smallest row has the first value.
        committed_version: The version since which they are valid; determined by the commit.
    """

    data_file: DataFile
    offsets: Iterable[int] | list[Iterable[int]]
    committed_version: int | None = None

    @classmethod
    def from_table(cls, overlay: table.OverlayFile) -> DataOverlayFile:
        """Convert a manifest entry to its public form."""
        rows = [Bitmap(one) for one in overlay.rows.of_fields]
        offsets: Any = rows[0] if overlay.rows.are_shared else rows
        return cls(DataFile.from_table(overlay.file), offsets, overlay.committed_version or None)

    def to_table(self) -> table.OverlayFile:
        """Convert to the form that the manifest stores.

        Raises:
            InvalidInputError: If a row is listed twice, or a value has the wrong type.
        """
        file = self.data_file.to_table()
        rows = OverlayRows.of(self.offsets, len(file.fields))
        return table.OverlayFile(file, rows, self.committed_version or 0)
