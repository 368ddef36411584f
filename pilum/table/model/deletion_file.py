"""The manifest entry of a deletion file, which lists all deleted rows of a fragment.

_deletions/{fragment id}-{read version}-{random}.arrow     Arrow IPC
_deletions/{fragment id}-{read version}-{random}.bin       Roaring bitmap

Deleting more rows writes a new file that also contains the rows of the old one.
`deletion_vector.py` is the content of the file. Source: docs/format/table.md, "Deleted rows".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.format.pb import table_pb2
from pilum.table.model.base_paths import base_id_from_json
from pilum.table.model.names import deletion_path

__all__ = ["DeletionFile", "DeletionFileType"]

_MAX_UINT64 = 2**64 - 1


class DeletionFileType(Enum):
    """Encoding of the deleted rows; the value is the name that Lance tools exchange."""

    ARROW = "array"
    BITMAP = "bitmap"

    @property
    def suffix(self) -> str:
        """The suffix of the file name."""
        return "arrow" if self is DeletionFileType.ARROW else "bin"


_TYPES = {
    table_pb2.DeletionFile.ARROW_ARRAY: DeletionFileType.ARROW,
    table_pb2.DeletionFile.BITMAP: DeletionFileType.BITMAP,
}
_NUMBERS = {file_type: number for number, file_type in _TYPES.items()}


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """The deletion file of a fragment.

    Attributes:
        file_type: Encoding of the deleted rows.
        read_version: The version that the writer had read.
        id: Random uint64.
        num_deleted_rows: Number of deleted rows in the file; 0 in old tables that did not record
            it.
        base_id: The base path that contains the file; None for the table's own folder.
    """

    file_type: DeletionFileType
    read_version: int
    id: int
    num_deleted_rows: int = 0
    base_id: int | None = None

    def path(self, fragment_id: int) -> str:
        """Return the path relative to the root of the table, or of its base path."""
        return deletion_path(fragment_id, self.read_version, self.id, self.file_type.suffix)

    @classmethod
    def from_proto(cls, message: table_pb2.DeletionFile) -> DeletionFile:
        """Read a deletion file entry of a manifest.

        Raises:
            UnsupportedFeatureError: If the type of the file is unknown.
        """
        if message.file_type not in _TYPES:
            raise UnsupportedFeatureError(f"a deletion file of type {message.file_type}")
        return cls(
            _TYPES[message.file_type],
            message.read_version,
            message.id,
            message.num_deleted_rows,
            message.base_id if message.HasField("base_id") else None,
        )

    def to_proto(self) -> table_pb2.DeletionFile:
        """Return the manifest message of the file."""
        return table_pb2.DeletionFile(
            file_type=_NUMBERS[self.file_type],
            read_version=self.read_version,
            id=self.id,
            num_deleted_rows=self.num_deleted_rows,
            base_id=self.base_id,
        )

    def to_json(self) -> dict[str, Any]:
        """Return a plain dictionary, with the names that Lance tools exchange."""
        return {
            "read_version": self.read_version,
            "id": self.id,
            "file_type": self.file_type.value,
            "num_deleted_rows": self.num_deleted_rows,
            "base_id": self.base_id,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DeletionFile:
        """Read the dictionary that `to_json` returns.

        Raises:
            InvalidInputError: If a member is missing or has the wrong type.
        """
        if not isinstance(data, Mapping):
            raise InvalidInputError(f"not a deletion file: {data!r}")
        try:
            file_type = DeletionFileType(data["file_type"])
            version, number = int(data["read_version"]), int(data["id"])
            count = int(data.get("num_deleted_rows") or 0)
            base_id = base_id_from_json(data.get("base_id"))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(f"not a deletion file: {data!r} ({error!r})") from error
        if not all(0 <= value <= _MAX_UINT64 for value in (version, number, count)):
            raise InvalidInputError(f"not a deletion file: {data!r}")
        return cls(file_type, version, number, count, base_id)
