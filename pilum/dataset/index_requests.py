"""The column, type and parameters of a new index, checked before rows are read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any
from uuid import UUID, uuid4

from pyroaring import BitMap

from pilum.arguments import require_count, require_list, require_names, require_text
from pilum.dataset.index_forms import IndexConfig
from pilum.dataset.index_reports import Report
from pilum.dataset.vector_arguments import vector_keywords
from pilum.errors import IndexAlreadyExistsError, InvalidInputError, UnsupportedFeatureError
from pilum.index.base import IndexType
from pilum.index.inverted.inverted import INVERTED
from pilum.index.registry import index_type
from pilum.index.vector.types import VectorIndexType
from pilum.table.indices.build import NewIndex, train_segment
from pilum.table.indices.rows import document_type, existing_fragments, indexed_column
from pilum.table.model.index_segments import IndexSegment, index_segments, is_system_index
from pilum.table.read.snapshot import Snapshot

__all__ = [
    "Request",
    "existing_of",
    "index_name",
    "keywords_of",
    "one_column",
    "request_of",
    "require_continuable",
    "require_creatable",
    "segment_uuid",
    "segments_named",
    "type_and_parameters",
]


@dataclass(frozen=True)
class Request:
    """A checked request for a segment.

    Attributes:
        snapshot: The version.
        name: Name of the index.
        path: Path of the column.
        type: The index type.
        parameters: Its parameters.
        uuid: Uuid of the segment.
        replaced: The segments of an index of that name, which it replaces.
    """

    snapshot: Snapshot
    name: str
    path: str
    type: IndexType[Any]
    parameters: Any
    uuid: UUID
    replaced: tuple[IndexSegment, ...]

    def train(self, snapshot: Snapshot, fragments: BitMap, report: Report) -> IndexSegment:
        """Build a segment of some fragments of a version; its files are durable."""
        version = snapshot.manifest.version
        new = NewIndex(
            self.name, self.path, self.type, version, self.uuid, report.read, report.insert
        )
        return train_segment(snapshot, new, self.parameters, fragments)


def request_of(
    snapshot: Snapshot,
    column: str | Sequence[str],
    kind: str | IndexConfig,
    name: str | None,
    keywords: Mapping[str, Any],
    replaces: bool,
    index_uuid: str | None,
) -> Request:
    """Check the arguments of `LanceDataset.create_index`.

    Raises:
        InvalidInputError: If an argument is invalid.
        ColumnNotFoundError: If there is no such column.
        UnsupportedTypeError: If the column is none for the type.
        UnsupportedFeatureError: If the index is one of several columns.
        IndexAlreadyExistsError: If there is an index of the name, and none is to be replaced.
    """
    require_continuable(snapshot)
    path = one_column(column)
    type, given = type_and_parameters(kind, keywords)
    found = indexed_column(snapshot, path)
    value_type = document_type(found) if type is INVERTED else found.arrow.type
    type.require_supported(path, value_type)
    parameters = type.parameters(given, value_type)
    name = index_name(type.default_name(path, parameters) if name is None else name)
    replaced = segments_named(snapshot, name)
    if replaced and not replaces:
        raise IndexAlreadyExistsError(
            f"Index name {name!r} already exists, please specify a different name or use "
            "replace=True"
        )
    return Request(snapshot, name, path, type, parameters, segment_uuid(index_uuid), replaced)


def require_creatable(
    snapshot: Snapshot,
    column: str,
    kind: str | IndexConfig,
    name: str | None,
    keywords: Mapping[str, Any],
    *,
    replaces: bool,
) -> None:
    """Raise the errors of `request_of`."""
    request_of(snapshot, column, kind, name, keywords, replaces, None)


def type_and_parameters(
    kind: str | IndexConfig, keywords: Mapping[str, Any]
) -> tuple[IndexType[Any], dict[str, Any]]:
    """Return the type and its parameters; enums are passed on by their values."""
    given = {key: one.value if isinstance(one, Enum) else one for key, one in keywords.items()}
    name: Any = getattr(kind, "index_type", kind)  # the config of the reference has it too
    if not isinstance(kind, str):
        given = {**dict(getattr(kind, "parameters", None) or {}), **given}
    if not isinstance(name, str):
        raise InvalidInputError(f"index_type: expected a name or an IndexConfig, found {kind!r}")
    if given.get("document_granularity") == "row":  # the only one that most types have
        del given["document_granularity"]
    return index_type(name), given


def keywords_of(
    kind: str | IndexConfig, given: Mapping[str, Any], metric: str, *, is_shard: bool = False
) -> Mapping[str, Any]:
    """Return the keywords of `create_index` for its type; see `vector_keywords`."""
    type, found = type_and_parameters(kind, given)
    if not isinstance(type, VectorIndexType):
        return given
    return vector_keywords(found, metric, is_shard=is_shard)


def index_name(name: Any) -> str:
    """Return the name of an index; raise InvalidInputError if it is empty, or a system index's."""
    text = require_text("name", name)
    if not text or text.startswith("__lance_"):
        raise InvalidInputError(f"name: {name!r} cannot be the name of an index")
    return text


def one_column(column: str | Sequence[str]) -> str:
    """Return the only column of an index; raise UnsupportedFeatureError if there are several."""
    columns = [column] if isinstance(column, str) else require_names("column", column)
    if len(columns) != 1:
        raise UnsupportedFeatureError(f"an index of several columns: {columns}; pass one")
    return columns[0]


def segment_uuid(text: str | None) -> UUID:
    """Return the given uuid, or a new one; raise InvalidInputError if a text is none."""
    if text is None:
        return uuid4()
    try:
        return UUID(text)
    except (ValueError, TypeError, AttributeError):
        raise InvalidInputError(f"index_uuid: {text!r} is not a uuid") from None


def segments_named(snapshot: Snapshot, name: str) -> tuple[IndexSegment, ...]:
    """Return the segments of an index of users; none if there is no such index."""
    entries = index_segments(snapshot.manifest.index_section)
    return tuple(one for one in entries if one.name == name and not is_system_index(one.message))


def existing_of(snapshot: Snapshot, fragment_ids: Collection[int]) -> BitMap:
    """Return ids of fragments; raise InvalidInputError if one does not exist."""
    given = require_list("fragment_ids", fragment_ids)
    wanted = BitMap([require_count("fragment_ids", number) for number in given])
    if missing := wanted - existing_fragments(snapshot):
        raise InvalidInputError(f"fragment_ids: the table has no fragments {list(missing)}")
    return wanted


def require_continuable(snapshot: Snapshot) -> None:
    """Raise UnsupportedFeatureError if no version may follow this one."""
    manifest = snapshot.manifest
    manifest.require_continuable(f"{snapshot.store.uri}, version {manifest.version}")
