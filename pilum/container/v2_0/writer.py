"""Write a file of version 2.0 front to back.

Fields that such files cannot store are rejected before a byte is written. Payloads of blobs are
written as they arrive. Every column is split into pages on its own, so memory stays bounded and
page boundaries differ between columns. Large pages are encoded in the thread pool; all pages are
written in order. The end of the file is the same for all versions (`pilum.container.frame`).
Source: docs/format/encodings-2.0.md, "What writers choose".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pt

from pilum.container.blobs import Sidecars
from pilum.container.storable import check_storage
from pilum.container.v2_0.encoders import EncoderMaker, PageJob
from pilum.container.v2_0.metadata import pack_column
from pilum.container.writer import ContainerWriter, FileOptions
from pilum.encodings.v2_0.base import Buffers, Encoded, bits_of
from pilum.encodings.v2_0.binary import OFFSET_BITS
from pilum.encodings.v2_0.choose import is_packed
from pilum.encodings.v2_0.struct import packed_bytes
from pilum.errors import UnsupportedTypeError
from pilum.format.blobs import described
from pilum.format.fields import Field, FieldId
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.parallel import InOrder
from pilum.storage.base import Sink

__all__ = ["PagedFileWriter", "require_storable"]

_DEFAULTS = FileOptions()


def require_storable(schema: Schema, version: FileVersion, has_sidecars: bool) -> None:
    """Raise UnsupportedTypeError if files of version 2.0 cannot store a field.

    The text names the field, and a version that can store it if there is one.
    """
    for field in schema.fields:
        _require_storable(field, field.name)
        check_storage(field, version, has_sidecars=has_sidecars)


def _require_storable(field: Field, path: str) -> None:
    kind = field.arrow_type
    if field.is_struct:
        _require_struct(field, path)
    elif pt.is_map(kind):
        raise _refused(path, kind, "files since version 2.2 can")
    elif field.is_list:
        _require_storable(field.item, f"{path}.{field.item.name}")
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
            _require_storable(child, f"{path}.{child.name}")
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


class PagedFileWriter(ContainerWriter):
    """A writer of one new file; see `ContainerWriter`. Null structs are rejected."""

    def __init__(
        self,
        sink: Sink,
        schema: Schema,
        version: FileVersion = FileVersion.V2_0,
        options: FileOptions = _DEFAULTS,
        sidecars: Sidecars | None = None,
    ) -> None:
        general = replace(options.encoding, compression=None, compression_level=None)
        replace(options, encoding=general).refuse(version, "encoding")
        super().__init__(sink, schema, version, options, sidecars)
        make = EncoderMaker(options.page_bytes(len(schema.fields)), options.encoding)
        self._encoders = [make.encoder_of(field) for field in described(schema).fields]
        self._columns = make.columns
        self._encoding = InOrder(self._write_page)

    def _add(self, arrays: list[pa.Array]) -> None:
        for encoder, array in zip(self._encoders, arrays, strict=True):
            self._start(encoder.add(array))

    def _buffered_bytes(self) -> int:
        return sum(encoder.waiting_bytes for encoder in self._encoders)

    def _flush(self) -> tuple[list[FieldId], list[bytes]]:
        for encoder in self._encoders:
            self._start(encoder.flush())
        for encoder in self._encoders:
            self._start(encoder.finish())
        self._encoding.finish()
        metadata = [pack_column(column.pages, blob=column.is_blob) for column in self._columns]
        return [column.field_id for column in self._columns], metadata

    def _start(self, jobs: Iterable[PageJob]) -> None:
        for job in jobs:
            self._encoding.add(job, job.encode, job.num_bytes, is_hard=job.is_hard)

    def _write_page(self, job: PageJob, encoded: Encoded) -> None:
        buffers = Buffers(self._body.page(encoded.buffers))
        job.column.pages.append((job.num_items, buffers, encoded.encoding))
