"""Schemas with field ids, and schemas as JSON.

    schema_to_json      pyarrow.Schema ──▶ {"fields": [{"name": "a", "type": {"type": "int64"},
    json_to_schema      ◀── the same        "nullable": true, "metadata": {…}}], "metadata": {…}}

    lists and structs   {"type": "list", "fields": [the item]}
    fixed-size lists    {"type": "fixed_size_list", "fields": [the item], "length": 4}
    fixed-size binary   {"type": "fixed_size_binary", "length": 3}
    extension types     their storage; the metadata of the field name the type
    all others          {"type": "decimal:128:10:2"}, by the names of `pilum.format.types`

Members without content are left out: metadata, and a length where a type has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from pilum.errors import CorruptFileError, InvalidInputError, UnsupportedTypeError
from pilum.format.fields import Field
from pilum.format.pb import file_pb2
from pilum.format.schema import Schema
from pilum.format.types import arrow_of_leaf, logical_type, restored_schema, stored_metadata

__all__ = ["LanceField", "LanceSchema", "json_to_schema", "schema_to_json"]

_Json = dict[str, Any]
_LISTS: Mapping[str, Callable[[pa.Field], pa.DataType]] = {
    "list": pa.list_,
    "large_list": pa.large_list,
}
_CLUSTERING_POSITION = "lance-schema:unenforced-clustering-key:position"


@dataclass(frozen=True)
class LanceField:
    """A field of a schema with its id; `stored` is the form that the library uses internally."""

    stored: Field

    def name(self) -> str:
        """Return the name of the field itself, without those of the fields above it."""
        return self.stored.name

    def id(self) -> int:
        """Return the id, which no other field of the table has or had."""
        return int(self.stored.id)

    def children(self) -> list[LanceField]:
        """Return the members of a struct, or the one item of a list."""
        return [LanceField(child) for child in self.stored.children]

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the field."""
        return dict(self.stored.metadata)

    def to_arrow(self) -> pa.Field:
        """Return the field as an Arrow field."""
        return self.stored.arrow

    def is_unenforced_primary_key(self) -> bool:
        """Return whether the field is a part of the primary key of its table."""
        return self.stored.is_key

    def unenforced_primary_key_position(self) -> int | None:
        """Return the place in the primary key; None if it has none or is no part of the key."""
        return self.stored.key_position or None

    def is_unenforced_clustering_key(self) -> bool:
        """Return whether the field is a part of the clustering key of its table."""
        return self.unenforced_clustering_key_position() is not None

    def unenforced_clustering_key_position(self) -> int | None:
        """Return the place in the clustering key; None if the field is no part of it."""
        position = self.stored.metadata.get(_CLUSTERING_POSITION, "")
        return int(position) if position.isdigit() else None

    def __str__(self) -> str:
        kind = self.stored.logical_type + ("" if self.stored.nullable else " not null")
        return f"{self.stored.name}: {kind} (field {self.stored.id})"


@dataclass(frozen=True)
class LanceSchema:
    """The columns of a table with the ids of their fields; `stored` is the internal form."""

    stored: Schema

    @staticmethod
    def from_pyarrow(schema: pa.Schema) -> LanceSchema:
        """Assign ids to the fields of an Arrow schema, parents first.

        Raises:
            UnsupportedTypeError: If the format cannot store a type.
            InvalidInputError: If two fields have the same name, or a top-level name has a dot.
        """
        return LanceSchema(Schema.from_arrow(schema))

    @staticmethod
    def _from_protos(metadata_json: Mapping[str, str], *field_protos: bytes) -> LanceSchema:
        messages = [file_pb2.Field.FromString(message) for message in field_protos]
        metadata = {key: value.encode() for key, value in metadata_json.items()}
        return LanceSchema(Schema.from_proto(messages, metadata))

    def __reduce__(self) -> tuple[Any, ...]:
        messages = [message.SerializeToString() for message in self.stored.to_proto()]
        return LanceSchema._from_protos, (dict(self.stored.metadata), *messages)

    def _repr_html_(self) -> str:
        return self.stored._repr_html_()

    def to_pyarrow(self) -> pa.Schema:
        """Return the columns as an Arrow schema."""
        return self.stored.arrow

    def fields(self) -> list[LanceField]:
        """Return the top-level columns."""
        return [LanceField(field) for field in self.stored.fields]

    def field(self, name: str) -> LanceField | None:
        """Return the field with a path such as "a" or "a.b"; None if there is none."""
        return self._found(name, str)

    def field_case_insensitive(self, name: str) -> LanceField | None:
        """Return the field with a path in which letters may be of the other case.

        A path with the same letters is preferred.
        """
        return self.field(name) or self._found(name, str.casefold)

    def unenforced_primary_key(self) -> list[LanceField]:
        """Return the fields of the primary key, in its order."""
        keys = [LanceField(field) for field in self.stored.walk() if field.is_key]
        return sorted(keys, key=lambda field: field.unenforced_primary_key_position() or 0)

    def unenforced_clustering_key(self) -> list[LanceField]:
        """Return the fields of the clustering key, in its order."""
        keys = [LanceField(field) for field in self.stored.walk()]
        keys = [field for field in keys if field.is_unenforced_clustering_key()]
        return sorted(keys, key=lambda field: field.unenforced_clustering_key_position() or 0)

    def _found(self, path: str, form: Callable[[str], str]) -> LanceField | None:
        fields, found = self.stored.fields, None
        for name in path.split("."):
            found = next((field for field in fields if form(field.name) == form(name)), None)
            if found is None:
                return None
            fields = found.children
        return None if found is None else LanceField(found)

    def __str__(self) -> str:
        return "\n".join(_lines(self.stored.fields, ""))


def _lines(fields: tuple[Field, ...], indent: str) -> list[str]:
    lines = []
    for field in fields:
        lines.append(f"{indent}{LanceField(field)}")
        lines += _lines(field.children, indent + "  ")
    return lines


def schema_to_json(schema: pa.Schema) -> _Json:
    """Return an Arrow schema as a dict that JSON can express; the module shows its form.

    Raises:
        UnsupportedTypeError: If the form has no name for a type, such as a map.
        InvalidInputError: If it is not a schema.
    """
    if not isinstance(schema, pa.Schema):
        raise InvalidInputError(f"schema: expected a schema of Arrow, found {schema!r:.80}")
    found: _Json = {"fields": [_field_to_json(field) for field in schema]}
    metadata = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    return found | _metadata_to_json(metadata)


def _field_to_json(field: pa.Field) -> _Json:
    is_extension = isinstance(field.type, pa.BaseExtensionType)
    kind = _type_to_json(field.type.storage_type if is_extension else field.type)
    found = {"name": field.name, "type": kind, "nullable": field.nullable}
    return found | _metadata_to_json(stored_metadata(field))


def _metadata_to_json(metadata: Mapping[str, str]) -> _Json:
    return {"metadata": dict(metadata)} if metadata else {}


def _type_to_json(kind: pa.DataType) -> _Json:
    if pt.is_struct(kind):
        return {"type": "struct", "fields": [_field_to_json(field) for field in kind]}
    if pt.is_list(kind) or pt.is_large_list(kind):
        name = "list" if pt.is_list(kind) else "large_list"
        return {"type": name, "fields": [_field_to_json(kind.value_field)]}
    if pt.is_fixed_size_list(kind):
        items = [_field_to_json(kind.value_field)]
        return {"type": "fixed_size_list", "fields": items, "length": kind.list_size}
    if pt.is_fixed_size_binary(kind):
        return {"type": "fixed_size_binary", "length": kind.byte_width}
    if pt.is_map(kind):
        raise UnsupportedTypeError(f"schemas in JSON cannot express {kind}")
    return {"type": logical_type(kind)}


def json_to_schema(schema_json: Mapping[str, Any]) -> pa.Schema:
    """Return the Arrow schema that a dict of `schema_to_json` describes.

    Raises:
        InvalidInputError: If it has another form.
    """
    try:
        fields = [_field_of_json(field) for field in schema_json["fields"]]
        return restored_schema(pa.schema(fields, schema_json.get("metadata")))
    except (AttributeError, LookupError, TypeError, ValueError, CorruptFileError) as error:
        raise InvalidInputError(f"not a schema in JSON: {error!r}") from error


def _field_of_json(field: Mapping[str, Any]) -> pa.Field:
    kind = _type_of_json(field["type"])
    return pa.field(field["name"], kind, field["nullable"], field.get("metadata"))


def _type_of_json(kind: Mapping[str, Any]) -> pa.DataType:
    name = kind["type"]
    if name == "struct":
        return pa.struct([_field_of_json(field) for field in kind["fields"]])
    if name == "fixed_size_binary":
        return pa.binary(kind["length"])
    if name not in {*_LISTS, "fixed_size_list"}:
        return arrow_of_leaf(name)
    (item,) = map(_field_of_json, kind["fields"])
    return _LISTS[name](item) if name in _LISTS else pa.list_(item, kind["length"])
