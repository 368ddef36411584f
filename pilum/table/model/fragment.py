"""Fragments: horizontal slices of a table, each with the files that contain its columns.

    rows 0..physical_rows of one fragment

              column 0   column 1   column 2          a file supplies the columns in `fields`
    files[0]  field 0    field 1                      from its own columns `column_indices`;
    files[1]                        field 4           fields in no file are null in every row

Overlays have other values for some cells (`pilum.table.read.overlays`).

Deleted rows stay in the data files. A deletion file lists all of them; deleting more rows writes a
new file that also contains the rows of the old one:

    _deletions/{fragment id}-{read version}-{random}.arrow     Arrow IPC
    _deletions/{fragment id}-{read version}-{random}.bin       Roaring bitmap

Source: docs/format/table.md, "Fragments" and "Deleted rows".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NewType, cast

import numpy as np
from numpy.typing import NDArray

from pilum.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from pilum.format.fields import FieldId
from pilum.format.pb import table_pb2
from pilum.format.rows import MAX_FRAGMENT_ID
from pilum.table.model.names import DATA_FOLDER, deletion_path
from pilum.table.model.overlay_rows import OverlayRows
from pilum.table.model.stored_sequence import (
    CREATED_AT,
    IN_HIDDEN_COLUMN,
    ROW_IDS,
    UPDATED_AT,
    SequenceKind,
    StoredSequence,
)

__all__ = [
    "GIVEN_UP",
    "DataFile",
    "DeletionFile",
    "DeletionFileType",
    "Fragment",
    "FragmentId",
    "OverlayFile",
]

FragmentId = NewType("FragmentId", int)

_MAX_BASE_ID = 2**32 - 1
_MAX_UINT64 = 2**64 - 1
GIVEN_UP = FieldId(-2)
"""Field id that a file lists for a column that is no longer valid."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of a fragment.

    Attributes:
        path: Path below the folder `data/` of the table.
        fields: Ids of the fields in the file; since 2.1 only of those that own columns. A negative
            id marks a column that is no longer valid.
        column_indices: Column of the file for each of `fields`; empty in files before 2.0.
        major: Major part of the file version.
        minor: Minor part of the file version.
        size_bytes: Size of the file, None if it was not recorded.
        base_id: The base path that contains the file; None for the table's own folder.
    """

    path: str
    fields: tuple[FieldId, ...]
    column_indices: tuple[int, ...]
    major: int
    minor: int
    size_bytes: int | None = None
    base_id: int | None = None

    @classmethod
    def from_proto(cls, message: table_pb2.DataFile) -> DataFile:
        """Read a data file entry of a manifest."""
        path = message.path
        if ".." in path and ".." in path.split("/"):
            raise CorruptFileError(f"data file {message.path!r} lies outside of the table")
        fields = cast("tuple[FieldId, ...]", tuple(message.fields))
        columns = tuple(message.column_indices)
        if len(columns) != len(fields) and (columns or message.file_major_version >= 2):
            raise CorruptFileError(
                f"{len(fields)} fields have {len(columns)} columns", f"data file {message.path}"
            )
        return cls(
            message.path,
            fields,
            columns,
            message.file_major_version,
            message.file_minor_version,
            message.file_size_bytes or None,
            message.base_id if message.HasField("base_id") else None,
        )

    @property
    def path_in_table(self) -> str:
        """The path below the root of the table, or of a base path that is laid out like one."""
        return f"{DATA_FOLDER}/{self.path}"

    def without(self, fields: Collection[FieldId]) -> DataFile:
        """Return the file with the columns of some fields marked as no longer valid."""
        return replace(
            self, fields=tuple(GIVEN_UP if one in fields else one for one in self.fields)
        )

    def to_proto(self) -> table_pb2.DataFile:
        """Return the manifest message of the file."""
        return table_pb2.DataFile(
            path=self.path,
            fields=self.fields,
            column_indices=self.column_indices,
            file_major_version=self.major,
            file_minor_version=self.minor,
            file_size_bytes=self.size_bytes or 0,
            base_id=self.base_id,
        )

    def to_json(self) -> dict[str, Any]:
        """Return a plain dictionary, with the names that Lance tools exchange."""
        return {
            "path": self.path,
            "fields": list(self.fields),
            "column_indices": list(self.column_indices),
            "file_major_version": self.major,
            "file_minor_version": self.minor,
            "file_size_bytes": self.size_bytes,
            "base_id": self.base_id,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DataFile:
        """Read the dictionary that `to_json` returns; raise InvalidInputError for any other."""
        try:
            made = cls(
                str(data["path"]),
                tuple(FieldId(int(field)) for field in data["fields"]),
                tuple(int(column) for column in data.get("column_indices") or ()),
                int(data.get("file_major_version") or 0),
                int(data.get("file_minor_version") or 0),
                int(data.get("file_size_bytes") or 0) or None,
                _base_id_from_json(data.get("base_id")),
            )
            made.to_proto()  # which refuses numbers that no message can hold
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise InvalidInputError(f"not a data file: {data!r:.200} ({error!r})") from error
        return made


@dataclass(frozen=True, slots=True)
class OverlayFile:
    """New values for some rows of some fields of a fragment.

    Attributes:
        file: The file with the values; a column of it has one for each row of its field.
        rows: The physical rows.
        committed_version: The version since which the values are valid; 0 before the commit.
    """

    file: DataFile
    rows: OverlayRows
    committed_version: int = 0

    @classmethod
    def from_proto(cls, message: table_pb2.DataOverlayFile) -> OverlayFile:
        """Read an overlay of a manifest; the rows are checked when they are used."""
        file = DataFile.from_proto(message.data_file)
        try:
            rows = OverlayRows.from_proto(message, len(file.fields))
        except CorruptFileError as error:
            raise error.at(f"overlay {file.path}") from None
        return cls(file, rows, message.committed_version)

    def to_proto(self) -> table_pb2.DataOverlayFile:
        """Return the manifest message of the overlay."""
        message = table_pb2.DataOverlayFile(
            data_file=self.file.to_proto(), committed_version=self.committed_version
        )
        self.rows.to_proto(message)
        return message

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> OverlayFile:
        """Read the dictionary that `to_json` returns; raise InvalidInputError for any other."""
        try:
            file, offsets = DataFile.from_json(data["data_file"]), list(data["offsets"])
            version = int(data.get("committed_version") or 0)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(f"not an overlay: {data!r:.200} ({error!r})") from error
        return cls(file, OverlayRows.of(offsets, len(file.fields)), version)

    def to_json(self, num_rows: int) -> dict[str, Any]:
        """Return a plain dictionary, with the names that Lance tools exchange.

        CorruptFileError is raised if it has rows that a fragment of `num_rows` rows has not.
        """
        return {
            "data_file": self.file.to_json(),
            "offsets": self.rows.listed(num_rows),
            "committed_version": self.committed_version or None,
        }

    def covers(self, fields: Collection[int]) -> bool:
        """Return whether one of some fields has values here."""
        return not set(fields).isdisjoint(self.file.fields)

    def rows_of(self, field: FieldId, num_rows: int) -> NDArray[np.uint32]:
        """Return the rows with values of a field, as `OverlayRows.of_field`."""
        try:
            return self.rows.of_field(self.file.fields.index(field), num_rows)
        except CorruptFileError as error:
            raise error.at(f"overlay {self.file.path}") from None

    def without(self, fields: Collection[FieldId]) -> OverlayFile | None:
        """Return the overlay without values of some fields; None if no field is left."""
        left = self.file.without(fields)
        return None if set(left.fields) <= {GIVEN_UP} else replace(self, file=left)


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
        """Read the deletion file of a manifest; raise UnsupportedFeatureError for a newer type."""
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
        """Read the dictionary that `to_json` returns; raise InvalidInputError for any other."""
        if not isinstance(data, Mapping):
            raise InvalidInputError(f"not a deletion file: {data!r}")
        try:
            file_type = DeletionFileType(data["file_type"])
            version, number = int(data["read_version"]), int(data["id"])
            count = int(data.get("num_deleted_rows") or 0)
            base_id = _base_id_from_json(data.get("base_id"))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(f"not a deletion file: {data!r} ({error!r})") from error
        if not all(0 <= value <= _MAX_UINT64 for value in (version, number, count)):
            raise InvalidInputError(f"not a deletion file: {data!r}")
        return cls(file_type, version, number, count, base_id)


@dataclass(frozen=True, slots=True)
class Fragment:
    """A horizontal slice of a table.

    Attributes:
        id: Unique in the table and never reused. In a transaction, 0 means "not assigned yet".
        files: Data files, each with all rows of the fragment.
        physical_rows: Number of rows, including deleted ones; 0 in very old tables that did not
            record it.
        deletion_file: Lists the deleted rows; None if there are none.
        row_ids: One id per physical row, with stable row ids. In a transaction, the sequence may be
            short or missing: the commit then assigns new ids to the remaining rows.
        created_at: The version that created each physical row; may be short like `row_ids`.
        updated_at: The version that last changed each physical row; may be short like `row_ids`.
        overlays: Values that replace some of those in `files`.
    """

    id: FragmentId
    files: tuple[DataFile, ...]
    physical_rows: int
    deletion_file: DeletionFile | None = None
    row_ids: StoredSequence | None = None
    created_at: StoredSequence | None = None
    updated_at: StoredSequence | None = None
    overlays: tuple[OverlayFile, ...] = ()

    @property
    def num_deleted_rows(self) -> int:
        """The number of deleted rows, as far as it was recorded."""
        return self.deletion_file.num_deleted_rows if self.deletion_file else 0

    @property
    def num_rows(self) -> int:
        """The number of rows that are not deleted, as far as it was recorded."""
        return self.physical_rows - self.num_deleted_rows

    @property
    def is_counted(self) -> bool:
        """Whether row counts were recorded; see `pilum.table.read.snapshot`."""
        return bool(self.physical_rows and (self.num_deleted_rows or not self.deletion_file))

    @property
    def has_hidden_columns(self) -> bool:
        """Whether a sequence is stored as a column of the data files."""
        return IN_HIDDEN_COLUMN in (self.row_ids, self.created_at, self.updated_at)

    def with_file(self, file: DataFile) -> Fragment:
        """Return the fragment with an additional file."""
        return replace(self, files=(*self.files, file))

    def with_files(self, change: Callable[[DataFile], DataFile]) -> Fragment:
        """Return the fragment with other entries for the same files, those of overlays included."""
        overlays = (replace(one, file=change(one.file)) for one in self.overlays)
        return replace(self, files=tuple(map(change, self.files)), overlays=tuple(overlays))

    def with_other_values(self, fields: Collection[FieldId]) -> Fragment:
        """Return the fragment after its files got other values of some fields, in every row."""
        if not self.overlays:
            return self
        left = filter(None, (overlay.without(fields) for overlay in self.overlays))
        return replace(self, overlays=tuple(left))

    def file_of(self, field_id: FieldId) -> DataFile | None:
        """Return the data file that contains a leaf; None if none does."""
        return next((file for file in self.files if field_id in file.fields), None)

    @property
    def all_files(self) -> tuple[DataFile, ...]:
        """The data files, and those of the overlays."""
        if not self.overlays:
            return self.files
        return (*self.files, *(overlay.file for overlay in self.overlays))

    def with_deletions(self, file: DeletionFile) -> Fragment:
        """Return the fragment with a new deletion file."""
        return replace(self, deletion_file=file)

    @classmethod
    def from_proto(cls, message: table_pb2.DataFragment) -> Fragment:
        """Read a fragment of a manifest."""
        if message.id > MAX_FRAGMENT_ID:
            raise CorruptFileError(f"fragment id {message.id} needs more than 32 bits")
        try:
            files = tuple(map(DataFile.from_proto, message.files))
            overlays = tuple(map(OverlayFile.from_proto, message.overlays))
        except CorruptFileError as error:
            raise error.at(f"fragment {message.id}") from None
        deletions = (
            DeletionFile.from_proto(message.deletion_file)
            if message.HasField("deletion_file")
            else None
        )
        if deletions and deletions.num_deleted_rows > message.physical_rows > 0:
            raise CorruptFileError(
                f"{deletions.num_deleted_rows} of {message.physical_rows} rows are deleted",
                f"fragment {message.id}",
            )
        return cls(
            FragmentId(message.id),
            files,
            message.physical_rows,
            deletions,
            # An attribute is read faster than a sequence by its kind.
            message.inline_row_ids or _sequence(message, ROW_IDS),
            message.inline_created_at_versions or _sequence(message, CREATED_AT),
            message.inline_last_updated_at_versions or _sequence(message, UPDATED_AT),
            overlays,
        )

    def to_proto(self) -> table_pb2.DataFragment:
        """Return the manifest message of the fragment."""
        message = table_pb2.DataFragment(
            id=self.id,
            files=[file.to_proto() for file in self.files],
            physical_rows=self.physical_rows,
            deletion_file=self.deletion_file.to_proto() if self.deletion_file else None,
            overlays=[overlay.to_proto() for overlay in self.overlays],
        )
        sequences = (
            (ROW_IDS, self.row_ids),
            (CREATED_AT, self.created_at),
            (UPDATED_AT, self.updated_at),
        )
        for kind, stored in sequences:
            if stored is not None:
                kind.to_proto(message, stored)
        return message

    def to_json(self) -> dict[str, Any]:
        """Return a plain dictionary, with the names that Lance tools exchange."""
        return {
            "id": self.id,
            "files": [file.to_json() for file in self.files],
            "overlays": [overlay.to_json(self.physical_rows) for overlay in self.overlays],
            "physical_rows": self.physical_rows,
            "deletion_file": self.deletion_file and self.deletion_file.to_json(),
            ROW_IDS.json_name: ROW_IDS.to_json(self.row_ids),
            CREATED_AT.json_name: CREATED_AT.to_json(self.created_at),
            UPDATED_AT.json_name: UPDATED_AT.to_json(self.updated_at),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Fragment:
        """Read the dictionary that `to_json` returns; raise InvalidInputError for any other."""
        if not isinstance(data, Mapping):
            raise InvalidInputError(f"not a fragment: {data!r}")
        row_ids, created, updated = (
            kind.from_json(data) for kind in (ROW_IDS, CREATED_AT, UPDATED_AT)
        )
        try:
            files = tuple(map(DataFile.from_json, data["files"]))
            number, rows = int(data["id"]), int(data.get("physical_rows") or 0)
            deleted = data.get("deletion_file")
            deletions = DeletionFile.from_json(deleted) if deleted else None
            overlays = tuple(map(OverlayFile.from_json, data.get("overlays") or ()))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInputError(f"not a fragment: {data!r} ({error!r})") from error
        if not 0 <= number <= MAX_FRAGMENT_ID or rows < 0:
            raise InvalidInputError(f"not a fragment: {data!r}")
        return cls(FragmentId(number), files, rows, deletions, row_ids, created, updated, overlays)


def _sequence(message: table_pb2.DataFragment, kind: SequenceKind) -> StoredSequence | None:
    return kind.from_proto(message) if message.WhichOneof(kind.arm) else None


def _base_id_from_json(value: Any) -> int | None:
    """Read the base id of a file; raise ValueError if it is neither None nor a 32-bit number."""
    if value is None:
        return None
    if isinstance(value, bool) or not 0 <= int(value) <= _MAX_BASE_ID:
        raise ValueError(f"base_id {value!r}")
    return int(value)
