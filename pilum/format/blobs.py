"""The forms of a blob column.

    v1  users write    large_binary with the metadata lance-encoding:blob
        in files       struct<position, size>
    v2  users write    struct<data, uri[, position, size]>, extension type lance.blob.v2
        in files       struct<kind, position, size, blob_id, blob_uri>
    prepared       struct<kind, data, uri, blob_id, blob_size, position>, the same extension type:
                   descriptors of payloads that were written ahead, and inline payloads

Tables whose schema has the metadata lance.blob.managed keep payloads of v2 in objects that no data
file owns.
The manifest contains the first form. Scans return the second (*descriptors*), and plain
large_binary if payloads are requested. Version 2 needs file version 2.2, where tables store both
forms as v2. Source: docs/format/blobs.md, "Descriptors".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum

from pilum.format.fields import DESCRIPTOR_ID, Field
from pilum.format.schema import Schema
from pilum.format.types import EXTENSION_NAME

__all__ = [
    "BLOB_V2",
    "DESCRIPTOR_V2",
    "GIVEN_V2",
    "PREPARED_V2",
    "BlobKind",
    "described",
    "given",
    "has_blobs",
    "in_files",
    "is_descriptor",
    "is_prepared",
    "is_relative_path",
    "materialized",
    "prepared",
    "stored_members",
]

BLOB_V2 = "lance.blob.v2"

_BLOB = "lance-encoding:blob"


class BlobKind(IntEnum):
    """The place where the payload of a v2 blob is stored.

    Managed blobs lie below the folder or base path that contains their data file, or below another
    base path.
    """

    INLINE = 0
    PACKED = 1
    DEDICATED = 2
    EXTERNAL = 3
    MANAGED = 4
    MANAGED_IN_BASE = 5


def _member(name: str, logical_type: str, *, nullable: bool = False) -> Field:
    return Field(name, DESCRIPTOR_ID, logical_type, nullable)


_DESCRIPTOR_V1 = (
    _member("position", "uint64", nullable=True),
    _member("size", "uint64", nullable=True),
)
DESCRIPTOR_V2 = (
    _member("kind", "uint8"),
    _member("position", "uint64"),
    _member("size", "uint64"),
    _member("blob_id", "uint32"),
    _member("blob_uri", "string"),
)

GIVEN_V2 = (
    _member("data", "large_binary", nullable=True),
    _member("uri", "string", nullable=True),
    _member("position", "uint64", nullable=True),
    _member("size", "uint64", nullable=True),
)

PREPARED_V2 = (
    _member("kind", "uint8", nullable=True),
    _member("data", "large_binary", nullable=True),
    _member("uri", "string", nullable=True),
    _member("blob_id", "uint32", nullable=True),
    _member("blob_size", "uint64", nullable=True),
    _member("position", "uint64", nullable=True),
)
_PREPARED_MEMBERS = [(member.name, member.logical_type) for member in PREPARED_V2]


def is_prepared(field: Field) -> bool:
    """Return whether a column of v2 blobs is given as descriptors, not as values."""
    if len(field.children) != len(PREPARED_V2) or field.blob_version != 2:
        return False
    return [(child.name, child.logical_type) for child in field.children] == _PREPARED_MEMBERS


def is_descriptor(field: Field) -> bool:
    """Return whether a field of a file contains the descriptors of v2 blobs."""
    names = [child.name for child in field.children]
    return field.is_packed and names == [member.name for member in DESCRIPTOR_V2]


def is_relative_path(path: str) -> bool:
    """Return whether a path leads to an object below a folder, and is the only name of it there."""
    return not ("\\" in path or "\0" in path or {"", ".", ".."} & {*path.split("/")})


def has_blobs(field: Field) -> bool:
    """Return whether a field, or one below it, is a column of blobs as users see it."""
    if field.is_plain or field.is_packed:
        return False
    return field.blob_version > 0 or any(has_blobs(child) for child in field.children)


def described(schema: Schema) -> Schema:
    """Return the schema with descriptors for blobs, as files store them and scans return them."""
    return _mapped(schema, _described)


def materialized(schema: Schema) -> Schema:
    """Return the schema with plain binary for blobs."""
    return _mapped(schema, _materialized)


def given(schema: Schema) -> Schema:
    """Return the schema as users write it, v2 with all four members."""
    return _mapped(
        schema,
        lambda field: replace(field, children=GIVEN_V2) if field.blob_version == 2 else field,
    )


def prepared(schema: Schema) -> Schema:
    """Return the schema with prepared descriptors for v2 blobs."""
    return _mapped(
        schema,
        lambda field: replace(field, children=PREPARED_V2) if field.blob_version == 2 else field,
    )


def in_files(schema: Schema) -> Schema:
    """Return the schema as a data file names it: v1 as users see it, v2 as descriptors."""
    return _mapped(schema, lambda field: _described(field) if field.blob_version == 2 else field)


def stored_members(field: Field) -> tuple[Field, ...]:
    """Return all members of a descriptor, of which `field` may have only some."""
    names = {member.name for member in field.children}
    known = {member.name for member in _DESCRIPTOR_V1}
    is_v1 = names <= known and "lance-encoding:packed" not in field.metadata
    return _DESCRIPTOR_V1 if is_v1 else DESCRIPTOR_V2


def _mapped(schema: Schema, form: Callable[[Field], Field]) -> Schema:
    if schema.is_plain:
        return schema
    fields = tuple(_walk(field, form) for field in schema.fields)
    same = all(new is old for new, old in zip(fields, schema.fields, strict=True))
    return schema if same else Schema(fields, schema.metadata)


def _walk(field: Field, form: Callable[[Field], Field]) -> Field:
    if field.is_plain:
        return field
    if field.blob_version:
        return form(field)
    if field.is_packed:
        return field
    children = tuple(_walk(child, form) for child in field.children)
    same = all(new is old for new, old in zip(children, field.children, strict=True))
    return field if same else replace(field, children=children)


def _described(field: Field) -> Field:
    if field.blob_version == 1:
        return replace(field, logical_type="struct", children=_DESCRIPTOR_V1)
    metadata = {_BLOB: "true", "lance-encoding:packed": "true"}
    return replace(field, metadata=metadata, children=DESCRIPTOR_V2)


def _materialized(field: Field) -> Field:
    metadata = {key: value for key, value in field.metadata.items() if key != EXTENSION_NAME}
    return replace(field, logical_type="large_binary", metadata=metadata, children=())
