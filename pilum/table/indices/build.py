"""New segments of indices: trained on rows, or merged from segments and further rows.

    rows              ──▶ train ──┐
                                  ├──▶ files in _indices/{uuid}/ ──▶ entry, to be committed
    segments, rows    ──▶ merge ──┘

No version refers to the files before a commit. After an error they are deleted; those of a process
that was killed are removed by a cleanup.

Source: docs/format/indices.md; docs/format/table.md, "Indices".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
from pyroaring import BitMap

from pilum.errors import CorruptFileError, InvalidInputError
from pilum.format.pb import table_pb2
from pilum.index.base import IndexRows, IndexType, Part, References
from pilum.index.files import IndexFolder, IndexFolderWriter
from pilum.index.inverted.parameters import InvertedParameters
from pilum.index.inverted.staging import STAGING, merge_staged, stage
from pilum.table.indices.open_segments import OpenSegment
from pilum.table.indices.rows import OnRows, index_rows, indexed_column
from pilum.table.model.base_paths import own_store
from pilum.table.model.index_segments import IndexSegment
from pilum.table.model.names import index_folder
from pilum.table.read.snapshot import Snapshot

__all__ = [
    "NewIndex",
    "Rewrite",
    "discard_segments",
    "ignore_rows",
    "merge_segments",
    "merge_staged_partitions",
    "stage_partitions",
    "train_segment",
    "without_rows",
    "write_merged",
    "write_segment",
]


class Rewrite(Enum):
    """A way to write all rows of an index again."""

    RETRAINED = "models are trained again"
    BALANCED = "large partitions are split"


def ignore_rows(num_rows: int) -> None:
    """Do nothing when rows are read."""
    del num_rows


@dataclass(frozen=True)
class NewIndex:
    """A request for a new segment.

    Attributes:
        name: Name of the index.
        path: The column, or the dotted path of a member of a struct.
        type: Type of the index.
        dataset_version: The version whose rows it reflects.
        uuid: Name of its folder.
        on_rows: Called while rows are read, with their number.
        on_nodes: Called while rows are inserted into graphs, with their number.
    """

    name: str
    path: str
    type: IndexType[Any]
    dataset_version: int
    uuid: UUID = field(default_factory=uuid4)
    on_rows: OnRows = ignore_rows
    on_nodes: OnRows = ignore_rows


def train_segment(
    snapshot: Snapshot, new: NewIndex, parameters: Any, fragments: BitMap
) -> IndexSegment:
    """Write a segment of the rows of some fragments.

    Args:
        snapshot: The version with the rows; the files go to its store.
        new: The segment.
        parameters: From `IndexType.parameters`.
        fragments: Ids of existing fragments; none of them for an empty segment.

    Returns:
        The entry for the manifest.

    Raises:
        CorruptFileError: If a file is damaged.
    """
    rows = _rows(snapshot, new, fragments)
    return write_segment(
        snapshot, new, fragments, lambda folder: new.type.train(rows, parameters, folder)
    )


def merge_segments(
    snapshot: Snapshot,
    new: NewIndex,
    old: Sequence[OpenSegment],
    fragments: BitMap,
    *,
    rewrites: Rewrite | None = None,
) -> IndexSegment:
    """Merge segments and the rows of further fragments into one segment.

    Args:
        snapshot: The version with the rows; the files go to its store.
        new: The segment, whose parameters are those of the last old one.
        old: Segments of the same type and column; one or more. Rows of those that the type cannot
            merge are read again.
        fragments: Ids of existing fragments to add, which no old segment covers.
        rewrites: How all rows are written again; then the old segments cover no fragments. None to
            merge segments.

    Returns:
        The entry for the manifest.

    Raises:
        CorruptFileError: If a file is damaged.
    """
    again = [one for one in old if not new.type.can_merge(one.index)]
    fragments = fragments.union(*(one.fragments for one in again))
    old = [without_rows(one) if one in again else one for one in old]
    references = _references(snapshot, new.type)
    parts = [segment.part(references) for segment in old]
    rows = _rows(snapshot, new, fragments) if fragments else None
    if rows is not None:
        _require_column(new, old, rows.type)
    covered: BitMap = fragments.union(*(segment.lasting_fragments for segment in old))
    if rewrites is not None:
        is_retrained = rewrites is Rewrite.RETRAINED
        write = new.type.retrain if is_retrained else new.type.balance
        return write_segment(snapshot, new, covered, lambda folder: write(parts, rows, folder))
    return write_merged(snapshot, new, parts, rows, covered)


def _require_column(new: NewIndex, old: Sequence[OpenSegment], type: pa.DataType) -> None:
    """Check that segments are of a column of a type; a damaged manifest may name another one.

    Raises:
        CorruptFileError: If a segment has values of another type.
    """
    # The reference also creates indices of dictionaries, which are kept.
    values = type.value_type if pa.types.is_dictionary(type) else type
    for segment in old:
        known = segment.index.value_type
        if known is not None and known not in (type, values):
            raise CorruptFileError(
                f"an index of {known} for column {new.path!r} of {type}",
                f"index {segment.name!r}, segment {segment.segment.entry.uuid}",
            )


def without_rows(segment: OpenSegment) -> OpenSegment:
    """Return a segment as if it covered no fragment, so that only its parameters matter."""
    reduced = segment.segment.reduced(segment.snapshot, segment.fragments)
    return replace(segment, segment=reduced)


def write_merged(
    snapshot: Snapshot,
    new: NewIndex,
    parts: Sequence[Part[Any]],
    rows: IndexRows | None,
    covered: BitMap,
) -> IndexSegment:
    """Write a segment that is merged from parts and rows, and covers the given fragments."""
    return write_segment(snapshot, new, covered, lambda folder: new.type.merge(parts, rows, folder))


def stage_partitions(
    snapshot: Snapshot, new: NewIndex, parameters: InvertedParameters, fragments: BitMap
) -> None:
    """Write the part of a full-text segment that one task builds.

    Args:
        snapshot: The version with the rows; the files go to its store.
        new: The segment, whose uuid all tasks share.
        parameters: From `IndexType.parameters`.
        fragments: Ids of the fragments of this task, at least one.

    Raises:
        CorruptFileError: If a file is damaged.
    """
    folder = _folder(snapshot, new.uuid, f"/{STAGING}")
    with _deleted_on_failure(folder):
        stage(_rows(snapshot, new, fragments), parameters, min(fragments), folder)


def merge_staged_partitions(snapshot: Snapshot, uuid: UUID) -> None:
    """Merge the parts of a full-text segment that tasks built.

    Raises:
        NotFoundError: If there are none.
        InvalidInputError: If tasks had different parameters or the same rows, or the parts are
            merged already.
        CorruptFileError: If a file is damaged.
    """
    folder = _folder(snapshot, uuid)
    with _deleted_on_failure(folder):
        merge_staged(IndexFolder(folder.store, f"{folder.path}/{STAGING}"), folder)


def _folder(snapshot: Snapshot, uuid: UUID, below: str = "") -> IndexFolderWriter:
    path = f"{index_folder(str(uuid))}{below}"
    return IndexFolderWriter(own_store(snapshot.store), path, snapshot.manifest.data_version)


@contextmanager
def _deleted_on_failure(folder: IndexFolderWriter) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):
            folder.delete()
        raise


@contextmanager
def _named(new: NewIndex) -> Iterator[None]:
    """Name the index and its column in errors about values: types of indices do not know them."""
    try:
        yield
    except InvalidInputError as error:
        raise type(error)(f"index {new.name!r} of column {new.path!r}: {error}") from error


def discard_segments(snapshot: Snapshot, new: Sequence[IndexSegment]) -> None:
    """Delete the files of new segments that were not committed."""
    store = own_store(snapshot.store)
    for segment in new:
        for file in segment.message.files:
            with suppress(OSError):
                store.delete(f"{index_folder(segment.uuid)}/{file.path}")


def _references(snapshot: Snapshot, type: IndexType[Any]) -> References:
    """Return what identifies a row in new segments of a type."""
    if not snapshot.has_stable_row_ids and type.references is References.ROW_IDS:
        return References.ADDRESSES
    return type.references


def _rows(snapshot: Snapshot, new: NewIndex, fragments: BitMap) -> IndexRows:
    column = indexed_column(snapshot, new.path)
    references = _references(snapshot, new.type)
    rows = index_rows(snapshot, column, references, fragments, new.on_rows)
    return replace(rows, on_nodes=new.on_nodes)


def write_segment(
    snapshot: Snapshot,
    new: NewIndex,
    covered: BitMap,
    write: Callable[[IndexFolderWriter], bytes],
) -> IndexSegment:
    """Write a segment.

    Args:
        snapshot: The version with the rows; the files go to its store.
        new: The segment.
        covered: Ids of the fragments that it covers.
        write: Function that writes the files and returns the details of the index.

    Returns:
        The entry for the manifest.
    """
    folder = _folder(snapshot, new.uuid)
    with _deleted_on_failure(folder), _named(new):
        details = write(folder)
    leaf = indexed_column(snapshot, new.path).leaf
    assert leaf is not None
    if not folder.sizes:  # too few rows to train: only a definition, which the next merge builds
        covered = BitMap()
    has_ids = snapshot.has_stable_row_ids
    message = table_pb2.IndexMetadata(
        uuid=table_pb2.UUID(uuid=new.uuid.bytes),
        fields=[leaf.id],
        name=new.name,
        dataset_version=new.dataset_version,
        fragment_bitmap=covered.serialize(),
        index_version=new.type.index_version(has_stable_row_ids=has_ids, details=details),
        created_at=time.time_ns() // 10**6,
    )
    message.index_details.type_url = new.type.type_url
    message.index_details.value = details
    for name, size_bytes in folder.sizes.items():
        message.files.add(path=name, size_bytes=size_bytes)
    return IndexSegment(message)
