"""The frame of a `.lance` file since version 2.0: aligned buffers, then metadata and a footer.

    data buffers      each padded to a multiple of the alignment, 64 bytes by default;
                      global buffers 1, 2, … are among them
    global buffer 0   the file descriptor
    column metadata   one message per column
    column table      (u64 position, u64 size) of the metadata of each column
    global table      the same of each global buffer
    footer, 40 bytes:

    -40  u64  position of the metadata of column 0        -16  u32  number of global buffers
    -32  u64  position of the column table                -12  u32  number of columns
    -24  u64  position of the global buffer table          -8  u16  major, u16 minor version
                                                           -4  "LANC"

The metadata of a column are messages within messages:

    ColumnMetadata   encoding: always the same; pages, in row order; own buffers (offset, size)
    Page             buffers (offset, size), number of rows, description, first row
    description      Any{type_url "/lance.encodings21.PageLayout", value}

`FileBody` writes all this. Readers begin with the last 64 KiB (`Tail`), one request; parts that lie
in them need no further one. Source: docs/format/container.md, "Footer", "Column metadata" and
"Writing".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilum.cache import Descriptions
from pilum.encodings.base import StoredPage, demand
from pilum.errors import CorruptFileError, InvalidInputError, UnsupportedVersionError
from pilum.format.messages import PARSE_ERRORS, parse_message
from pilum.format.pb import encodings21_pb2, file_pb2
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.storage.base import MemorySource, Plan, Ranges, Sink, Source

__all__ = [
    "FOOTER_BYTES",
    "MAGIC",
    "MAX_ITEMS",
    "MAX_ROWS",
    "FileBody",
    "Footer",
    "PageEntry",
    "Places",
    "Tail",
    "buffer_places",
    "direct",
    "pack_columns",
    "pack_pages_without_buffers",
    "pack_single_pages",
    "pack_table",
    "parse_column",
    "parse_file_descriptor",
    "parse_table",
    "require_countable",
    "version_of",
]

FOOTER_BYTES = 40
MAGIC = b"LANC"
_FOOTER = struct.Struct("<QQQIIHH4s")
_ENTRY = struct.Struct("<QQ")
_ENTRY_BYTES = _ENTRY.size
_FEW = 32

Places = tuple[tuple[int, int], ...]
"""Position and size of each entry; tuples of numbers are not tracked by the garbage collector."""


class Footer(NamedTuple):
    """The footer of a file; positions are absolute, in bytes."""

    column_metadata: int
    column_table: int
    global_table: int
    num_global_buffers: int
    num_columns: int
    version: FileVersion

    @classmethod
    def parse(cls, tail: bytes, file_bytes: int) -> Footer:
        """Parse the footer from at least the last 40 bytes of a file, or a shorter file."""
        version = version_of(tail)
        if version is FileVersion.LEGACY:
            raise UnsupportedVersionError("a legacy Lance file (version 0.1) has another footer")
        if len(tail) < FOOTER_BYTES:
            raise CorruptFileError(
                f"file size, bytes: expected at least {FOOTER_BYTES}, found {len(tail)}"
            )
        columns, table, globals_, num_globals, num_columns, *_ = _FOOTER.unpack(
            tail[-FOOTER_BYTES:]
        )
        footer = cls(columns, table, globals_, num_globals, num_columns, version)
        end = file_bytes - FOOTER_BYTES
        problem = None  # a table may have many footers, so a text is built only on errors
        if not columns <= table <= globals_ <= end:
            problem = f"positions {columns}, {table}, {globals_} in a file of {file_bytes}"
        elif footer.column_table_bytes > globals_ - table:
            problem = f"{num_columns} columns"
        elif footer.global_table_bytes > end - globals_:
            problem = f"{num_globals} global buffers"
        elif not num_globals:
            problem = "no global buffer, and so no schema"
        if problem:
            raise CorruptFileError(f"footer: {problem}")
        return footer

    @property
    def column_table_bytes(self) -> int:
        """Size of the column table."""
        return _ENTRY_BYTES * self.num_columns

    @property
    def global_table_bytes(self) -> int:
        """Size of the global buffer table."""
        return _ENTRY_BYTES * self.num_global_buffers

    def pack(self) -> bytes:
        """Serialise the footer: 40 bytes."""
        return _FOOTER.pack(
            self.column_metadata,
            self.column_table,
            self.global_table,
            self.num_global_buffers,
            self.num_columns,
            *self.version.footer_numbers,
            MAGIC,
        )


def version_of(tail: bytes | NDArray[np.uint8]) -> FileVersion:
    """Return the version of a file from its last 8 bytes; the footers of all versions end alike."""
    return _version(bytes(tail[-8:]))


@lru_cache(maxsize=16)
def _version(end: bytes) -> FileVersion:
    if len(end) != 8:
        raise CorruptFileError(f"file size, bytes: expected at least 8, found {len(end)}")
    if end[-4:] != MAGIC:
        raise CorruptFileError(f"magic: expected {MAGIC!r}, found {end[-4:]!r}; not a Lance file")
    return FileVersion.from_numbers(*struct.unpack("<HH", end[:4]))


def parse_table(data: NDArray[np.uint8], limit: int) -> Places:
    """Parse (position, size) entries, all of which must end at or before `limit`."""
    if len(data) <= _FEW * _ENTRY_BYTES:  # NumPy's overhead per call is larger
        pairs = tuple(_ENTRY.iter_unpack(data.tobytes()))
        inside = True
        for position, size in pairs:
            inside &= position + size <= limit
    else:
        entries = data.view(np.uint64).reshape(-1, 2)
        pairs = tuple(map(tuple, entries.tolist()))
        inside = int(entries.max()) <= limit and int(entries.sum(axis=1).max()) <= limit
    if not inside:
        raise CorruptFileError(f"a table entry beyond position {limit}")
    return pairs


def pack_table(entries: list[tuple[int, int]]) -> bytes:
    """Serialise a table."""
    return np.array(entries, dtype="<u8").reshape(-1, 2).tobytes()


_TAIL_BYTES = 64 * 1024


class Tail(NamedTuple):
    """The last bytes of a file from the position `start` on, or all bytes of a short file."""

    start: int
    data: NDArray[np.uint8]

    @classmethod
    def read(cls, source: Source) -> Tail:
        """Read the end of a file."""
        if isinstance(source, MemorySource):
            return cls(0, source.data)
        start = max(source.size - _TAIL_BYTES, 0)
        return cls(start, source.read(Ranges.of((start, source.size - start)))[0])

    def slice(self, position: int, size: int) -> NDArray[np.uint8]:
        """Return bytes of the file from a position that the tail holds."""
        return self.data[position - self.start : position - self.start + size]

    def since(self, position: int) -> Tail:
        """Return the tail from a position on, copied if it is shorter than this one."""
        if position <= self.start:
            return self
        return Tail(position, self.data[position - self.start :].copy())

    def extended(self, position: int) -> Plan[Tail]:
        """Read the bytes from an earlier position on."""
        fetched = yield Ranges.of((position, self.start - position))
        return Tail(position, np.concatenate((fetched[0], self.data)))

    def all_at(self, places: Sequence[tuple[int, int]]) -> Plan[list[NDArray[np.uint8]]]:
        """Return bytes at several positions; those before the tail are read together."""
        start, data = self.start, self.data
        missing = [place for place in places if place[0] < start]
        if not missing:  # most files
            return [data[at - start : at - start + size] for at, size in places]
        fetched = iter((yield Ranges.of(*missing)))
        return [next(fetched) if at < start else self.slice(at, size) for at, size in places]

    def bytes_at(self, position: int, size: int) -> Plan[NDArray[np.uint8]]:
        """Return bytes of the file, which are read only if they lie before the tail."""
        [data] = yield from self.all_at([(position, size)])
        return data


_ALIGNMENT = 64
_PAD = b"\x48"
_SMALL_BYTES = 64 * 1024


class FileBody:
    """A writer of one file: its buffers in order, whatever they contain, then its tables."""

    def __init__(self, sink: Sink, alignment: int = _ALIGNMENT) -> None:
        """Start a file; every buffer begins at a multiple of `alignment` bytes."""
        self.sink = sink
        self._alignment = alignment
        self._global_buffers: list[tuple[int, int]] = []

    def buffer(self, data: Any) -> tuple[int, int]:
        """Write a data buffer and return its position and size. Empty buffers take no space."""
        position, size = self.sink.position, memoryview(data).nbytes
        if size:
            self.sink.write(data)
        if gap := -size % self._alignment:
            self.sink.write(_PAD * gap)
        return position, size

    def page(self, buffers: Sequence[Any]) -> tuple[tuple[int, int], ...]:
        """Write the data buffers of a page, coalescing small ones; see `buffer`."""
        sizes = [memoryview(buffer).nbytes for buffer in buffers]
        if sum(sizes) > _SMALL_BYTES:
            return tuple([self.buffer(buffer) for buffer in buffers])
        position, places = self.sink.position, []
        parts: list[Any] = []
        for buffer, size in zip(buffers, sizes, strict=True):
            gap = -size % self._alignment
            places.append((position, size))
            parts += (buffer, _PAD * gap)
            position += size + gap
        self.sink.write(b"".join(parts))
        return tuple(places)

    @property
    def padding(self) -> bytes:
        """The padding of an aligned position, as long as the alignment."""
        return _PAD * self._alignment

    def aligned(self, data: Any) -> int:
        """Write data buffers that are padded already, and return the position of the first."""
        position = self.sink.position
        self.sink.write(data)
        return position

    def global_buffer(self, data: Any) -> int:
        """Write a global buffer and return its number, from 1 on."""
        self._global_buffers.append(self.buffer(data))
        return len(self._global_buffers)

    def end(
        self, schema: Schema, num_rows: int, columns: Sequence[bytes], version: FileVersion
    ) -> None:
        """Write the end of the file, given the metadata of each column."""
        message = file_pb2.Schema(fields=schema.to_proto(), metadata=schema.metadata_to_proto())
        descriptor = file_pb2.FileDescriptor(schema=message, length=num_rows)
        self.end_with(descriptor.SerializeToString(), columns, version)

    def end_with(self, descriptor: bytes, columns: Sequence[bytes], version: FileVersion) -> None:
        """Write the end of the file, given a serialised file descriptor."""
        global_buffers = [self._bytes(descriptor), *self._global_buffers]
        start = self.sink.position
        sizes = list(map(len, columns))
        entries = list(zip(accumulate(sizes, initial=start), sizes, strict=False))
        self.sink.write(b"".join(columns))
        column_table, _ = self._bytes(pack_table(entries))
        global_table, _ = self._bytes(pack_table(global_buffers))
        count = len(global_buffers)
        footer = Footer(start, column_table, global_table, count, len(columns), version)
        self._bytes(footer.pack())

    def _bytes(self, data: bytes) -> tuple[int, int]:
        position = self.sink.position
        self.sink.write(data)
        return position, len(data)


MAX_ROWS = 2**32
"""Upper bound of rows: no file has as many, as rows of a fragment have 32-bit numbers. A constant
page could claim any number of rows without a byte of values."""

MAX_ITEMS = 2**40
"""Upper bound of list items: no column has as many."""

_SMALL_DESCRIPTION_BYTES = 256
_PAGE_LAYOUT = "lance.encodings21.PageLayout"
_PLANAR_LAYOUT = "lance.encodings23.PlanarLayout"

PageEntry = tuple[StoredPage, encodings21_pb2.PageLayout]


def direct(type_url: str, value: bytes) -> file_pb2.Encoding:
    """Return a description that is stored where it is needed."""
    encoding = file_pb2.Any(type_url=type_url, value=value).SerializeToString()
    return file_pb2.Encoding(direct=file_pb2.DirectEncoding(encoding=encoding))


_COLUMN_ENCODING = direct("/lance.encodings.ColumnEncoding", b"\n\0")


def parse_column(
    data: bytes, file_bytes: int, descriptions: Descriptions
) -> tuple[list[PageEntry], Places]:
    """Parse a `ColumnMetadata`: its pages, and its own buffers; all lie within the file."""
    message = parse_message(file_pb2.ColumnMetadata, data, what="column metadata")
    entries: list[PageEntry] = []
    first_row = 0
    for number, page in enumerate(message.pages):
        try:
            entries.append(_parse_page(page, first_row, file_bytes, descriptions))
        except CorruptFileError as error:
            raise error.at(f"page {number}") from None
        first_row += page.length
    return entries, buffer_places(message, file_bytes) if message.buffer_offsets else ()


def _parse_page(
    page: file_pb2.ColumnMetadata.Page,
    first_row: int,
    file_bytes: int,
    descriptions: Descriptions,
) -> PageEntry:
    buffers, length = buffer_places(page, file_bytes), page.length
    if not 0 < length < MAX_ROWS:
        raise CorruptFileError(f"page length: {length} rows")
    data = page.encoding.direct.encoding
    layout = (
        descriptions.parsed(_layout, data)
        if len(data) <= _SMALL_DESCRIPTION_BYTES
        else _layout(data)
    )
    return StoredPage(first_row, length, buffers), layout


def buffer_places(message: Any, file_bytes: int) -> Places:
    """Return the position and size of each buffer of a page or column."""
    offsets, sizes = message.buffer_offsets, message.buffer_sizes
    demand(len(offsets) == len(sizes), "buffers: offsets without sizes")
    places = tuple(zip(offsets, sizes, strict=True))
    outside = [(offset, size) for offset, size in places if offset + size > file_bytes]
    if outside:
        raise CorruptFileError(f"buffers beyond the end of the file: {outside[:3]}")
    return places


def _layout(data: bytes) -> encodings21_pb2.PageLayout:
    try:
        description = file_pb2.Any.FromString(data)
        _, slash, name = description.type_url.rpartition("/")
        if slash and name == _PLANAR_LAYOUT:
            return _of_planar(description.value)
        if not slash or name != _PAGE_LAYOUT:
            raise CorruptFileError(
                f"page description: expected {_PAGE_LAYOUT}, found {description.type_url!r}"
            )
        layout: encodings21_pb2.PageLayout = encodings21_pb2.PageLayout.FromString(
            description.value
        )
    except PARSE_ERRORS as error:
        raise CorruptFileError(f"page description: {error}") from error
    return layout


def _of_planar(data: bytes) -> encodings21_pb2.PageLayout:
    from pilum.encodings.planar import page_layout  # only files of 2.3 need it

    return page_layout(encodings21_pb2.PlanarLayout.FromString(data))


def pack_columns(columns: Iterable[tuple[Sequence[PageEntry], Places]]) -> list[bytes]:
    """Serialise the metadata of columns, given the pages and the own buffers of each."""
    encodings: dict[int, file_pb2.Encoding] = {}
    return [_pack_column(pages, buffers, encodings) for pages, buffers in columns]


def _pack_column(
    pages: Sequence[PageEntry], buffers: Places, encodings: dict[int, file_pb2.Encoding]
) -> bytes:
    message = file_pb2.ColumnMetadata(
        encoding=_COLUMN_ENCODING,
        buffer_offsets=[offset for offset, _ in buffers],
        buffer_sizes=[size for _, size in buffers],
    )
    for stored, layout in pages:
        # Pages with equal descriptions share one object.
        encoding = encodings.get(id(layout))
        if encoding is None:
            encoding = direct(f"/{_PAGE_LAYOUT}", layout.SerializeToString())
            encodings[id(layout)] = encoding
        message.pages.add(
            buffer_offsets=[offset for offset, _ in stored.buffers],
            buffer_sizes=[size for _, size in stored.buffers],
            length=stored.num_rows,
            encoding=encoding,
            priority=stored.first_row,
        )
    data: bytes = message.SerializeToString()
    return data


def pack_single_pages(
    layout: encodings21_pb2.PageLayout, num_rows: int, places: Iterable[tuple[Any, Any]]
) -> Iterator[bytes]:
    """Serialise the metadata of columns of one page each, with a common description.

    The places are the offsets and the sizes of the buffers of each page.
    """
    message = file_pb2.ColumnMetadata(encoding=_COLUMN_ENCODING)
    page = message.pages.add(
        length=num_rows, encoding=direct(f"/{_PAGE_LAYOUT}", layout.SerializeToString())
    )
    for offsets, sizes in places:
        page.buffer_offsets[:] = offsets
        page.buffer_sizes[:] = sizes
        yield message.SerializeToString()


def pack_pages_without_buffers(layouts: Iterable[bytes], num_rows: int) -> Iterator[bytes]:
    """Serialise the metadata of columns of one page each, with these descriptions only."""
    message = file_pb2.ColumnMetadata(encoding=_COLUMN_ENCODING)
    page = message.pages.add(length=num_rows)
    described = file_pb2.Any(type_url=f"/{_PAGE_LAYOUT}")
    encoding = page.encoding.direct
    for layout in layouts:
        described.value = layout
        encoding.encoding = described.SerializeToString()
        yield message.SerializeToString()


def require_countable(num_rows: int) -> None:
    """Raise InvalidInputError if a new file has more rows than readers accept."""
    if num_rows >= MAX_ROWS:
        raise InvalidInputError(f"{num_rows} rows in a file, which has at most {MAX_ROWS - 1}")


def parse_file_descriptor(data: bytes) -> file_pb2.FileDescriptor:
    """Parse global buffer 0: the schema and the number of rows."""
    return parse_message(file_pb2.FileDescriptor, data, what="file descriptor")
