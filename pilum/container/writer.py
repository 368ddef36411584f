"""Write a `.lance` file front to back.

    data buffers      page after page as columns fill up, each padded to 64 bytes (or more),
                      then zone maps, see `zone_writer.py`
    global buffer 0   the schema and the number of rows
    column metadata   one message per leaf column
    tables, footer    see `frame.py`

Payloads of blobs are written as they arrive, before the page that describes them. Every leaf column
buffers its own rows and writes a page at about 8 MiB, so memory stays bounded and page boundaries
differ between columns. Large pages are encoded in the thread pool; all pages are written in order.
Source: docs/format/container.md, "Writing".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from pilum.arguments import integer_of
from pilum.arrays import join_arrays
from pilum.container.blobs import Sidecars, place_blobs
from pilum.container.few_rows import MANY_COLUMNS, number_columns, write_joined
from pilum.container.frame import FileBody, PageEntry, Places, pack_columns, require_countable
from pilum.container.storable import checked_storage
from pilum.container.zone_summary import ROWS_PER_ZONE, ZoneSummary
from pilum.container.zone_writer import ColumnZones, write_zones
from pilum.encodings.base import EncodedPage, StoredPage
from pilum.encodings.choose import encode_pages
from pilum.encodings.joined_pages import can_join
from pilum.encodings.options import EncodingOptions
from pilum.encodings.rows import encode_places, encode_rows
from pilum.encodings.values import dictionary_below
from pilum.errors import InvalidInputError, SchemaMismatchError, UnsupportedTypeError
from pilum.format.blobs import described, in_files
from pilum.format.fields import Field, FieldId
from pilum.format.paths import LeafPath, elements_per_row, nullable_above_lists
from pilum.format.schema import Schema
from pilum.format.version import DEFAULT_VERSION, FileVersion
from pilum.levels import chain_of
from pilum.parallel import InOrder
from pilum.storage.base import Sink, finish_new

__all__ = [
    "ContainerWriter",
    "DataFileWriter",
    "FileOptions",
    "FileWriter",
    "WrittenFile",
]

_MAX_ALIGNMENT = 4096
_DICTIONARY_BYTES = 32 * 1024 * 1024
"""Different dictionaries with this total size end a page, regardless of the size of their keys."""

_PAGE_BYTES = 8 * 1024 * 1024
_NO_ENCODING = EncodingOptions()
_NUMBER_BYTES = 9
"""Upper bound of the bytes of a number and its validity."""


@dataclass(frozen=True, slots=True)
class FileOptions:
    """The options of a file writer.

    Attributes:
        data_cache_bytes: Bytes of rows that are buffered before they become pages, for all
            top-level columns together; 8 MiB for each column if None.
        max_page_bytes: Upper bound of the bytes of a page in memory; a page has at least one row.
        buffer_alignment: Buffers begin at a multiple of it, in bytes: 64, or 4096 for direct I/O,
            or a power of two between.
        encoding: Default encoding options, which the metadata of a field override.
        max_rows_per_group: Rows of a batch in a legacy file; others have no batches.
        group_bounds: Where the batches of a legacy file begin, and the end; None if all have
            `max_rows_per_group` rows.

    Raises:
        InvalidInputError: If a value is not allowed.
    """

    data_cache_bytes: int | None = None
    max_page_bytes: int | None = None
    buffer_alignment: int = 64
    encoding: EncodingOptions = _NO_ENCODING
    max_rows_per_group: int = 1024
    group_bounds: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("data_cache_bytes", "max_page_bytes", "max_rows_per_group"):
            size = getattr(self, name)
            if size is not None and (integer_of(size) or 0) < 1:
                raise InvalidInputError(f"{name}: expected an integer above 0, found {size!r}")
        if integer_of(self.buffer_alignment) not in {64, 128, 256, 512, 1024, 2048, _MAX_ALIGNMENT}:
            raise InvalidInputError(
                f"buffer_alignment: expected a power of two from 64 to {_MAX_ALIGNMENT}, found "
                f"{self.buffer_alignment!r}"
            )
        if not isinstance(self.encoding, EncodingOptions):
            raise InvalidInputError(
                f"encoding_options: expected EncodingOptions, found {self.encoding!r}"
            )

    def refuse(self, version: FileVersion, *names: str) -> None:
        """Raise InvalidInputError if an option is set that the file version does not have."""
        for name in names:
            if getattr(self, name) != getattr(FileOptions(), name):
                argument = "encoding_options" if name == "encoding" else name
                raise InvalidInputError(
                    f"{argument}: files of version {version} have no {getattr(self, name)!r}"
                )

    def page_bytes(self, num_columns: int) -> int:
        """Return the bytes of rows that become a page, given the number of top-level columns."""
        wanted = _PAGE_BYTES
        if self.data_cache_bytes is not None:
            wanted = max(self.data_cache_bytes // max(num_columns, 1), 1)
        return min(wanted, self.max_page_bytes or wanted)

    def within(self, limit_bytes: int, num_columns: int, least_page_bytes: int = 1) -> FileOptions:
        """Return options that buffer about `limit_bytes` of rows, unless a size was given.

        Args:
            limit_bytes: Bytes of all columns together.
            num_columns: Number of top-level columns.
            least_page_bytes: Pages do not become smaller, even if the limit is exceeded.
        """
        if self.data_cache_bytes is not None or num_columns * _PAGE_BYTES <= limit_bytes:
            return self
        return replace(self, data_cache_bytes=max(limit_bytes, num_columns * least_page_bytes))


_DEFAULTS = FileOptions()

_EASY = {None, "none"}
_TEXT = {"string", "large_string", "binary", "large_binary"}
OnPage: TypeAlias = Callable[[tuple[Field, ...], StoredPage, EncodedPage], None]


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A finished file.

    Attributes:
        num_rows: Number of its rows.
        size_bytes: Its size, bytes.
        field_ids: The field of each column.
        column_indices: The number of each column.
        version: File version.
        schema: The fields that were extended while writing, for use in further files.
    """

    num_rows: int
    size_bytes: int
    field_ids: tuple[FieldId, ...]
    column_indices: tuple[int, ...]
    version: FileVersion
    schema: Schema | None = None


class DataFileWriter(Protocol):
    """A writer of one new file of any version."""

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows."""

    def add_global_buffer(self, data: bytes) -> int:
        """Add a global buffer and return its number, from 1 on."""

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Add an entry to the schema metadata, replacing any entry with the same key."""

    def bytes_written(self) -> int:
        """Return bytes in the file, and those that wait to be encoded."""

    def finish(self) -> WrittenFile:
        """Write the remaining rows and the end of the file, then finish the sink."""

    def abort(self) -> None:
        """Discard the file."""


_Encoded: TypeAlias = "tuple[list[EncodedPage], ZoneSummary | None]"
"""The pages of rows, and what is known of their zones."""


class _ColumnWriter:
    """The buffered rows of one leaf column."""

    def __init__(self, path: LeafPath, page_bytes: int, defaults: EncodingOptions) -> None:
        self.path = path
        self.leaf = path[-1]
        self.elements = elements_per_row(path) if len(path) > 1 else 1
        self.options = defaults
        if path[0].metadata or self.leaf.metadata:
            fields = [(field.name, field.metadata) for field in path]
            self.options = EncodingOptions.of_field(fields, defaults)
        self.is_hard = self.options.compression not in _EASY or self.leaf.logical_type in _TEXT
        self.waiting = _Waiting(page_bytes)
        self.entries: list[PageEntry] = []
        self.num_rows = 0
        self.zones: ColumnZones | None = None
        self._may_have_zones = len(path) == 1
        self._as_if_null: tuple[bool, ...] = ()

    def begin_zones(self, chain: pa.Array) -> int | None:
        """Return the first row of a chain that is due; None if its zones are of no use."""
        if self._may_have_zones and self.zones is None:
            self.zones = ColumnZones.of(self.leaf, self.options.zones)
        first_row = None if self.zones is None else self.zones.begin(chain)
        if first_row is None:
            self.zones, self._may_have_zones = None, False
        return first_row

    def encode(self, chain: pa.Array, version: FileVersion, first_row: int | None) -> _Encoded:
        """Encode the pages of a chain that is due.

        Its zones are summarised if `first_row` is its first row in the file.
        """
        zones = None if first_row is None else ZoneSummary.of(chain, first_row)
        return self._pages(chain, version), zones

    def _pages(self, chain: pa.Array, version: FileVersion) -> list[EncodedPage]:
        if not (self.leaf.is_struct and self.leaf.children):
            return encode_pages(chain, version, self.options, self._as_if_null)
        is_v1_blob = len(self.leaf.children) == 2 and not self.leaf.is_packed
        encode = encode_places if is_v1_blob else encode_rows
        return encode(chain, len(self.path), version, self.options, self._as_if_null)

    def add(self, array: pa.Array) -> list[pa.Array]:
        """Add rows of the top-level column and return the chains that are due, one per page."""
        due = self.waiting.add(chain_of(array, self.path))
        if due and not self._as_if_null:
            # The reference misreads structs above lists if only some of the pages that it reads
            # together are marked as nullable. So all pages are marked, unless there is only one.
            self._as_if_null = nullable_above_lists(self.path)
        return due

    def flush(self) -> list[pa.Array]:
        """Return the chains of all buffered rows."""
        due = self.waiting.flush()
        if len(due) > 1:
            self._as_if_null = nullable_above_lists(self.path)
        return due


class _Waiting:
    """A buffer of chains (see `pilum.levels`), which are due as a page at `page_bytes`.

    It counts bytes of Arrow arrays. A dictionary is not counted as long as adjacent arrays share
    it. Slices of one table do, and each would otherwise count as much as the whole dictionary.
    """

    def __init__(self, page_bytes: int) -> None:
        self._page_bytes = page_bytes
        self._chains: list[pa.Array] = []
        self._chain_bytes = 0
        self._dictionary: pa.Array | None = None
        self._dictionary_bytes = 0

    @property
    def num_bytes(self) -> int:
        """Bytes of all buffered chains."""
        return self._chain_bytes + self._dictionary_bytes

    def add(self, chain: pa.Array) -> list[pa.Array]:
        """Add rows and return the chains that are due, one per page."""
        due: list[pa.Array] = []
        while len(chain):
            self._meet(dictionary_below(chain))
            room = max(self._page_bytes - self._chain_bytes, 0)
            size = self._bytes(chain)
            if size <= room:
                self._keep(chain, size)
                return [*due, *self.flush()] if self._is_full else due
            rows = max(int(room / size * len(chain)), 1)
            piece, chain = chain.slice(0, rows), chain.slice(rows)
            self._keep(piece, self._bytes(piece))
            if self._is_full or len(chain):
                due.extend(self.flush())
        return due

    def _keep(self, piece: pa.Array, size: int) -> None:
        self._chains.append(piece)
        self._chain_bytes += size

    def flush(self) -> list[pa.Array]:
        """Return the chain of all buffered rows, if there are any.

        There are several chains if the joined dictionaries are too large for the key type.
        """
        chains, self._chains, self._chain_bytes = self._chains, [], 0
        self._dictionary, self._dictionary_bytes = None, 0
        return _joined(chains) if chains else []

    @property
    def _is_full(self) -> bool:
        rows_fill_it = self._chain_bytes >= self._page_bytes
        return rows_fill_it or self._dictionary_bytes >= _DICTIONARY_BYTES

    def _meet(self, dictionary: pa.Array | None) -> None:
        """Count a dictionary, once for all adjacent arrays that share it."""
        if dictionary is None:
            return
        if self._dictionary is None or not _is_same(dictionary, self._dictionary):
            self._dictionary = dictionary
            self._dictionary_bytes += dictionary.nbytes

    def _bytes(self, chain: pa.Array) -> int:
        """Return the bytes of the rows, without their dictionary."""
        if self._dictionary is None:
            return int(chain.nbytes)
        return max(int(chain.nbytes) - int(self._dictionary.nbytes), len(chain))


def _is_same(left: pa.Array, right: pa.Array) -> bool:
    """Return whether two arrays have the same memory."""
    return _place(left) == _place(right)


def _place(array: pa.Array) -> list[int | None]:
    addresses = [None if one is None else one.address for one in array.buffers()]
    return [*addresses, array.offset, len(array)]


def _joined(chains: list[pa.Array]) -> list[pa.Array]:
    """Join the chains into one, or into as few as can be joined."""
    try:
        return [join_arrays(chains, "rows")]
    except UnsupportedTypeError:
        middle = len(chains) // 2
        return [*_joined(chains[:middle]), *_joined(chains[middle:])]


class ContainerWriter(ABC):
    """A writer of one new file since version 2.0, whose subclasses know the columns.

    The writer finishes or aborts the sink, the caller the sidecars, where larger blobs go. The
    fields of the schema have the ids of the table, and the version can store them.
    InvalidInputError is raised if the metadata of a field ask for an unknown encoding.
    """

    _encoding: InOrder[Any, Any]

    def __init__(
        self,
        sink: Sink,
        schema: Schema,
        version: FileVersion = DEFAULT_VERSION,
        options: FileOptions = _DEFAULTS,
        sidecars: Sidecars | None = None,
    ) -> None:
        self._sink = sink
        self._body = FileBody(sink, options.buffer_alignment)
        self._schema = schema
        self._version = version
        self._sidecars = sidecars
        self._num_rows = 0

    @abstractmethod
    def _add(self, arrays: list[pa.Array]) -> None:
        """Add rows, and encode the pages that are due."""

    @abstractmethod
    def _buffered_bytes(self) -> int:
        """Return the bytes of rows that are not due."""

    @abstractmethod
    def _flush(self) -> tuple[list[FieldId], list[bytes]]:
        """Write the remaining rows; return the field and the metadata of each column."""

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows with the columns of the schema, in the same order and of the same types.

        Raises:
            SchemaMismatchError: If the columns or their types differ.
            InvalidInputError: If a column contains a null and must not.
            UnsupportedTypeError: If a column cannot be stored in the file format.
        """
        names = self._schema.names
        if batch.schema.names != names:
            raise SchemaMismatchError(f"columns {batch.schema.names}; expected {names}")
        arrays = batch.columns
        if not self._schema.takes(batch):
            arrays = [
                array if field.takes(array) else self._stored(field, array)
                for field, array in zip(self._schema.fields, arrays, strict=True)
            ]
        self._add(arrays)
        self._num_rows += batch.num_rows
        require_countable(self._num_rows)

    def add_global_buffer(self, data: bytes) -> int:
        """Add a global buffer and return its number, from 1 on."""
        return self._body.global_buffer(data)

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Add an entry to the schema metadata, replacing any entry with the same key."""
        self._schema = replace(self._schema, metadata={**self._schema.metadata, key: value})

    def bytes_written(self) -> int:
        """Return bytes in the file, and those that wait to be encoded."""
        return self._sink.position + self._encoding.waiting_bytes + self._buffered_bytes()

    def finish(self) -> WrittenFile:
        """Write the remaining rows and the end of the file, then finish the sink."""
        ids, metadata = self._flush()
        schema = in_files(self._schema) if self._schema.has_marks else self._schema
        self._body.end(schema, self._num_rows, metadata, self._version)
        finish_new(self._sink)
        size, numbers = self._sink.position, tuple(range(len(ids)))
        return WrittenFile(self._num_rows, size, tuple(ids), numbers, self._version)

    def abort(self) -> None:
        """Discard the file."""
        self._encoding.cancel()
        self._sink.abort()

    def _stored(self, field: Field, array: pa.Array) -> pa.Array:
        storage = checked_storage(field, array)
        return place_blobs(field, storage, self._write_payload, self._sidecars)

    def _write_payload(self, data: object) -> int:
        position = self._sink.position
        self._sink.write(data)
        return position


class FileWriter(ContainerWriter):
    """A writer of one new file of version 2.1 or newer.

    `on_page` is called for each written page with the fields from the column to the leaf, the place
    and the page.
    """

    def __init__(
        self,
        sink: Sink,
        schema: Schema,
        version: FileVersion = DEFAULT_VERSION,
        options: FileOptions = _DEFAULTS,
        sidecars: Sidecars | None = None,
        *,
        on_page: OnPage | None = None,
    ) -> None:
        super().__init__(sink, schema, version, options, sidecars)
        self._on_page = on_page
        self._options = options
        self._fields = (described(schema) if schema.has_marks else schema).fields
        self._groups: dict[int, list[_ColumnWriter]] = {}
        self._few: dict[int, pa.Array] = {}
        self._encoding = InOrder(self._write_pages)

    def _add(self, arrays: list[pa.Array]) -> None:
        self._release(self._few)
        if arrays and self._may_be_few(len(arrays[0])):
            self._few = {place: arrays[place] for place in number_columns(self._schema)}
        for place, array in enumerate(arrays):
            if place not in self._few:
                self._add_to(place, array)

    def _may_be_few(self, num_rows: int) -> bool:
        """Return whether columns can be written together: few rows, which are the first ones."""
        if len(self._fields) < MANY_COLUMNS:
            return False
        is_page = num_rows * _NUMBER_BYTES < self._options.page_bytes(len(self._fields))
        fits = is_page and num_rows <= ROWS_PER_ZONE
        is_first = self._num_rows == 0 and self._on_page is None
        encoding = replace(self._options.encoding, zones=None)  # the file is too short for them
        return fits and is_first and can_join(num_rows, self._version, encoding)

    def _release(self, few: dict[int, pa.Array]) -> None:
        """Pass rows that were kept to be written together to the writers of their columns."""
        self._few = {}
        for place, array in few.items():
            self._add_to(place, array)

    def _add_to(self, place: int, array: pa.Array) -> None:
        for column in self._group(place):
            for chain in column.add(array):
                self._encode(column, chain)

    def _group(self, place: int) -> list[_ColumnWriter]:
        """Return the writers of the columns of a top-level field."""
        found = self._groups.get(place)
        if found is None:
            page_bytes = self._options.page_bytes(len(self._fields))
            found = self._groups[place] = [
                _ColumnWriter(path, page_bytes, self._options.encoding)
                for path in self._fields[place].leaf_paths()
            ]
        return found

    def _buffered_bytes(self) -> int:
        groups = self._groups.values()
        waiting = sum(column.waiting.num_bytes for columns in groups for column in columns)
        return waiting + _NUMBER_BYTES * self._num_rows * len(self._few)

    def _flush(self) -> tuple[list[FieldId], list[bytes]]:
        few = self._few
        joined = write_joined(self._body, few, self._version) if few else {}
        self._release({place: array for place, array in few.items() if place not in joined})
        groups = [
            [] if place in joined else self._group(place) for place in range(len(self._fields))
        ]
        columns = [column for group in groups for column in group]
        for column in columns:
            for chain in column.flush():
                self._encode(column, chain, has_zones=self._num_rows > ROWS_PER_ZONE)
        self._encoding.finish()
        zones: list[Places] = [()] * len(columns)
        if any(column.zones for column in columns):
            zoned = [(column.zones, column.entries) for column in columns]
            zones = write_zones(self._body, zoned, self._num_rows)
        entries = (column.entries for column in columns)
        packed = iter(pack_columns(zip(entries, zones, strict=True)))
        ids: list[FieldId] = []
        metadata: list[bytes] = []
        for place, (field, group) in enumerate(zip(self._fields, groups, strict=True)):
            if place in joined:
                ids.append(field.id)
                metadata.append(joined[place])
            for column in group:
                ids.append(column.leaf.id)
                metadata.append(next(packed))
        return ids, metadata

    def _encode(self, column: _ColumnWriter, chain: pa.Array, *, has_zones: bool = True) -> None:
        first_row = column.begin_zones(chain) if has_zones else None
        task = partial(column.encode, chain, self._version, first_row)
        self._encoding.add(column, task, chain.nbytes, is_hard=column.is_hard)

    def _write_pages(self, column: _ColumnWriter, encoded: _Encoded) -> None:
        pages, zones = encoded
        if zones is not None and column.zones is not None:
            column.zones.add(zones)
        for page in pages:
            buffers = self._body.page(page.buffers)
            # With fixed-size lists of structs, the length of a page counts elements; its start
            # counts rows.
            stored = StoredPage(column.num_rows, page.num_rows * column.elements, buffers)
            column.entries.append((stored, page.layout))
            if self._on_page:
                self._on_page(column.path, stored, page)
            column.num_rows += page.num_rows
