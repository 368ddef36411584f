"""Arrow types: the names that Lance gives them (`Field.logical_type`), and extension types.

    int32   halffloat   string   large_binary   date32:day   timestamp:us:UTC   timestamp:ms:-
    decimal:128:10:2    fixed_size_binary:16    fixed_size_list:float:128     struct    list
    fixed_size_list:lance.bfloat16:3 (stored as 2 bytes each)
    list.struct (a list whose items are structs)      map      fixed_size_list:struct:2
    dict:string:int32:false (a dictionary: its values, its keys, and never "ordered")
    json (binary JSON in a large_binary; users see text of the extension type arrow.json)

The name of a nested type (struct, list, map, fixed-size list of structs) covers only its own level:
the children are fields of their own. A fixed-size list of a primitive and a dictionary have one
name.

Extension types are storage inside the library, and the types themselves at its interface:

    stored    fixed_size_binary[16] and, in the field's metadata, ARROW:extension:name: arrow.uuid
    given     extension<arrow.uuid>, if this process has registered the type; else as it is stored

Importing a batch through Arrow's C interface turns the first form into the second, at any depth.
All code below the public classes sees storage. Source: docs/format/container.md, "Logical types"
and "Extension types".
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.types as pt

from pilum.errors import CorruptFileError, UnsupportedTypeError

__all__ = [
    "BFLOAT16",
    "EXTENSION_METADATA",
    "EXTENSION_NAME",
    "JSON",
    "PLAIN_BY_ID",
    "PLAIN_TYPES",
    "arrow_of_leaf",
    "logical_type",
    "mentions_extensions",
    "restored_batches",
    "restored_schema",
    "restored_table",
    "stored_metadata",
    "struct_list_size",
    "width_bits",
]

EXTENSION_NAME = "ARROW:extension:name"
EXTENSION_METADATA = "ARROW:extension:metadata"

_PLAIN: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "uint8": pa.uint8(),
    "int16": pa.int16(),
    "uint16": pa.uint16(),
    "int32": pa.int32(),
    "uint32": pa.uint32(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    "time32:s": pa.time32("s"),
    "time32:ms": pa.time32("ms"),
    "time64:us": pa.time64("us"),
    "time64:ns": pa.time64("ns"),
    "duration:s": pa.duration("s"),
    "duration:ms": pa.duration("ms"),
    "duration:us": pa.duration("us"),
    "duration:ns": pa.duration("ns"),
}
PLAIN_TYPES = frozenset(_PLAIN)
"""The names without parameters of types without child fields."""
PLAIN_BY_ID = {arrow.id: name for name, arrow in _PLAIN.items() if ":" not in name}
"""Those of them whose Arrow type has no parameters either, by the id of the type."""

JSON = "json"
"""The name of binary JSON, stored in a large_binary."""

_KEYS = frozenset({f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)})
BFLOAT16 = "lance.bfloat16"
"""An extension type that has a name of its own as the item of fixed-size lists."""
_BFLOAT16_ITEM = {EXTENSION_NAME: BFLOAT16, EXTENSION_METADATA: ""}
_STRUCT_LIST = "fixed_size_list:struct:"
_NAMES = {arrow: name for name, arrow in _PLAIN.items()} | {
    pa.string_view(): "string",
    pa.binary_view(): "binary",
}

_POINTER = ctypes.pythonapi.PyCapsule_GetPointer
_POINTER.restype = ctypes.c_void_p
_POINTER.argtypes = [ctypes.py_object, ctypes.c_char_p]


def logical_type(arrow: pa.DataType) -> str:
    """Return the name of an Arrow type; raise UnsupportedTypeError if it has none."""
    if arrow in _NAMES:
        return _NAMES[arrow]
    if pt.is_struct(arrow):
        return "struct"
    if pt.is_list(arrow) or pt.is_large_list(arrow):
        prefix = "list" if pt.is_list(arrow) else "large_list"
        return f"{prefix}.struct" if pt.is_struct(arrow.value_type) else prefix
    if pt.is_timestamp(arrow):
        return f"timestamp:{arrow.unit}:{arrow.tz or '-'}"
    if pt.is_decimal128(arrow) or pt.is_decimal256(arrow):
        return f"decimal:{arrow.bit_width}:{arrow.precision}:{arrow.scale}"
    if _is_fixed_binary(arrow):
        _require_bytes(arrow, arrow.byte_width)
        return f"fixed_size_binary:{arrow.byte_width}"
    if pt.is_fixed_size_list(arrow):
        return _fixed_size_list(arrow)
    if pt.is_map(arrow):
        return _map(arrow)
    if pt.is_dictionary(arrow):
        return _dictionary(arrow)
    raise UnsupportedTypeError(f"the Lance format has no name for the Arrow type {arrow}")


def _fixed_size_list(arrow: pa.DataType) -> str:
    _require_bytes(arrow, arrow.list_size)
    if pt.is_struct(arrow.value_type):
        return f"{_STRUCT_LIST}{arrow.list_size}"
    return f"fixed_size_list:{_item(arrow.value_field)}:{arrow.list_size}"


def _item(field: pa.Field) -> str:
    """Return the name of an item, which is not a field in files.

    Of all extension types, item names can express only one.
    """
    arrow = field.type
    if pt.is_fixed_size_list(arrow) and not pt.is_struct(arrow.value_type):
        return _fixed_size_list(arrow)
    if stored_metadata(field).get(EXTENSION_NAME) == BFLOAT16:
        return BFLOAT16
    if not (pt.is_primitive(arrow) or pt.is_decimal(arrow) or _is_fixed_binary(arrow)):
        raise UnsupportedTypeError(
            f"no file version can store fixed-size lists of {arrow}; use a list"
        )
    return logical_type(arrow)


def _map(arrow: pa.DataType) -> str:
    if arrow.keys_sorted:
        raise UnsupportedTypeError("files cannot store that the keys of a map are sorted")
    return "map"


def _dictionary(arrow: pa.DataType) -> str:
    """Return the name of a dictionary type; its values have a type whose name has no parameters.

    The order of the values is not kept.
    """
    is_extension = isinstance(arrow.value_type, pa.BaseExtensionType)
    values = None if is_extension else _NAMES.get(arrow.value_type)
    if values is None or values == "null" or ":" in values:
        raise UnsupportedTypeError(
            f"no file version can store a dictionary of {arrow.value_type}; "
            "decode the dictionary first"
        )
    return f"dict:{values}:{arrow.index_type}:false"


def _require_bytes(arrow: pa.DataType, size: int) -> None:
    if size == 0:
        raise UnsupportedTypeError(f"files cannot store values without bytes: {arrow}")


def _is_fixed_binary(arrow: pa.DataType) -> bool:
    return bool(pt.is_fixed_size_binary(arrow))


@lru_cache(maxsize=1024)
def arrow_of_leaf(name: str) -> pa.DataType:
    """Return the Arrow type of a logical type without child fields.

    Raises:
        UnsupportedTypeError: If this library does not know the name.
        CorruptFileError: If the name is known, but its parameters are malformed.
    """
    if name in _PLAIN:
        return _PLAIN[name]
    if name == BFLOAT16:
        return pa.binary(2)
    if name == JSON:
        return pa.large_binary()
    kind, _, rest = name.partition(":")
    try:
        if kind == "timestamp":
            unit, _, zone = rest.partition(":")
            return pa.timestamp(unit, None if zone in {"-", ""} else zone)
        if kind == "decimal":
            bits, precision, scale = rest.split(":")
            make = {"128": pa.decimal128, "256": pa.decimal256}[bits]
            return make(int(precision), int(scale))
        if kind == "fixed_size_binary":
            return pa.binary(_positive(rest))
        if kind == "dict":
            return _arrow_of_dictionary(rest)
        if kind == "fixed_size_list":
            return _arrow_of_fixed_size_list(rest)
    except UnsupportedTypeError:
        raise
    except (ValueError, KeyError) as error:
        raise CorruptFileError(f"logical type {name!r:.80}: {error}") from error
    raise UnsupportedTypeError(f"unknown logical type {name!r:.80}")


def _arrow_of_fixed_size_list(text: str) -> pa.DataType:
    name, _, size = text.rpartition(":")
    metadata = _BFLOAT16_ITEM if name == BFLOAT16 else None
    return pa.list_(pa.field("item", arrow_of_leaf(name), metadata=metadata), _positive(size))


def _arrow_of_dictionary(text: str) -> pa.DataType:
    values, keys, _ = text.rsplit(":", 2)
    if keys not in _KEYS:
        raise ValueError(f"keys of type {keys}")
    return pa.dictionary(_PLAIN[keys], arrow_of_leaf(values))


def struct_list_size(name: str) -> int | None:
    """Return the size of the lists if a logical type is fixed-size lists of structs, else None."""
    if not name.startswith(_STRUCT_LIST):
        return None
    try:
        return _positive(name.removeprefix(_STRUCT_LIST))
    except ValueError as error:
        raise CorruptFileError(f"logical type {name!r:.80}: {error}") from error


def _positive(text: str) -> int:
    value = int(text)
    if not 0 < value < 2**31:
        raise ValueError(f"a size of {text}")
    return value


def width_bits(kind: pa.DataType) -> int | None:
    """Return the bits of a value; None if they vary."""
    if pt.is_fixed_size_list(kind):
        items = width_bits(kind.value_type)
        return None if items is None else items * int(kind.list_size)
    if pt.is_primitive(kind) or pt.is_decimal(kind) or pt.is_fixed_size_binary(kind):
        return int(kind.bit_width)
    return None


class _ArrowSchema(ctypes.Structure):
    """The first members of the C struct."""

    _fields_: ClassVar = [
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
    ]


def stored_metadata(field: pa.Field) -> dict[str, str]:
    """Return the metadata of a field, with the keys that name its extension type.

    UnsupportedTypeError is raised if the parameters of the type are not text.
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

    CorruptFileError is raised if a type is declared that cannot have its declared storage.
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
    """Return the table with the registered extension types. Copies nothing."""
    stored = table.schema  # a new object on each access
    schema = restored_schema(stored)
    if schema is stored:
        return table
    return pa.Table.from_batches(map(_restored, table.to_batches()), schema)


def restored_batches(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterable[pa.RecordBatch]:
    """Return batches of a schema with the registered extension types. Copies nothing."""
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
