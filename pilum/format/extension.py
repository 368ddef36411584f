"""Extension types of Arrow: storage inside the library, the types themselves at its interface.

    stored    fixed_size_binary[16] and, in the field's metadata, ARROW:extension:name: arrow.uuid
    given     extension<arrow.uuid>, if this process has registered the type; else as it is stored

Importing a batch through Arrow's C interface turns the first form into the second, at any depth.
All code below the public classes sees storage. Source: docs/format/container.md, "Extension types".
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.types as pt

from pilum.errors import CorruptFileError, UnsupportedTypeError

__all__ = [
    "EXTENSION_METADATA",
    "EXTENSION_NAME",
    "mentions_extensions",
    "restored_batches",
    "restored_schema",
    "restored_table",
    "stored_metadata",
]

EXTENSION_NAME = "ARROW:extension:name"
EXTENSION_METADATA = "ARROW:extension:metadata"

_POINTER = ctypes.pythonapi.PyCapsule_GetPointer
_POINTER.restype = ctypes.c_void_p
_POINTER.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _ArrowSchema(ctypes.Structure):
    """The first members of the C struct."""

    _fields_: ClassVar = [
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
    ]


def stored_metadata(field: pa.Field) -> dict[str, str]:
    """Return the metadata of a field, with the keys that name its extension type.

    Raises:
        UnsupportedTypeError: If the parameters of the type are not text.
    """
    metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    if isinstance(field.type, pa.BaseExtensionType) and EXTENSION_NAME not in metadata:
        metadata[EXTENSION_NAME] = field.type.extension_name
        try:
            metadata[EXTENSION_METADATA] = _parameters(field.type).decode()
        except UnicodeDecodeError:
            raise UnsupportedTypeError(
                f"column {field.name!r}: the parameters of {field.type} are not text; "
                "write its storage"
            ) from None
    return metadata


def _parameters(kind: pa.BaseExtensionType) -> bytes:
    """Return the value of `ARROW:extension:metadata`, which pyarrow hides for its own types.

    In the C interface metadata are an int32 count and then, for each key and each value, an int32
    length and the bytes.
    """
    capsule = pa.field("", kind).__arrow_c_schema__()
    address = _ArrowSchema.from_address(_POINTER(capsule, b"arrow_schema")).metadata
    place = address + 4
    texts = []
    for _ in range(2 * struct.unpack("=i", ctypes.string_at(address, 4))[0]):
        (size,) = struct.unpack("=i", ctypes.string_at(place, 4))
        texts.append(ctypes.string_at(place + 4, size))
        place += 4 + size
    return dict(zip(texts[::2], texts[1::2], strict=True)).get(EXTENSION_METADATA.encode(), b"")


def mentions_extensions(schema: pa.Schema) -> bool:
    """Return whether there may be extension types: False is certain, at any depth.

    Looking for their mark in the bytes costs less than asking each of a thousand fields.
    """
    return EXTENSION_NAME.encode() in schema.serialize().to_pybytes()


def restored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the registered extension types; itself if it has none.

    Raises:
        CorruptFileError: If a type is declared that cannot have its declared storage.
    """
    if not mentions_extensions(schema) or not any(_has_extensions(field) for field in schema):
        return schema
    return pa.schema([_restored_field(field) for field in schema], schema.metadata)


def _restored_field(field: pa.Field) -> pa.Field:
    try:
        return pa.field(_Exported(field))
    except pa.ArrowException as error:
        raise CorruptFileError(f"column {field.name!r}: {error}") from error


def restored_table(table: pa.Table) -> pa.Table:
    """Return the table with the registered extension types. Copies nothing.

    Raises:
        CorruptFileError: As `restored_schema`.
    """
    stored = table.schema  # a new object on each access
    schema = restored_schema(stored)
    if schema is stored:
        return table
    return pa.Table.from_batches(map(_restored, table.to_batches()), schema)


def restored_batches(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterable[pa.RecordBatch]:
    """Return batches of a schema with the registered extension types. Copies nothing.

    Args:
        schema: The schema of the batches.
        batches: Batches whose extension types are storage and metadata.

    Raises:
        CorruptFileError: As `restored_schema`.
    """
    return batches if restored_schema(schema) is schema else map(_restored, batches)


def _restored(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch(_Exported(batch))


def _has_extensions(field: pa.Field) -> bool:
    if field.metadata and EXTENSION_NAME.encode() in field.metadata:
        return True
    kind = field.type
    return pt.is_nested(kind) and any(
        _has_extensions(kind.field(number)) for number in range(kind.num_fields)
    )


@dataclass(frozen=True, slots=True)
class _Exported:
    """A wrapper that makes pyarrow import a schema or batch as if it came from another library."""

    exported: Any

    def __arrow_c_schema__(self) -> Any:
        return self.exported.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.exported.__arrow_c_array__(requested_schema)
