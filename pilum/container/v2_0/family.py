"""File version 2.0: structs and lists have columns too, which store the nesting."""

from __future__ import annotations

from dataclasses import replace

from pilum.container.blobs import Sidecars
from pilum.container.family import Family
from pilum.container.options import FileOptions
from pilum.container.storable import check_storage
from pilum.container.v2_0.fields import PagedFieldReader
from pilum.container.v2_0.reader import PagedFileReader
from pilum.container.v2_0.writer import PagedFileWriter, require_storable
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.storage.base import Sink

__all__ = ["FAMILY"]


def _require_storable(schema: Schema, version: FileVersion, has_sidecars: bool) -> None:
    for field in schema.fields:
        require_storable(field)
        check_storage(field, version, has_sidecars=has_sidecars)


def _new(
    sink: Sink,
    schema: Schema,
    version: FileVersion,
    options: FileOptions,
    sidecars: Sidecars | None,
) -> PagedFileWriter:
    general = replace(options.encoding, compression=None, compression_level=None)
    replace(options, encoding=general).refuse(version, "encoding")
    return PagedFileWriter(sink, schema, options)


FAMILY = Family(PagedFileReader.open, PagedFieldReader.of, _require_storable, _new)
