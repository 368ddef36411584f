"""Public forms of what a manifest contains: fragments, their files and row ids, and indices.

They are plain values. Fragments and deletion files have the JSON form that Lance tools exchange.

To keep row ids when rows are rewritten manually, set `RowIdSequence(ids).to_inline_metadata()` in
the new fragments; a commit of `LanceOperation.Update` takes the ids from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, Self
from uuid import UUID

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from pilum.dataset.data_files import DataFile, DataOverlayFile
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.format.pb import file_pb2, table_pb2
from pilum.format.rows import MAX_ROWS
from pilum.table.model import fragment as table
from pilum.table.model import row_id_sequence
from pilum.table.model.index_segments import IndexSegment
from pilum.table.model.stored_sequence import CREATED_AT, ROW_IDS, SequenceKind, StoredSequence

__all__ = [
    "DataFile",
    "DataOverlayFile",
    "DeletionFile",
    "FragmentMetadata",
    "Index",
    "IndexFile",
    "RowDatasetVersionMeta",
    "RowIdMeta",
    "RowIdSequence",
]


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
        return DeletionFile.from_table(table.DeletionFile.from_json(_values(json)))

    @classmethod
    def from_table(cls, file: table.DeletionFile) -> DeletionFile:
        """Convert a manifest entry to its public form."""
        return cls(**file.to_json())

    def to_table(self) -> table.DeletionFile:
        """Convert to the form that the manifest stores.

        Raises:
            InvalidInputError: If a value has the wrong type.
        """
        return table.DeletionFile.from_json(vars(self))


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
        overlays: Values that replace some of those in `files`; see `LanceOperation.DataOverlay`.
    """

    id: int
    files: list[DataFile]
    physical_rows: int
    deletion_file: DeletionFile | None = None
    row_id_meta: RowIdMeta | None = None
    created_at_version_meta: RowDatasetVersionMeta | None = None
    last_updated_at_version_meta: RowDatasetVersionMeta | None = None
    overlays: list[DataOverlayFile] = field(default_factory=list)

    @property
    def num_rows(self) -> int:
        """The number of rows that are not deleted."""
        return self.physical_rows - self.num_deletions

    @property
    def num_deletions(self) -> int:
        """The number of deleted rows."""
        return self.deletion_file.num_deleted_rows if self.deletion_file else 0

    def data_files(self) -> list[DataFile]:
        """Return the data files, as in `files`."""
        return self.files

    def to_json(self) -> dict[str, Any]:
        """Return a plain dictionary that `json.dumps` accepts."""
        return self.to_table().to_json()

    @staticmethod
    def from_json(json_data: str) -> FragmentMetadata:
        """Read the JSON form that `json.dumps(fragment.to_json())` returns.

        Raises:
            InvalidInputError: If the text is not JSON, or does not describe a fragment.
        """
        return FragmentMetadata.from_table(table.Fragment.from_json(_values(json_data)))

    @classmethod
    def from_table(cls, fragment: table.Fragment) -> FragmentMetadata:
        """Convert a manifest entry to its public form."""
        deleted = fragment.deletion_file
        return cls(
            fragment.id,
            list(map(DataFile.from_table, fragment.files)),
            fragment.physical_rows,
            DeletionFile.from_table(deleted) if deleted else None,
            None if fragment.row_ids is None else RowIdMeta(fragment.row_ids),
            _lineage(fragment.created_at),
            _lineage(fragment.updated_at),
            list(map(DataOverlayFile.from_table, fragment.overlays)),
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
            row_ids=_stored(RowIdMeta, self.row_id_meta),
            created_at=_stored(RowDatasetVersionMeta, self.created_at_version_meta),
            updated_at=_stored(RowDatasetVersionMeta, self.last_updated_at_version_meta),
            overlays=tuple(one.to_table() for one in self.overlays),
        )


@dataclass(frozen=True)
class _SequenceMeta:
    """A sequence in the form that the manifest stores: its bytes, or the place of these."""

    _kind: ClassVar[SequenceKind]
    stored: StoredSequence

    def asdict(self) -> Any:
        """Return a plain value that `json.dumps` accepts."""
        return self._kind.to_json(self.stored)

    def json(self) -> str:
        """Return the JSON form."""
        return json.dumps(self.asdict())

    @classmethod
    def from_dict(cls, dict: Any) -> Self:
        """Read the value that `asdict` returns.

        Raises:
            InvalidInputError: If the value is of another kind.
        """
        stored = cls._kind.from_json({cls._kind.json_name: dict})
        if stored is None:
            raise InvalidInputError(f"{cls._kind.json_name}: expected a sequence, found None")
        return cls(stored)

    @classmethod
    def from_json(cls, json: str) -> Self:
        """Read the JSON form that `json` returns.

        Raises:
            InvalidInputError: If the text is not JSON, or describes another kind of value.
        """
        return cls.from_dict(_values(json))


class RowIdMeta(_SequenceMeta):
    """The row ids of a fragment, as stored in the manifest; see `RowIdSequence`."""

    _kind = ROW_IDS


class RowDatasetVersionMeta(_SequenceMeta):
    """The versions in which rows of a fragment were created or last changed, as in the manifest."""

    _kind = CREATED_AT


class RowIdSequence:
    """A sequence of stable row ids, one per row of a fragment."""

    def __init__(self, row_ids: Iterable[int] | pa.Array | range) -> None:
        """Create a sequence.

        Args:
            row_ids: Unsigned 64-bit integers, in row order.

        Raises:
            InvalidInputError: If the row ids are anything else.
        """
        try:
            listed = row_ids if hasattr(row_ids, "__len__") else list(row_ids)
            ids = pa.array(listed, pa.uint64())
        except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
            raise InvalidInputError(f"row_ids: expected integers without sign ({error})") from error
        if ids.null_count:
            raise InvalidInputError("row_ids: expected integers, found nulls")
        self._sequence = row_id_sequence.RowIdSequence.of(ids.to_numpy())

    @staticmethod
    def from_inline_metadata(metadata: RowIdMeta) -> RowIdSequence:
        """Read the row ids of a fragment.

        Raises:
            UnsupportedFeatureError: If the ids are not stored in the manifest; a scan of `_rowid`
                reads them in any case.
            CorruptFileError: If the ids are damaged.
        """
        if not isinstance(metadata.stored, bytes):
            raise UnsupportedFeatureError("these row ids are not in the manifest")
        sequence = RowIdSequence(())
        sequence._sequence = row_id_sequence.RowIdSequence.from_bytes(metadata.stored, MAX_ROWS)
        return sequence

    def to_inline_metadata(self) -> RowIdMeta:
        """Return the form that `FragmentMetadata.row_id_meta` holds."""
        return RowIdMeta(self._sequence.to_bytes())

    def to_pyarrow(self) -> pa.Array:
        """Return the ids as a uint64 array."""
        return pa.array(self._sequence.ids())

    def __iter__(self) -> Iterator[int]:
        return iter(self._sequence.ids().tolist())

    def __len__(self) -> int:
        return len(self._sequence)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RowIdSequence):
            return NotImplemented
        return np.array_equal(self._sequence.ids(), other._sequence.ids())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RowIdSequence({len(self)} row ids)"


@dataclass
class IndexFile:
    """One file of a segment.

    Attributes:
        path: Path below the folder of the segment.
        size_bytes: Size of the file.
    """

    path: str
    size_bytes: int


@dataclass
class Index:
    """One segment of an index.

    Attributes:
        uuid: Name of its folder below `_indices/`.
        name: Name of the index.
        fields: Ids of the indexed fields.
        dataset_version: The version whose rows it indexes.
        fragment_ids: Fragments that it covers, which may include fragments that no longer exist.
        index_version: Version of the index format.
        created_at: When it was created; None in old tables.
        base_id: Base path that contains its folder; None for the table's own folder.
        files: Its files; None if they were not recorded.
        index_details: Type URL and bytes of its details; None if there are none.
        covering_fields: Ids of fields whose values it stores but does not search.
    """

    uuid: str
    name: str
    fields: list[int]
    dataset_version: int
    fragment_ids: Iterable[int]
    index_version: int
    created_at: datetime | None = None
    base_id: int | None = None
    files: list[IndexFile] | None = None
    index_details: tuple[str, bytes] | None = None
    covering_fields: list[int] = field(default_factory=list)

    @classmethod
    def from_table(cls, segment: IndexSegment) -> Index:
        """Convert a manifest entry to its public form."""
        message = segment.message
        details = message.index_details
        return cls(
            segment.uuid,
            segment.name,
            list(segment.field_ids),
            segment.dataset_version,
            segment.fragments if segment.fragments is not None else BitMap(),
            message.index_version,
            segment.created_at,
            segment.base_id,
            [IndexFile(file.path, file.size_bytes) for file in message.files] or None,
            (details.type_url, details.value) if message.HasField("index_details") else None,
            list(message.covering_fields),
        )

    def to_table(self) -> IndexSegment:
        """Convert to the form that the manifest stores.

        Raises:
            InvalidInputError: If a value has the wrong type.
        """
        try:
            return IndexSegment(self._message())
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InvalidInputError(f"not an index: {self!r} ({error})") from error

    def _message(self) -> table_pb2.IndexMetadata:
        created = None if self.created_at is None else int(self.created_at.timestamp() * 1000)
        message = table_pb2.IndexMetadata(
            uuid=table_pb2.UUID(uuid=UUID(self.uuid).bytes),
            fields=self.fields,
            name=self.name,
            dataset_version=self.dataset_version,
            fragment_bitmap=BitMap(self.fragment_ids).serialize(),
            index_version=self.index_version,
            created_at=created,
            base_id=self.base_id,
            covering_fields=self.covering_fields,
        )
        for file in self.files or ():
            message.files.add(path=file.path, size_bytes=file.size_bytes)
        if self.index_details is not None:
            kind, value = self.index_details
            message.index_details.CopyFrom(file_pb2.Any(type_url=kind, value=value))
        return message


def _lineage(stored: StoredSequence | None) -> RowDatasetVersionMeta | None:
    return None if stored is None else RowDatasetVersionMeta(stored)


def _stored(kind: type[RowIdMeta | RowDatasetVersionMeta], meta: object) -> StoredSequence | None:
    """Convert the public form of a sequence to its stored form; None stays None."""
    if meta is None:
        return None
    if not isinstance(meta, kind):
        raise InvalidInputError(f"expected {kind.__name__} or None, found {meta!r}")
    return meta.stored


def _values(text: str) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"not JSON: {text!r} ({error})") from error
