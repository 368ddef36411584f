"""Write a file of version 2.0 front to back.

Fields that such files cannot store are rejected before a byte is written. Payloads of blobs are
written as they arrive. Every column is split into pages on its own, so memory stays bounded and
page boundaries differ between columns. Large pages are encoded in the thread pool; all pages are
written in order. The end of the file is the same for all versions (`pilum.container.body`).
Source: docs/format/encodings-2.0.md, "What writers choose".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from pilum.container.blobs import place_blobs
from pilum.container.body import FileBody
from pilum.container.metadata import require_countable
from pilum.container.options import FileOptions
from pilum.container.page_queue import InOrder
from pilum.container.storable import check_storage, checked_storage
from pilum.container.v2_0.encoders import EncoderMaker, PageJob
from pilum.container.v2_0.metadata import pack_column
from pilum.container.writer import WrittenFile
from pilum.encodings.v2_0.base import Buffers, Encoded, bits_of
from pilum.encodings.v2_0.binary import OFFSET_BITS
from pilum.encodings.v2_0.choose import is_packed
from pilum.encodings.v2_0.struct import packed_bytes
from pilum.errors import SchemaMismatchError, UnsupportedTypeError
from pilum.format.blobs import described
from pilum.format.schema import Field, Schema
from pilum.format.version import FileVersion
from pilum.storage.base import Sink, finish_new

__all__ = ["PagedFileWriter", "require_storable"]

_DEFAULTS = FileOptions()


def require_storable(field: Field, path: str | None = None) -> None:
    """Raise an error if files of version 2.0 cannot store a field.

    Raises:
        UnsupportedTypeError: If the field cannot be stored; the text names the field, and a version
        that can store it if there is one.
    """
    path = path or field.name
    kind = field.arrow_type
    if field.is_struct:
        _require_struct(field, path)
    elif pt.is_map(kind):
        raise _refused(path, kind, "files since version 2.2 can")
    elif field.is_list:
        require_storable(field.item, f"{path}.{field.item.name}")
    elif pt.is_dictionary(kind):
        if bits_of(kind.value_type) is None and kind.value_type.id not in OFFSET_BITS:
            raise _refused(path, kind, "no version stores dictionaries of nested values")
    elif pt.is_fixed_size_list(kind):
        _require_items(kind, path)
    elif bits_of(kind) is None and kind.id not in OFFSET_BITS and not pt.is_null(kind):
        raise _refused(path, kind, "write another type")


def _require_struct(field: Field, path: str) -> None:
    if not field.children:
        raise _refused(path, field.arrow_type, "give the struct a member")
    if not is_packed(field.metadata):
        for child in field.children:
            require_storable(child, f"{path}.{child.name}")
        return
    for child in field.children:
        if packed_bytes(child.arrow_type) is None:
            raise _refused(
                f"{path}.{child.name}", child.arrow_type, "packed structs store whole bytes only"
            )


def _require_items(kind: pa.DataType, path: str) -> None:
    item = kind
    while pt.is_fixed_size_list(item):
        item = item.value_type
    if bits_of(item) is None and not pt.is_null(item):
        advice = "files since version 2.2 can" if pt.is_struct(item) else "use a list"
        raise _refused(path, kind, advice)


def _refused(path: str, kind: pa.DataType, advice: str) -> UnsupportedTypeError:
    return UnsupportedTypeError(
        f"column {path!r}: files of version 2.0 cannot store {kind}; {advice}"
    )


class PagedFileWriter:
    """A writer of one new file.

    Args:
        sink: The destination; the writer finishes or aborts it.
        schema: Its fields, with the field ids of the table.
        options: Sizes, and the compression of text.

    Raises:
        InvalidInputError: If the metadata of a field ask for an unknown encoding.
        UnsupportedTypeError: If the version cannot hold a field.
    """

    def __init__(self, sink: Sink, schema: Schema, options: FileOptions = _DEFAULTS) -> None:
        for field in schema.fields:
            require_storable(field)
            check_storage(field, FileVersion.V2_0, has_sidecars=False)
        self._body = FileBody(sink, options.buffer_alignment)
        self._schema = schema
        self._num_rows = 0
        make = EncoderMaker(options.page_bytes(len(schema.fields)), options.encoding)
        self._encoders = [make.encoder_of(field) for field in described(schema).fields]
        self._columns = make.columns
        self._encoding = InOrder(self._write_page)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Args:
            batch: Rows with the columns of the schema, in the same order and of the same types.

        Raises:
            SchemaMismatchError: If the columns or their types differ.
            InvalidInputError: If a struct is null, or a column that must not hold a null does.
        """
        if batch.schema.names != self._schema.names:
            raise SchemaMismatchError(
                f"columns {batch.schema.names}; expected {self._schema.names}"
            )
        arrays = [
            place_blobs(field, checked_storage(field, array), self._write_payload, None)
            for field, array in zip(self._schema.fields, batch.columns, strict=True)
        ]
        for encoder, array in zip(self._encoders, arrays, strict=True):
            self._start(encoder.add(array))
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
        waiting = sum(encoder.waiting_bytes for encoder in self._encoders)
        return self._body.sink.position + self._encoding.waiting_bytes + waiting

    def finish(self) -> WrittenFile:
        """Write the remaining rows and the end of the file, then finish the sink."""
        for encoder in self._encoders:
            self._start(encoder.flush())
        for encoder in self._encoders:
            self._start(encoder.finish())
        self._encoding.finish()
        metadata = [pack_column(column.pages, blob=column.is_blob) for column in self._columns]
        self._body.end(self._schema, self._num_rows, metadata, FileVersion.V2_0)
        finish_new(self._body.sink)
        return WrittenFile(
            self._num_rows,
            self._body.sink.position,
            tuple(column.field_id for column in self._columns),
            tuple(range(len(self._columns))),
            FileVersion.V2_0,
        )

    def abort(self) -> None:
        """Discard the file."""
        self._encoding.cancel()
        self._body.sink.abort()

    def _write_payload(self, data: Any) -> int:
        position = self._body.sink.position
        self._body.sink.write(data)
        return position

    def _start(self, jobs: Iterable[PageJob]) -> None:
        for job in jobs:
            self._encoding.encode(job, job.encode, job.num_bytes, is_hard=job.is_hard)

    def _write_page(self, job: PageJob, encoded: Encoded) -> None:
        buffers = Buffers(self._body.page(encoded.buffers))
        job.column.pages.append((job.num_items, buffers, encoded.encoding))
