"""Fragments and data files as users see and exchange them: plain values with a JSON form."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from pilum.errors import InvalidInputError
from pilum.table import fragment as table

__all__ = ["DataFile", "FragmentMetadata"]


@dataclass
class DataFile:
    """One data file of a fragment.

    Attributes:
        path: Below the folder `data/` of the table.
        fields: Ids of the fields that it holds.
        column_indices: Column of the file for each of `fields`.
        file_major_version: File version.
        file_minor_version: File version.
        file_size_bytes: Size of the file, None if it was not recorded.
    """

    path: str
    fields: list[int]
    column_indices: list[int] = field(default_factory=list)
    file_major_version: int = 0
    file_minor_version: int = 0
    file_size_bytes: int | None = None

    def field_ids(self) -> list[int]:
        """The same as `fields`."""
        return self.fields


@dataclass
class FragmentMetadata:
    """One fragment: some rows of a table.

    Attributes:
        id: Unique in the table; 0 in a fragment that is not committed yet.
        files: Each holds some columns of all the rows.
        physical_rows: Number of rows.
    """

    id: int
    files: list[DataFile]
    physical_rows: int

    @property
    def num_rows(self) -> int:
        """Number of rows that are not deleted."""
        return self.physical_rows

    @property
    def num_deletions(self) -> int:
        """Number of deleted rows: 0, for tables with deletions are not read yet."""
        return 0

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary that `json.dumps` takes."""
        return self.to_table().to_json()

    @staticmethod
    def from_json(json_data: str) -> FragmentMetadata:
        """Reads what `json.dumps(fragment.to_json())` wrote.

        Raises:
            InvalidInputError: If it is not JSON, or not that of a fragment.
            UnsupportedFeatureError: If it has deletions, stable row ids or overlays.
        """
        try:
            values = json.loads(json_data)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"not a fragment: {json_data!r} ({error})") from error
        return FragmentMetadata.from_table(table.Fragment.from_json(values))

    @classmethod
    def from_table(cls, fragment: table.Fragment) -> FragmentMetadata:
        """The form for users of what the manifest holds."""
        return cls(fragment.id, [_file(file) for file in fragment.files], fragment.physical_rows)

    def to_table(self) -> table.Fragment:
        """What the manifest will hold.

        Raises:
            InvalidInputError: If a value is not of its kind.
        """
        files = [{**vars(file), "base_id": None} for file in self.files]
        values = {"id": self.id, "files": files, "physical_rows": self.physical_rows}
        return table.Fragment.from_json(values)


def _file(file: table.DataFile) -> DataFile:
    values = file.to_json()
    del values["base_id"]
    return DataFile(**values)
