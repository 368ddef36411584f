"""The plain form of rows: binary for blobs, text for JSON.

    table     doc: JSON, binary    b: blob descriptors    n: int64
    plain     doc: string          b: large_binary        n: int64

It serves engines that know only storage types, such as Spark. `pilum.table.write.align` and
`pilum.table.write.blob_inputs` convert such rows to the types of files.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from pilum.format.extension import EXTENSION_METADATA, EXTENSION_NAME
from pilum.format.schema import Field, Schema

__all__ = ["plain_schema"]

_BLOB_MARK = {"lance-encoding:blob": "true"}
_JSON_MARK = {EXTENSION_NAME: "arrow.json", EXTENSION_METADATA: ""}


def plain_schema(schema: Schema) -> pa.Schema:
    """Return the columns of a table in their plain form; the metadata mark their original types."""
    return Schema(tuple(map(_plain, schema.fields)), schema.metadata).arrow


def _plain(field: Field) -> Field:
    if field.is_plain:
        return field
    if field.is_json:
        metadata = {**field.metadata, **_JSON_MARK}
        return replace(field, logical_type="string", metadata=metadata, children=())
    if field.blob_version:
        return replace(field, logical_type="large_binary", metadata=_BLOB_MARK, children=())
    return replace(field, children=tuple(map(_plain, field.children)))
