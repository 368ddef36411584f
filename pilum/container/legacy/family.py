"""File version 0.1: batches of rows, with a page per column and batch."""

from __future__ import annotations

import numpy as np

from pilum.container.blobs import Sidecars
from pilum.container.family import Family
from pilum.container.legacy.batches import Grouping
from pilum.container.legacy.checks import require_type
from pilum.container.legacy.fields import LegacyFieldReader
from pilum.container.legacy.file import LegacyFile
from pilum.container.legacy.writer import LegacyWriter
from pilum.container.options import FileOptions
from pilum.errors import UnsupportedTypeError
from pilum.format.blobs import has_blobs
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.storage.base import Sink

__all__ = ["FAMILY"]


def _require_storable(schema: Schema, version: FileVersion, has_sidecars: bool) -> None:
    for field in schema.fields:
        require_type(field, field.name)
        if has_blobs(field):
            raise UnsupportedTypeError(
                f"column {field.name!r}: blobs are written since file version 2.0, not {version}"
            )


def _new(
    sink: Sink,
    schema: Schema,
    version: FileVersion,
    options: FileOptions,
    sidecars: Sidecars | None,
) -> LegacyWriter:
    options.refuse(version, "data_cache_bytes", "max_page_bytes", "buffer_alignment", "encoding")
    bounds = options.group_bounds
    known = None if bounds is None else np.asarray(bounds, np.int64)
    return LegacyWriter(sink, schema, Grouping(options.max_rows_per_group, known))


FAMILY = Family(
    lambda source, tail, cache: LegacyFile.open(source, tail),
    LegacyFieldReader.of,
    _require_storable,
    _new,
)
