"""Write batches to new data files, one fragment each, that are not yet part of any version.

    batches  |  0  |  1  |  2  |  3  |
    files    |   max_rows   |   max_rows   |…     a file ends at the exact row
                                                  or after the batch that makes it too large

Files go to the table's own folder, or to some of its base paths in turn. If anything fails, an
interrupt included, the files are removed; nothing refers to them yet. Source:
docs/format/table.md, "Writing".
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Protocol

import pyarrow as pa

from pilum.arguments import MOST_COUNT, require_count
from pilum.container.open import new_file, require_storable
from pilum.container.writer import DataFileWriter, FileOptions
from pilum.errors import InvalidInputError, UnsupportedTypeError
from pilum.format.blobs import has_blobs, is_prepared
from pilum.format.schema import Schema
from pilum.format.version import DEFAULT_VERSION, FileVersion
from pilum.storage.base import Store
from pilum.storage.local import pending_of
from pilum.storage.pending import MAX_BYTES, PendingFiles
from pilum.table.model.base_options import open_base
from pilum.table.model.base_paths import BasePath
from pilum.table.model.fragment import DataFile, Fragment, FragmentId
from pilum.table.model.names import data_path, new_data_file_name
from pilum.table.write.managed_blobs import ManagedBlobs
from pilum.table.write.sidecars import SidecarFiles, discard_file

__all__ = [
    "MAX_BYTES_PER_FILE",
    "MAX_ROWS_PER_FILE",
    "Target",
    "WriteObserver",
    "WriteOptions",
    "all_targets",
    "chosen_targets",
    "write_fragments",
]

_LAYOUT = FileOptions()
_PREFIX = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Target:
    """A folder for new data files, with the id of its base path (None for the table's own folder).

    `is_root` is whether it has the folders of a table; otherwise, files lie directly in it.
    """

    store: Store
    base_id: int | None = None
    is_root: bool = True

    def path(self, file_name: str) -> str:
        """Return the path of a data file."""
        return data_path(file_name) if self.is_root else file_name


def chosen_targets(
    own: Store, bases: Sequence[BasePath], wanted: Sequence[str]
) -> tuple[Target, ...]:
    """Return the targets for base paths, given by name or path, in this order; else the own folder.

    InvalidInputError is raised if there is no such base path.
    """
    known = {base.path: base for base in bases}
    known |= {base.name: base for base in bases if base.name is not None}
    for name in wanted:
        if name not in known:
            raise InvalidInputError(
                f"target_bases: no base path {name!r}; there are {sorted(known)}"
            )
    return tuple(_target_of(own, known[name]) for name in wanted) or (Target(own),)


def all_targets(own: Store, bases: Sequence[BasePath]) -> tuple[Target, ...]:
    """Return the table's own folder, then every base path."""
    ordered = sorted(bases, key=lambda base: base.id)
    return (Target(own), *(_target_of(own, base) for base in ordered))


def _target_of(own: Store, base: BasePath) -> Target:
    return Target(open_base(own, base.id, base.path), base.id, base.is_dataset_root)


class WriteObserver(Protocol):
    """Is called for each fragment of a write; its id is its number in the write."""

    def begin(self, fragment: Fragment) -> None:
        """Take notice of a fragment without files and rows, which is about to be written."""

    def complete(self, fragment: Fragment) -> None:
        """Take notice of a fragment that is written."""


MAX_ROWS_PER_FILE = 1024 * 1024
"""The number of rows after which a new file is started, unless another is given."""

MAX_BYTES_PER_FILE = 90 << 30
"""The size at which a new file is started, unless another is given."""

_TARGET_ROWS = "lance.compaction.target_rows_per_fragment"
_TARGET_BYTES = "lance.compaction.target_bytes_per_fragment"
_MOST_DIGITS = 20
_STREAM_BYTES = 32 * 1024 * 1024
_RETURN_BYTES = 16 * 1024 * 1024
"""Bytes of a stream after which unused memory is returned."""

_LEAST_PAGE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options for the sizes and names of data files.

    Attributes:
        max_rows_per_file: Maximum number of rows in a file; None for `MAX_ROWS_PER_FILE`.
        max_bytes_per_file: A file that has grown to this size gets no further batch; None for
            `MAX_BYTES_PER_FILE`.
        version: File version to write.
        layout: Sizes and encodings within the files.
        file_name_prefix: Prefix of the file names, to identify their writer.
        pack_bytes: A file beside the data file, in which blobs are packed, gets no further ones
            when it has grown to this size.
        allow_uris: Whether blobs may refer to places outside of the table.
        targets: Where the files go, in turn; the table's own folder if there are none.
        known_bases: Ids of the base paths to which descriptors of managed blobs may refer.
        unfinished_bytes: Maximum number of bytes of full files that are still being sent to an
            object store.
        observer: Is called for each fragment; None for no calls.
        is_stream: Whether no one else keeps the rows in memory, so that memory is returned to the
            operating system while they are written.
    """

    max_rows_per_file: int | None = None
    max_bytes_per_file: int | None = None
    version: FileVersion = DEFAULT_VERSION
    layout: FileOptions = _LAYOUT
    file_name_prefix: str | None = None
    pack_bytes: int = 1 << 30
    allow_uris: bool = False
    targets: tuple[Target, ...] = ()
    known_bases: frozenset[int] = frozenset()
    unfinished_bytes: int = MAX_BYTES
    observer: WriteObserver | None = None
    is_stream: bool = False

    def __post_init__(self) -> None:
        for name in ("max_rows_per_file", "max_bytes_per_file", "pack_bytes"):
            size = getattr(self, name)
            if size is None or (type(size) is int and 0 < size <= MOST_COUNT):
                continue  # as is usual: a check of its own is a step of each append
            require_count(name, size, 1)
        if self.file_name_prefix is not None and not _PREFIX.fullmatch(self.file_name_prefix):
            raise InvalidInputError(
                f"file_name_prefix: expected letters, digits, - and _, found "
                f"{self.file_name_prefix!r}"
            )

    def for_table(self, config: Mapping[str, str]) -> WriteOptions:
        """Return options whose missing limits are the target sizes of the table with this config.

        A compaction joins files until they have these sizes. InvalidInputError is raised if a
        setting that is needed is not a positive number.
        """
        rows, size = self.max_rows_per_file, self.max_bytes_per_file
        return replace(
            self,
            max_rows_per_file=_setting(config, _TARGET_ROWS) if rows is None else rows,
            max_bytes_per_file=_setting(config, _TARGET_BYTES) if size is None else size,
        )

    def for_stream(self, num_columns: int) -> WriteOptions:
        """Return options for rows that no one else keeps in memory: their pages are smaller.

        Args:
            num_columns: Number of top-level columns.
        """
        if self.version is FileVersion.LEGACY:
            return self
        layout = self.layout.within(_STREAM_BYTES, num_columns, _LEAST_PAGE_BYTES)
        return replace(self, layout=layout, is_stream=True)


def _setting(config: Mapping[str, str], key: str) -> int | None:
    text = config.get(key)
    if text is None:
        return None
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    if not is_number or int(text) < 1:
        raise InvalidInputError(
            f"setting {key} of the table: expected a positive whole number, found {text!r:.40}; "
            "change it with update_config"
        )
    return min(int(text), sys.maxsize)


def write_fragments(
    store: Store,
    schema: Schema,
    batches: Iterable[pa.RecordBatch],
    options: WriteOptions | None = None,
) -> tuple[Fragment, ...]:
    """Write batches to new data files, one fragment each.

    Args:
        store: Where the table is, or will be.
        schema: Schema of the files, with the field ids and the metadata of the table.
        batches: The rows, with the columns of `schema.arrow` in that order.
        options: Options for the files; None for the defaults.

    Returns:
        The fragments, with unassigned ids; none if there are no rows.

    Raises:
        SchemaMismatchError: If a batch does not have the schema.
        InvalidInputError: If a blob refers to a place that is not allowed.
        UnsupportedTypeError: If files of the version cannot hold a field.
        OSError: If the store fails. After any exception, no file is left.
    """
    options = options or WriteOptions()
    require_storable(schema, options.version, has_sidecars=True)
    _require_no_descriptors(schema)
    writer = _RollingWriter(store, schema, options)
    try:
        for batch in _returning_memory(batches) if options.is_stream else batches:
            writer.write(batch)
            del batch
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


def _require_no_descriptors(schema: Schema) -> None:
    """Raise UnsupportedTypeError if blobs are given as descriptors that no table file may have."""
    if schema.has_managed_blobs or not schema.has_marks:
        return
    for field in schema.fields:
        if any(map(is_prepared, field.walk())):
            raise UnsupportedTypeError(
                f"column {field.name!r}: descriptors of blobs belong to one data file, and tables "
                "name theirs themselves; write the file with LanceFileSession.open_writer and "
                "commit it, or create the table with managed blobs"
            )


def _returning_memory(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass batches on; after some of them, return memory that Arrow's allocator keeps unused.

    Buffers of a stream differ in size, so an allocator keeps much more than is in use at a time.
    """
    pool, num_bytes = pa.default_memory_pool(), 0
    for batch in batches:
        num_bytes += batch.nbytes
        yield batch
        del batch
        if num_bytes >= _RETURN_BYTES:
            pool.release_unused()
            num_bytes = 0


class _RollingWriter:
    """Writes one file after the other."""

    def __init__(self, store: Store, schema: Schema, options: WriteOptions) -> None:
        self._schema = schema
        self._has_managed_blobs = schema.has_managed_blobs
        self._has_blobs = schema.has_marks and any(map(has_blobs, schema.fields))
        self._options = options
        self._max_rows = options.max_rows_per_file or MAX_ROWS_PER_FILE
        self._max_bytes = options.max_bytes_per_file or MAX_BYTES_PER_FILE
        self._targets = cycle(options.targets or (Target(store),))
        self._pending = PendingFiles(options.unfinished_bytes, pending_of(store))
        self._written: list[tuple[Target, str]] = []
        self._fragments: list[Fragment] = []
        self._file: DataFileWriter | None = None
        self._sidecars: list[SidecarFiles] = []
        self._num_rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch, split where a file is full."""
        start = 0
        while start < batch.num_rows:
            file = self._file or self._open()
            part = batch.slice(start, self._max_rows - self._num_rows)
            file.write_batch(part)
            start += part.num_rows
            self._num_rows += part.num_rows
            if self._is_full(file):
                self._close(file)

    def finish(self) -> tuple[Fragment, ...]:
        """Finish the last file, and wait until all files are durable."""
        self._pending.begin_last()
        if self._file:
            self._close(self._file)
        self._pending.wait()
        return tuple(self._fragments)

    def abort(self) -> None:
        """Remove all files."""
        self._pending.settle()
        with suppress(OSError):
            if self._file:
                self._file.abort()
        for sidecars in self._sidecars:
            with suppress(OSError):
                sidecars.discard()
        for target, name in self._written:
            discard_file(target.store, target.path(name))

    def _open(self) -> DataFileWriter:
        name = new_data_file_name(self._options.file_name_prefix)
        target = next(self._targets)
        self._written.append((target, name))
        sink = self._pending.sink(target.store.sink(target.path(name)))
        try:
            options = self._options
            sidecars = self._new_sidecars(target, name)
            self._file = new_file(sink, self._schema, options.version, options.layout, sidecars)
        except BaseException:
            sink.abort()
            raise
        self._num_rows = 0
        if self._options.observer is not None:
            self._options.observer.begin(Fragment(FragmentId(len(self._fragments)), (), 0))
        return self._file

    def _new_sidecars(self, target: Target, name: str) -> SidecarFiles | None:
        if not self._has_blobs:
            return None
        options = self._options
        limits = (options.pack_bytes, options.allow_uris)
        if self._has_managed_blobs:
            made: SidecarFiles = ManagedBlobs(
                target.store, target.base_id, options.known_bases, *limits
            )
        else:
            made = SidecarFiles(target.store, target.path(name), *limits)
        self._sidecars.append(made)
        return made

    def _is_full(self, file: DataFileWriter) -> bool:
        return self._num_rows >= self._max_rows or file.bytes_written() >= self._max_bytes

    def _close(self, file: DataFileWriter) -> None:
        if self._sidecars:
            self._sidecars[-1].finish()
        written = file.finish()
        self._schema = written.schema or self._schema
        self._file = None
        self._num_rows = 0
        target, name = self._written[-1]
        data_file = DataFile(
            name,
            written.field_ids,
            written.column_indices,
            written.version.major,
            written.version.minor,
            written.size_bytes,
            target.base_id,
        )
        number = FragmentId(len(self._fragments))
        self._fragments.append(Fragment(FragmentId(0), (data_file,), written.num_rows))
        if self._options.observer is not None:
            self._options.observer.complete(replace(self._fragments[-1], id=number))
