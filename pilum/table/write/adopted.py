"""Data files that another writer wrote, matched to the columns of a table.

columns of the file    a, s.x, s.y           by name, each with the type that the table has
entry of a manifest    fields 0, 2, 3        column_indices 0, 1, 2
"""

from __future__ import annotations

from collections.abc import Iterator

from pilum.container.open import open_file
from pilum.errors import SchemaMismatchError, UnsupportedVersionError
from pilum.format.schema import Field, FieldId
from pilum.format.version import FileVersion
from pilum.table.model.base_paths import data_file_place
from pilum.table.model.fragment import DataFile
from pilum.table.read.snapshot import Snapshot

__all__ = ["adopted_file"]


def adopted_file(snapshot: Snapshot, path: str, base_id: int | None = None) -> tuple[DataFile, int]:
    """Return the manifest entry for a file that lies with the data files of a table.

    Args:
        snapshot: The version.
        path: Path of the file, below `data/`.
        base_id: The base path that it lies in; None for the table's own folder.

    Returns:
        The entry, and the number of rows.

    Raises:
        SchemaMismatchError: If the table lacks one of its columns, or has another type for it.
        UnsupportedVersionError: If the file has version 0.1, whose columns cannot be found by name.
        NotFoundError: If there is no such file.
        CorruptFileError: If the file is not a Lance file, or is damaged.
    """
    store, place = data_file_place(snapshot.store, DataFile(path, (), (), 0, 0, base_id=base_id))
    source = store.source(place)
    try:
        file = open_file(source)
        if file.version is FileVersion.LEGACY:
            raise UnsupportedVersionError(
                f"{place}: files of version 0.1 belong to the table that they were written for"
            )
        columns = file.field_columns()
        pairs = {
            known.id: columns[own.id]
            for field in file.schema.fields
            for own, known in _pairs(field, snapshot.schema.by_name.get(field.name), field.name)
            if own.id in columns
        }
        version = file.version
        entry = DataFile(
            path,
            tuple(map(FieldId, pairs)),
            tuple(pairs.values()),
            version.major,
            version.minor,
            source.size,
            base_id,
        )
        return entry, file.num_rows
    finally:
        source.close()


def _pairs(own: Field, known: Field | None, path: str) -> Iterator[tuple[Field, Field]]:
    """Yield each field of the file with the matching field of the table."""
    if known is None:
        raise SchemaMismatchError(f"the table has no column {path!r}")
    mine, theirs = ({child.name: child for child in field.children} for field in (own, known))
    if own.logical_type != known.logical_type or mine.keys() != theirs.keys():
        raise SchemaMismatchError(
            f"column {path!r}: type {own.arrow_type}; the table has {known.arrow_type}"
        )
    yield own, known
    for name, child in mine.items():
        yield from _pairs(child, theirs[name], f"{path}.{name}")
