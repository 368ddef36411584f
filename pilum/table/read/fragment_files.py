"""The data files of one fragment: which file contains which leaf. Files are opened once and kept.

For a requested field, the first file that lists the id of a leaf supplies it. A leaf that no file
lists is null in every row. Overlays replace values (`overlays.py`). Open readers are shared by all
scans of a session. Source: docs/format/table.md, "Fragments".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pilum.container.open import field_reader
from pilum.container.reader import FileReader
from pilum.container.segments import DataFileReader, FieldReader, FilePart, read_segments
from pilum.errors import CorruptFileError
from pilum.format.fields import DESCRIPTOR_ID, Field, FieldId
from pilum.format.rows import RowRanges
from pilum.format.text_forms import TextForm
from pilum.format.version import FileVersion
from pilum.lazy import cached_property
from pilum.storage.base import Store
from pilum.table.model.base_paths import blob_place, data_file_place, managed_blob_place
from pilum.table.model.deletion_vector import DeletionVector, load_deletions
from pilum.table.model.fragment import DataFile, Fragment, OverlayFile
from pilum.table.model.row_id_sequence import RowIdSequence
from pilum.table.model.stored_sequence import (
    CREATED_AT,
    ROW_IDS,
    UPDATED_AT,
    SequenceKind,
    StoredSequence,
    serialized_sequence,
)
from pilum.table.model.version_sequence import VersionSequence
from pilum.table.read.overlays import OverlaidFieldReader, overlaid
from pilum.table.read.session import Session, require_absence

__all__ = ["FragmentReader", "open_data_file"]

_Key: TypeAlias = tuple[str, int, tuple[str, ...]]

# Approximate sizes of Python objects.
_FRAGMENT_BYTES = 2048
_FIELD_BYTES = 2048
_SMALL_BYTES = 64 * 1024
"""Files of up to this size are in memory when they are open."""
_FIRST_VERSION = 1
"""Version that the reference reports for rows without a recorded version."""


def open_data_file(session: Session, store: Store, file: DataFile) -> DataFileReader:
    """Open a data file of a table, once for all readers of a session."""
    # Releases around 0.30 of the reference recorded too small a size for 0.1 files.
    size = None if _version(file) is FileVersion.LEGACY else file.size_bytes
    if file.base_id is None:
        return session.open_file(store, file.path_in_table, size)
    return session.open_file(*data_file_place(store, file), size)


def _version(file: DataFile) -> FileVersion:
    return FileVersion.from_numbers(file.major, file.minor)


class FragmentReader:
    """Reads fields of one fragment, of `num_rows` physical rows. Safe for several threads."""

    def __init__(
        self, session: Session, store: Store, fragment: Fragment, key: _Key | None = None
    ) -> None:
        self._session = session
        self.store = store
        self._files: dict[tuple[int | None, str], DataFileReader] = {}
        self._fields: dict[tuple[FieldId | TextForm | None, ...], FieldReader] = {}
        self._lineage_bytes = 0
        self._key = key or _key(store, fragment)
        self.fragment = fragment
        self.num_rows = fragment.physical_rows

    @classmethod
    def of(cls, session: Session, store: Store, fragment: Fragment) -> FragmentReader:
        """Return the reader of a fragment, which is shared within a session."""
        cache, key = session.metadata, _key(store, fragment)
        reader: FragmentReader | None = cache.get(key)
        if reader is None:
            made = cls(session, store, fragment, key)
            reader = cache.put_if_absent(key, made, made.held_bytes)
        if reader.fragment is not fragment and reader.fragment != fragment:
            # Another version may describe the same files differently: fields must not be mixed up.
            reader = cls(session, store, fragment, key)
            cache.put(key, reader, reader.held_bytes)
        return reader

    @property
    def id(self) -> int:
        """The id of the fragment."""
        return self.fragment.id

    @property
    def held_bytes(self) -> int:
        """The approximate memory size of the reader, with its open files."""
        files = 0
        for reader in tuple(self._files.values()):
            files += reader.held_bytes
        deleted = 4 * self.fragment.num_deleted_rows
        fields = _FIELD_BYTES * len(self._fields)
        return _FRAGMENT_BYTES + fields + deleted + self._lineage_bytes + files

    def small_files(self) -> tuple[FileReader, ...] | None:
        """Open the files and return them; None unless they are small, and have all values.

        Small files are in memory when they are open. Overlays have other values, and deleted rows
        have none.
        """
        fragment = self.fragment
        if fragment.deletion_file is not None or fragment.overlays:
            return None
        for file in fragment.files:
            if file.size_bytes is None or file.size_bytes > _SMALL_BYTES:
                return None
        is_new = not self._files
        files: list[FileReader] = []
        for file in fragment.files:
            reader = self._open(file, self.num_rows)
            if isinstance(reader, FileReader) and reader.is_in_memory:
                files.append(reader)
        if is_new:
            self._count()
        return tuple(files) if len(files) == len(fragment.files) else None

    @property
    def group_bounds(self) -> tuple[int, ...] | None:
        """The bounds of the batches of the files, with the end; None if files have no batches."""
        files = self.fragment.files
        if not files or _version(files[0]) is not FileVersion.LEGACY:
            return None
        from pilum.container.legacy.file import LegacyFile  # few processes read a legacy file

        first = self._open(files[0], self.num_rows)
        if not isinstance(first, LegacyFile):
            raise CorruptFileError(
                f"a file of version {first.version}, which the manifest calls legacy",
                f"fragment {self.id}, {files[0].path}",
            )
        return tuple(first.metadata.batch_bounds.tolist())

    @property
    def deletions(self) -> DeletionVector | None:
        """The deleted rows, None if there are none; the errors are those of `load_deletions`."""
        return self._deletions if self.fragment.deletion_file else None

    @cached_property
    def _deletions(self) -> DeletionVector | None:
        return load_deletions(self.store, self.fragment)

    @cached_property
    def row_ids(self) -> RowIdSequence:
        """The stable id of each physical row."""
        stored = self.fragment.row_ids
        if stored is None:
            raise CorruptFileError("no row ids in a table that has them", f"fragment {self.id}")
        with self._located():
            data = serialized_sequence(self.store, stored)
            if data is None:
                sequence = RowIdSequence.of(self._hidden(ROW_IDS))
            else:
                sequence = RowIdSequence.from_bytes(data, self.num_rows)
                self._require_rows("row ids", len(sequence))
        sequence = sequence.joined()
        self._count(sequence.size_bytes)
        return sequence

    @cached_property
    def created_at(self) -> VersionSequence:
        """The version that created each physical row; 1 if it was not recorded."""
        return self._versions(CREATED_AT, self.fragment.created_at)

    @cached_property
    def updated_at(self) -> VersionSequence:
        """The version that last changed each physical row; 1 if it was not recorded."""
        return self._versions(UPDATED_AT, self.fragment.updated_at)

    def _versions(self, kind: SequenceKind, stored: StoredSequence | None) -> VersionSequence:
        if stored is None:
            return VersionSequence.uniform(self.num_rows, _FIRST_VERSION)
        with self._located():
            data = serialized_sequence(self.store, stored)
            if data is None:
                sequence = VersionSequence.of(self._hidden(kind))
            else:
                sequence = VersionSequence.from_bytes(data, self.num_rows)
                self._require_rows("versions of rows", len(sequence))
        self._count(sequence.size_bytes)
        return sequence

    def _require_rows(self, what: str, found: int) -> None:
        if found != self.num_rows:
            raise CorruptFileError(f"{what}: {found} for {self.num_rows} rows")

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Add the fragment to errors."""
        try:
            yield
        except CorruptFileError as error:
            raise error.at(f"fragment {self.id}") from error.__cause__

    def _hidden(self, kind: SequenceKind) -> NDArray[np.uint64]:
        """Return the values of a column that no schema lists."""
        if self.file_of(FieldId(kind.field_id)) is None:
            raise CorruptFileError(f"no data file has the hidden column {kind.column}")
        field = Field(kind.column, FieldId(kind.field_id), "uint64", nullable=False)
        rows = RowRanges.of((0, self.num_rows))
        arrays = read_segments(list(self.field(field).segments(rows)))
        if any(array.null_count for array in arrays):
            raise CorruptFileError(f"nulls in the hidden column {kind.column}")
        return np.concatenate([array.to_numpy() for array in arrays])

    def field(self, field: Field) -> FieldReader:
        """Open the columns of a field, reduced to the requested members."""
        known = self._fields.get((field.form, *field.ids))
        return known if known and known.field is field else self.fields([field])[0]

    def fields(self, fields: Iterable[Field]) -> list[FieldReader]:
        """Open the columns of several fields; see `field`."""
        readers, has_grown = [], False
        for field in fields:
            if field.form is not None and not self._has_forms:
                field = field.in_form(None)
            key = field.form, *field.ids
            reader = self._fields.get(key)
            # The same columns may have another name or position in another version.
            if reader is None or (reader.field is not field and reader.field != field):
                reader = self._fields[key] = self._make(field)
                has_grown = True
            readers.append(reader)
        if has_grown:
            self._count()
        return readers

    @cached_property
    def _has_forms(self) -> bool:
        """Whether strings are decoded in the form of a scan; they are converted later if not."""
        if self.fragment.overlays:
            return False
        files = (self._open(file, self.num_rows) for file in self.fragment.files)
        return all(file.version.has_mini_blocks for file in files)

    def _count(self, lineage_bytes: int = 0) -> None:
        """Report the current size of the reader to the cache."""
        self._lineage_bytes += lineage_bytes
        self._session.metadata.resize(self._key, self, self.held_bytes)

    def file_of(self, field_id: FieldId) -> tuple[Store, str] | None:
        """Return the store and path of the data file that contains a leaf; None if none does."""
        file = self.fragment.file_of(field_id)
        return None if file is None else data_file_place(self.store, file)

    def managed_blob(self, field_id: FieldId, path: str) -> tuple[Store, str]:
        """Return the store and path of a blob below the folder of the file of a leaf."""
        file = self.fragment.file_of(field_id)
        assert file is not None  # it contains the descriptor
        return managed_blob_place(self.store, file, path)

    def blob_below(self, base_id: int, path: str) -> tuple[Store, str]:
        """Return the store and path of a blob below a base path."""
        return blob_place(self.store, base_id, path)

    def _make(self, field: Field) -> FieldReader:
        made = field_reader(field, self._parts(field), self.num_rows)
        if not self.fragment.overlays:
            return made
        made = overlaid(made, self.fragment.overlays, self._overlay_part)
        if isinstance(made, OverlaidFieldReader):
            self._count(made.held_bytes)
        return made

    def _overlay_part(self, overlay: OverlayFile, field: Field, num_rows: int) -> FilePart:
        """Return the part of a field that an overlay supplies in some rows."""
        file = overlay.file
        column_of = self._session.agreement.columns(file.fields, file.column_indices)
        columns = {number: column_of[number] for number in field.ids if number in column_of}
        # Fields of their own coverage may have different numbers of rows, which readers check.
        expected = num_rows if overlay.rows.are_shared else None
        return self._part(field, file, column_of, columns, expected)

    @cached_property
    def _columns(self) -> list[Mapping[FieldId, int]]:
        """The mapping from fields to columns of each file."""
        of = self._session.agreement.columns
        return [of(file.fields, file.column_indices) for file in self.fragment.files]

    def _parts(self, field: Field) -> list[FilePart]:
        """Return the files with parts of a field; of two with the same part, the first is used."""
        if len(self.fragment.files) == 1:
            [file], [column_of] = self.fragment.files, self._columns
            if not field.children and field.id in column_of:  # tables may have thousands of them
                own = {field.id: column_of[field.id]}
                return [self._part(field, file, column_of, own, self.num_rows)]
            columns = {number: column_of[number] for number in field.ids if number in column_of}
            rows = self.num_rows
            parts = [self._part(field, file, column_of, columns, rows)] if columns else []
            missing = set(field.ids).difference(columns)
        else:
            parts, missing = [], set(field.ids)
            for file, column_of in zip(self.fragment.files, self._columns, strict=True):
                columns = {number: column_of[number] for number in missing if number in column_of}
                if columns:
                    parts.append(self._part(field, file, column_of, columns, self.num_rows))
                    missing.difference_update(columns)
        if not missing:
            return parts
        for part in parts:  # in some files, structs and lists have columns
            require_absence(field, missing, part.reader)
        self._require_absence(field, missing)
        return parts

    def _require_absence(self, field: Field, missing: set[FieldId]) -> None:
        """Raise CorruptFileError if a leaf that no file lists is in a file, or not nullable."""
        paths = [path for path in field.leaf_paths() if path[-1].id in missing]
        for path in paths:
            leaf = path[-1]
            if leaf.id != DESCRIPTOR_ID and not any(above.nullable for above in path):
                raise CorruptFileError(
                    f"no data file has field {leaf.name!r} (id {leaf.id}), which is never null",
                    f"fragment {self.fragment.id}",
                )
        leaves = {path[-1].id for path in paths}
        for file in self.fragment.files if leaves else ():
            require_absence(field, leaves, self._open(file, self.num_rows))

    def _part(
        self,
        field: Field,
        file: DataFile,
        column_of: Mapping[FieldId, int],
        columns: Mapping[FieldId, int],
        num_rows: int | None,
    ) -> FilePart:
        reader = self._open(file, num_rows)
        self._session.agreement.require(field, column_of, reader)
        return FilePart(reader, columns, file.fields)

    def _open(self, file: DataFile, num_rows: int | None) -> DataFileReader:
        """Open a file; raise CorruptFileError if it has other than this number of rows."""
        key = file.base_id, file.path
        reader = self._files.get(key)
        if reader is None:  # if threads open it together, all use one reader
            opened = open_data_file(self._session, self.store, file)
            reader = self._files.setdefault(key, opened)
        if num_rows is not None and reader.num_rows != num_rows:
            raise CorruptFileError(
                f"rows: the manifest says {num_rows}, the file {reader.num_rows}",
                f"fragment {self.fragment.id}",
                reader.source.path,
            )
        return reader


def _key(store: Store, fragment: Fragment) -> _Key:
    """Return the key of the reader of a fragment in the cache of a session."""
    paths = tuple(
        [  # a base id may refer to another place in another version
            file.path if file.base_id is None else _absolute(data_file_place(store, file))
            for file in fragment.all_files
        ]
    )
    if deleted := fragment.deletion_file:
        paths = (*paths, deleted.path(fragment.id))
    return store.identity, fragment.id, paths


def _absolute(place: tuple[Store, str]) -> str:
    return f"{place[0].uri}/{place[1]}"
