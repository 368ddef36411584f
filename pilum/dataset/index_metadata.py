"""Public forms of index segments, for use in transactions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from pyroaring import BitMap

from pilum.errors import InvalidInputError
from pilum.format.pb import file_pb2, table_pb2
from pilum.table.model.index_segments import IndexSegment

__all__ = ["Index", "IndexFile"]


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
