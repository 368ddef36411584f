"""The objects to which the descriptors of a data file refer by a path or URI.

    {kind: 4, blob_uri: _blobs/….blob}              managed, where the data file is
    {kind: 5, blob_uri: _blobs/….blob, blob_id}     managed, in the base path of that id
    {kind: 3, blob_uri, blob_id}                    external

Only descriptors name these objects: to find them, every row of a data file is read. Source:
docs/format/blobs.md, "Managed blobs".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pilum.blocks import validity_mask
from pilum.container.blobs import distinct_uris
from pilum.container.mapped import map_fields
from pilum.container.open import field_reader, open_file
from pilum.container.segments import DataFileReader, FilePart, read_segments
from pilum.format.blobs import BlobKind, is_descriptor
from pilum.format.fields import Field
from pilum.format.rows import RowRanges
from pilum.storage.base import Store
from pilum.table.model.base_paths import data_file_place
from pilum.table.model.fragment import DataFile

__all__ = ["BlobReference", "blob_references"]

_ROWS = 64 * 1024


class BlobReference(NamedTuple):
    """The place of an object.

    Attributes:
        kind: Whether the object is managed.
        base_id: Id of the base path to which the URI is relative; 0 unless it is relative to one.
        uri: Path or URI of the object.
    """

    kind: BlobKind
    base_id: int
    uri: str


def blob_references(store: Store, file: DataFile) -> set[BlobReference]:
    """Read all references of a data file, also those of deleted rows.

    Args:
        store: Store of the table, with its base paths.
        file: The data file.

    Raises:
        NotFoundError: If the file does not exist.
        CorruptFileError: If it is damaged.
    """
    place, path = data_file_place(store, file)
    source = place.source(path, file.size_bytes)
    try:
        reader = open_file(source)
        if not reader.version.has_blobs_v2:
            return set()
        fields = [one for one in reader.schema.fields if any(map(is_descriptor, one.walk()))]
        return {one for field in fields for one in _references(reader, field)}
    finally:
        source.close()


def _references(reader: DataFileReader, field: Field) -> Iterator[BlobReference]:
    part = FilePart(reader, reader.field_columns())
    column = field_reader(field, [part], reader.num_rows)
    for start in range(0, reader.num_rows, _ROWS):
        rows = RowRanges.of((start, min(start + _ROWS, reader.num_rows)))
        for array in read_segments(list(column.segments(rows))):
            found: set[BlobReference] = set()
            map_fields(field, array, is_descriptor, partial(_collect, found))
            yield from found


def _collect(found: set[BlobReference], field: Field, descriptors: pa.Array) -> pa.Array:
    del field
    alive = validity_mask(descriptors)
    kinds = np.where(alive, descriptors.field("kind").fill_null(0).to_numpy(), 0).astype(np.uint8)
    ids, uris = descriptors.field("blob_id").fill_null(0), descriptors.field("blob_uri")
    for kind, base_id, _, distinct in distinct_uris(kinds, ids.to_numpy(), uris):
        found.update(
            BlobReference(BlobKind(kind), base_id, uri) for uri in distinct.dictionary.to_pylist()
        )
    return descriptors
