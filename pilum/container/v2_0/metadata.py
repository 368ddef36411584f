"""Convert column metadata of version 2.0 between protobuf and plain values.

    ColumnMetadata   encoding: `values` or `blob`; pages, in row order; buffers of the column
    Page             buffers (offset, size), number of items, description
    description      Any{type_url "/lance.encodings.ArrayEncoding", value}

A page counts items of its own column: below a list these are not rows. Pages may be empty.
Source: docs/format/encodings-2.0.md, "Columns and pages".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pilum.container.frame import MAX_ITEMS, Places, buffer_places, direct
from pilum.encodings.base import demand
from pilum.encodings.v2_0.base import ArrayEncoding, Buffers
from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.format.messages import PARSE_ERRORS
from pilum.format.pb import encodings20_pb2 as pb
from pilum.format.pb import file_pb2

__all__ = ["ColumnEntry", "PageEntry", "pack_column", "parse_column"]

_ARRAY_ENCODING = "lance.encodings.ArrayEncoding"
_COLUMN_ENCODING = "lance.encodings.ColumnEncoding"


@dataclass(frozen=True, slots=True)
class PageEntry:
    """One page: the number of its items, the positions of its buffers, and its encoding."""

    num_items: int
    buffers: Buffers
    encoding: pb.ArrayEncoding


@dataclass(frozen=True, slots=True)
class ColumnEntry:
    """One column: its non-empty pages, and whether it holds descriptors of blobs."""

    is_blob: bool
    pages: list[PageEntry]


def parse_column(data: bytes, file_bytes: int) -> ColumnEntry:
    """Parse a `ColumnMetadata`, whose buffers may not exceed the size of the file."""
    try:
        message = file_pb2.ColumnMetadata.FromString(data)
        encoding = pb.ColumnEncoding.FromString(_described(message.encoding, _COLUMN_ENCODING))
        shared = buffer_places(message, file_bytes)
        pages = []
        for number, page in enumerate(message.pages):
            try:
                entry = _parse_page(page, shared, file_bytes)
            except CorruptFileError as error:
                raise error.at(f"page {number}") from None
            if entry.num_items:
                pages.append(entry)
    except PARSE_ERRORS as error:
        raise CorruptFileError(f"column metadata: {error}") from error
    demand(sum(page.num_items for page in pages) < MAX_ITEMS, "more items than any column has")
    return ColumnEntry(_is_blob(encoding), pages)


def _parse_page(page: file_pb2.ColumnMetadata.Page, shared: Places, file_bytes: int) -> PageEntry:
    own = buffer_places(page, file_bytes)
    demand(page.length < MAX_ITEMS, f"page length: {page.length} items")
    encoding = pb.ArrayEncoding.FromString(_described(page.encoding, _ARRAY_ENCODING))
    return PageEntry(page.length, Buffers(own, shared), encoding)


def _described(encoding: file_pb2.Encoding, name: str) -> bytes:
    if encoding.HasField("indirect"):
        raise UnsupportedFormatError(f"an {name} that is stored elsewhere in the file")
    demand(encoding.HasField("direct"), f"no {name}")
    description = file_pb2.Any.FromString(encoding.direct.encoding)
    demand(
        description.type_url.rpartition("/")[1:] == ("/", name),
        f"expected {name}, found {description.type_url!r}",
    )
    value: bytes = description.value
    return value


def _is_blob(encoding: pb.ColumnEncoding) -> bool:
    while encoding.WhichOneof("column_encoding") == "zone_index":
        encoding = encoding.zone_index.inner
    return bool(encoding.WhichOneof("column_encoding") == "blob")


def pack_column(pages: Sequence[tuple[int, Buffers, ArrayEncoding]], *, blob: bool) -> bytes:
    """Serialise the metadata of one column: for each page its items, buffers and encoding."""
    plain = pb.ColumnEncoding(values=pb.Empty())
    column = pb.ColumnEncoding(blob=pb.Blob(inner=plain)) if blob else plain
    message = file_pb2.ColumnMetadata(
        encoding=direct(f"/{_COLUMN_ENCODING}", column.SerializeToString())
    )
    for num_items, buffers, encoding in pages:
        message.pages.add(
            buffer_offsets=[offset for offset, _ in buffers.page],
            buffer_sizes=[size for _, size in buffers.page],
            length=num_items,
            encoding=direct(f"/{_ARRAY_ENCODING}", encoding.to_proto().SerializeToString()),
        )
    data: bytes = message.SerializeToString()
    return data
