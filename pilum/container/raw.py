"""Read a file since version 2.0 by its parts: columns, pages and buffers by number, without types.

    with a number     global buffer i; column i; page (i, j); buffer (i, j, k)
    front to back     every buffer in file order, each byte read once

Any version with this container can be read, even if its encodings are unknown. Source:
docs/format/container.md, "Without types".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf import json_format, text_format
from numpy.typing import NDArray

from pilum.container.frame import (
    FOOTER_BYTES,
    Footer,
    Places,
    Tail,
    buffer_places,
    direct,
    parse_file_descriptor,
    parse_table,
    version_of,
)
from pilum.errors import CorruptFileError, UnsupportedFormatError, UnsupportedVersionError
from pilum.format.messages import PARSE_ERRORS, parse_message
from pilum.format.pb import encodings20_pb2, encodings21_pb2, file_pb2
from pilum.format.version import FileVersion
from pilum.lazy import cached_property
from pilum.storage.base import Plan, Ranges, Source, run_plan

__all__ = ["Part", "RawColumn", "RawEncoding", "RawPage", "RawReader", "pack_raw_column"]

_WALK_BYTES = 8 * 1024 * 1024

_MESSAGES: dict[str, Any] = {
    "lance.encodings.ArrayEncoding": encodings20_pb2.ArrayEncoding,
    "lance.encodings.ColumnEncoding": encodings20_pb2.ColumnEncoding,
    "lance.encodings21.PageLayout": encodings21_pb2.PageLayout,
}
"""The message types of descriptions, by their names in files."""


@dataclass(frozen=True, slots=True)
class RawEncoding:
    """A description, as stored in the file.

    Attributes:
        type_url: The name of the message follows the last slash.
        value: The serialised message.
    """

    type_url: str
    value: bytes

    def message(self) -> Any:
        """Return the description as a protobuf message.

        Raises:
            UnsupportedFormatError: If the name of the message is unknown.
            CorruptFileError: If it does not parse.
        """
        name = self.type_url.rpartition("/")[2]
        if name not in _MESSAGES:
            raise UnsupportedFormatError(f"descriptions of type {name!r} are not known")
        return parse_message(_MESSAGES[name], self.value, what=name)

    def to_dict(self) -> dict[str, Any]:
        """Return the description as plain values, named as in the format; bytes are base64."""
        message = self.message()
        found: dict[str, Any] = json_format.MessageToDict(message, preserving_proto_field_name=True)
        return found

    def __str__(self) -> str:
        """Return the description as text; its name and size if the message is unknown."""
        try:
            text: str = text_format.MessageToString(self.message())
        except UnsupportedFormatError:
            return f"{self.type_url} ({len(self.value)} bytes)"
        return text


@dataclass(frozen=True, slots=True)
class RawPage:
    """One page.

    Attributes:
        length: Number of its items; since version 2.1 these are rows.
        priority: The row of the file at which the page begins; always 0 in files of version 2.0.
        buffers: Position and size of each, bytes.
        encoding: The encoding of its buffers.
    """

    length: int
    priority: int
    buffers: tuple[tuple[int, int], ...]
    encoding: RawEncoding


@dataclass(frozen=True, slots=True)
class RawColumn:
    """One column.

    Attributes:
        encoding: The encoding of the column itself.
        buffers: Position and size of each buffer that belongs to no page, bytes.
        pages: Its pages, in the order of their items.
    """

    encoding: RawEncoding
    buffers: tuple[tuple[int, int], ...]
    pages: tuple[RawPage, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One buffer of a file, as `RawReader.walk` yields it.

    Attributes:
        kind: "page", "column" or "global".
        place: (column, page, buffer), (column, buffer) or (buffer,).
        position: Its position in the file, bytes.
        data: Its bytes, uint8.
    """

    kind: str
    place: tuple[int, ...]
    position: int
    data: NDArray[np.uint8]


class RawReader:
    """A reader of the parts of a file by number. Safe to use from several threads.

    Attributes:
        source: The source of the bytes.
        footer: The positions of all parts.
        global_buffers: Position and size of each, bytes; the first is the file descriptor.
    """

    def __init__(self, source: Source) -> None:
        """Read the end of a file, but no columns.

        Raises:
            CorruptFileError: If the file is not a Lance file, or is damaged.
            UnsupportedVersionError: If the version is older than 2.0 or unknown.
        """
        self.source = source
        self._tail = Tail.read(source)
        try:
            if version_of(self._tail.data) is FileVersion.LEGACY:
                raise UnsupportedVersionError(
                    f"files of version 0.1 have no columns by number\n  {source.path}"
                )
            self.footer = Footer.parse(self._tail.data[-FOOTER_BYTES:].tobytes(), source.size)
            self.global_buffers, self._columns = run_plan(self._tables(), source)
        except CorruptFileError as error:
            raise error.at(source.path) from None

    def _tables(self) -> Plan[tuple[Places, Places]]:
        footer, size = self.footer, self.footer.column_table_bytes
        global_table, column_table = yield from self._tail.all_at(
            [
                (footer.global_table, footer.global_table_bytes),
                (footer.global_table - size, size),
            ]
        )
        return (
            parse_table(global_table, footer.global_table),
            parse_table(column_table, footer.global_table),
        )

    @property
    def version(self) -> FileVersion:
        """Version of the file."""
        return self.footer.version

    @property
    def num_columns(self) -> int:
        """Number of columns of the file."""
        return len(self._columns)

    @cached_property
    def descriptor(self) -> file_pb2.FileDescriptor:
        """Global buffer 0: the schema and the number of rows."""
        try:
            return parse_file_descriptor(self.global_buffer(0))
        except CorruptFileError as error:
            raise error.at(self.source.path) from None

    def global_buffer(self, index: int) -> bytes:
        """Read a global buffer.

        Raises:
            IndexError: If there is none with this number.
        """
        return self._read(_item(self.global_buffers, index))

    def column_descriptor(self, index: int) -> bytes:
        """Read the metadata of one column: a serialised `ColumnMetadata`.

        Raises:
            IndexError: If there is none with this number.
        """
        return self._read(_item(self._columns, index))

    def column(self, index: int) -> RawColumn:
        """Read the metadata of one column only.

        Raises:
            IndexError: If there is none with this number.
            CorruptFileError: If they do not parse, or a buffer lies outside of the file.
            UnsupportedFormatError: If a description is stored outside the column metadata.
        """
        return self._parse(index, self.column_descriptor(index))

    def columns(self) -> Iterator[RawColumn]:
        """Yield all columns in order; their metadata are read with one request.

        Raises:
            As `column`.
        """
        found = run_plan(self._tail.all_at(self._columns), self.source)
        return (self._parse(index, data.tobytes()) for index, data in enumerate(found))

    def page_buffer(self, column: int, page: int, index: int) -> bytes:
        """Read one buffer of a page.

        Raises:
            IndexError: If there is no such column, page or buffer.
        """
        return self._read(_item(_item(self.column(column).pages, page).buffers, index))

    def column_buffer(self, column: int, index: int) -> bytes:
        """Read one buffer of a column that belongs to none of its pages.

        Raises:
            IndexError: If there is no such column or buffer.
        """
        return self._read(_item(self.column(column).buffers, index))

    def walk(self) -> Iterator[Part]:
        """Read all buffers in file order.

        Requests are sequential, and small buffers are coalesced into one request. About 8 MiB are
        held in memory, or the largest buffer if that is more.
        """
        waiting: list[tuple[int, int, str, tuple[int, ...]]] = []
        waiting_bytes = 0
        for part in sorted(self._parts()):
            if waiting_bytes + part[1] > _WALK_BYTES:
                yield from self._fetch(waiting)
                waiting, waiting_bytes = [], 0
            waiting.append(part)
            waiting_bytes += part[1]
        yield from self._fetch(waiting)

    def _parts(self) -> Iterator[tuple[int, int, str, tuple[int, ...]]]:
        for index, buffer in enumerate(self.global_buffers):
            yield *buffer, "global", (index,)
        for number, column in enumerate(self.columns()):
            for index, buffer in enumerate(column.buffers):
                yield *buffer, "column", (number, index)
            for page_number, page in enumerate(column.pages):
                for index, buffer in enumerate(page.buffers):
                    yield *buffer, "page", (number, page_number, index)

    def _fetch(self, parts: list[tuple[int, int, str, tuple[int, ...]]]) -> Iterator[Part]:
        if not parts:
            return
        fetched = self.source.read(Ranges.of(*((position, size) for position, size, *_ in parts)))
        for (position, _, kind, place), data in zip(parts, fetched, strict=True):
            yield Part(kind, place, position, data)

    def _parse(self, index: int, data: bytes) -> RawColumn:
        try:
            return _parse_column(data, self.source.size)
        except CorruptFileError as error:
            raise error.at(f"column {index}").at(self.source.path) from None

    def _read(self, place: tuple[int, int]) -> bytes:
        return run_plan(self._tail.bytes_at(*place), self.source).tobytes()


def _item(items: Any, index: int) -> Any:
    if not 0 <= index < len(items):
        raise IndexError(f"number {index} of {len(items)}")
    return items[index]


def _parse_column(data: bytes, file_bytes: int) -> RawColumn:
    try:
        message = file_pb2.ColumnMetadata.FromString(data)
        return RawColumn(
            _encoding(message.encoding),
            buffer_places(message, file_bytes),
            tuple(
                RawPage(
                    page.length,
                    page.priority,
                    buffer_places(page, file_bytes),
                    _encoding(page.encoding),
                )
                for page in message.pages
            ),
        )
    except PARSE_ERRORS as error:
        raise CorruptFileError(f"column metadata: {error}") from error


def _encoding(message: file_pb2.Encoding) -> RawEncoding:
    if message.WhichOneof("location") != "direct":
        raise UnsupportedFormatError("column metadata: encodings that are described elsewhere")
    found = file_pb2.Any.FromString(message.direct.encoding)
    return RawEncoding(found.type_url, found.value)


def pack_raw_column(column: RawColumn) -> bytes:
    """Serialise the metadata of a column as a `ColumnMetadata`."""
    message = file_pb2.ColumnMetadata(
        encoding=direct(column.encoding.type_url, column.encoding.value)
    )
    _pack_buffers(message, column.buffers)
    for page in column.pages:
        stored = message.pages.add(
            length=page.length,
            priority=page.priority,
            encoding=direct(page.encoding.type_url, page.encoding.value),
        )
        _pack_buffers(stored, page.buffers)
    data: bytes = message.SerializeToString()
    return data


def _pack_buffers(message: Any, buffers: tuple[tuple[int, int], ...]) -> None:
    message.buffer_offsets.extend(offset for offset, _ in buffers)
    message.buffer_sizes.extend(size for _, size in buffers)
