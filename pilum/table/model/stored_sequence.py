"""Storage of a fragment's row ids, and of the versions of its rows, in the manifest.

    bytes               the serialized sequence, in the manifest itself
    ExternalSequence    a range of bytes in another file
    IN_HIDDEN_COLUMN    a column of the data files that no schema lists, one uint64 per row

`pilum.table.read.fragment_files` reads the sequences. Source: docs/format/table.md, "Row ids".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pilum.errors import CorruptFileError, InvalidInputError
from pilum.format.fields import FieldId
from pilum.format.meta_columns import CREATED_AT_VERSION, ROW_ID, UPDATED_AT_VERSION
from pilum.format.pb import table_pb2
from pilum.storage.base import Store

__all__ = [
    "CREATED_AT",
    "HIDDEN_IDS",
    "IN_HIDDEN_COLUMN",
    "ROW_IDS",
    "UPDATED_AT",
    "ExternalSequence",
    "SequenceKind",
    "StoredSequence",
    "serialized_sequence",
]


@dataclass(frozen=True, slots=True)
class ExternalSequence:
    """A sequence stored outside of the manifest: a range of bytes of a file of the table."""

    path: str
    offset_bytes: int
    size_bytes: int


class _Marker(Enum):
    """Marks a sequence that is stored as a hidden column."""

    IN_HIDDEN_COLUMN = "column"


IN_HIDDEN_COLUMN = _Marker.IN_HIDDEN_COLUMN
StoredSequence = bytes | ExternalSequence | _Marker


@dataclass(frozen=True, slots=True)
class SequenceKind:
    """One of the three sequences of a fragment.

    Attributes:
        arm: Name of the oneof in `DataFragment`.
        suffix: End of its members' names, after `inline_`, `external_`, `spilled_`.
        json_name: Name of the member in the dictionary that Lance tools exchange.
        json_inline: Name there of a sequence in the manifest.
        json_column: Name there of a hidden column.
        column: Name of the hidden column.
        field_id: Field id of the hidden column.
    """

    arm: str
    suffix: str
    json_name: str
    json_inline: str
    json_column: Any
    column: str
    field_id: int

    def from_proto(self, message: table_pb2.DataFragment) -> StoredSequence | None:
        """Read the sequence of a fragment of a manifest, None if it has none."""
        name = message.WhichOneof(self.arm)
        if name is None:
            return None
        value = getattr(message, name)
        if isinstance(value, bytes):
            return value
        if isinstance(value, table_pb2.ExternalFile):
            return ExternalSequence(value.path, value.offset, value.size)
        return IN_HIDDEN_COLUMN

    def to_proto(self, message: table_pb2.DataFragment, stored: StoredSequence) -> None:
        """Set the member of a fragment."""
        if isinstance(stored, bytes):
            setattr(message, f"inline_{self.suffix}", stored)
        elif isinstance(stored, ExternalSequence):
            external = getattr(message, f"external_{self.suffix}")
            external.path, external.offset = stored.path, stored.offset_bytes
            external.size = stored.size_bytes
        else:
            getattr(message, f"spilled_{self.suffix}").SetInParent()

    def to_json(self, stored: StoredSequence | None) -> Any:
        """Return the member of the dictionary that Lance tools exchange."""
        if isinstance(stored, bytes):
            return {self.json_inline: list(stored)}
        if isinstance(stored, ExternalSequence):
            return {
                "external": {
                    "path": stored.path,
                    "offset": stored.offset_bytes,
                    "size": stored.size_bytes,
                }
            }
        return self.json_column if stored else None

    def from_json(self, data: Mapping[str, Any]) -> StoredSequence | None:
        """Read the member that `to_json` returns from the dictionary of the whole fragment."""
        found = data.get(self.json_name)
        if found is None:
            return None
        if found == self.json_column:
            return IN_HIDDEN_COLUMN
        try:
            ((form, value),) = found.items()
            if form == self.json_inline:
                return bytes([*value])  # `bytes` would take a number as a length
            if form == "external":
                size, offset = int(value["size"]), int(value["offset"])
                return ExternalSequence(str(value["path"]), offset, size)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(f"{self.json_name}: {found!r} ({error!r})") from error
        raise InvalidInputError(f"{self.json_name}: {found!r}")


def serialized_sequence(store: Store, stored: StoredSequence) -> bytes | None:
    """Return the serialized sequence, None if it is a hidden column."""
    if not isinstance(stored, ExternalSequence):
        return stored if isinstance(stored, bytes) else None
    path = stored.path
    if path.startswith("/") or ".." in path.split("/"):
        raise CorruptFileError(f"a sequence in {path!r}, outside of the table")
    data = store.read(path)
    end = stored.offset_bytes + stored.size_bytes
    if end > len(data):
        raise CorruptFileError(f"a sequence up to byte {end} of {len(data)}", path)
    return data[stored.offset_bytes : end]


ROW_IDS = SequenceKind("row_id_sequence", "row_ids", "row_id_meta", "Inline", "Column", ROW_ID, -3)
CREATED_AT = SequenceKind(
    "created_at_version_sequence",
    "created_at_versions",
    "created_at_version_meta",
    "inline",
    {"column": {}},
    CREATED_AT_VERSION,
    -4,
)
UPDATED_AT = SequenceKind(
    "last_updated_at_version_sequence",
    "last_updated_at_versions",
    "last_updated_at_version_meta",
    "inline",
    {"column": {}},
    UPDATED_AT_VERSION,
    -5,
)
HIDDEN_IDS = frozenset(FieldId(kind.field_id) for kind in (ROW_IDS, CREATED_AT, UPDATED_AT))
"""Ids of fields of data files that are in no schema, but are in use."""
