"""A field of a schema: a node of the tree of columns, with its id and its Arrow type.

    s: struct<x: int64, y: list>  id 1
        x: int64                  id 2
        y: list<string>           id 3
            item: string          id 4

Source: docs/format/container.md, "Schema".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NewType

import pyarrow as pa
import pyarrow.types as pt

from pilum.errors import ColumnNotFoundError, UnsupportedTypeError
from pilum.format.pb import file_pb2
from pilum.format.text_forms import TEXT_NAMES, TextForm, formed
from pilum.format.types import (
    EXTENSION_METADATA,
    EXTENSION_NAME,
    JSON,
    PLAIN_TYPES,
    arrow_of_leaf,
    logical_type,
    stored_metadata,
    struct_list_size,
)
from pilum.lazy import cached_property

__all__ = ["DESCRIPTOR_ID", "ROOT", "Field", "FieldId", "keeps_types"]

FieldId = NewType("FieldId", int)

DESCRIPTOR_ID = FieldId(-1)
"""The id of members of blob descriptors."""
ROOT = -1
"""The parent of top-level fields."""

_LISTS = frozenset({"list", "large_list", "list.struct", "large_list.struct", "map"})
_PACKED = "lance-encoding:packed"
_BLOB = "lance-encoding:blob"
_BLOB_V2 = "lance.blob.v2"
_JSON_TEXT = "arrow.json"
_JSON_BINARY = "lance.json"
_JSON_METADATA = {EXTENSION_NAME: _JSON_BINARY, EXTENSION_METADATA: ""}
_PRIMARY_KEY = "lance-schema:unenforced-primary-key"
_PRIMARY_KEY_POSITION = "lance-schema:unenforced-primary-key:position"


@dataclass(frozen=True)
class Field:
    """One field of the tree.

    Attributes:
        name: Its own name, not its path.
        id: Unique in the table, and never used again.
        logical_type: See `pilum.format.types`.
        nullable: Whether nulls are allowed.
        metadata: Arrow field metadata.
        children: Members of a struct, or the one item of a list. The item of a map is the struct
            of its entries, which has two members: key and value.
        dictionary: Values of a dictionary field in a legacy table, None if they are not known.
        form: The form in which a scan returns strings and bytes of the field or below it, if any;
            None for that of the table.
    """

    name: str
    id: FieldId
    logical_type: str
    nullable: bool = True
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    children: tuple[Field, ...] = ()
    dictionary: pa.Array | None = dataclasses.field(default=None, compare=False, repr=False)
    form: TextForm | None = None

    @cached_property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of the field, including all fields below it."""
        if self.has_form:
            assert self.form is not None
            return formed(arrow_of_leaf(self.logical_type), self.form)
        if self.logical_type in PLAIN_TYPES:  # most fields; tables may have thousands of them
            return arrow_of_leaf(self.logical_type)
        if self.is_struct:
            return pa.struct([child.arrow for child in self.children])
        if self.is_map:
            key, value = self.item.children
            return pa.map_(key.arrow.with_nullable(False), value.arrow)
        if self.list_size is not None:
            return pa.list_(self.item.arrow, self.list_size)
        if self.is_list:
            make = pa.large_list if self.logical_type.startswith("large_") else pa.list_
            return make(self.item.arrow)
        return arrow_of_leaf(self.logical_type)

    @cached_property
    def arrow(self) -> pa.Field:
        """The field as an Arrow field."""
        return pa.field(self.name, self.arrow_type, self.nullable, dict(self.metadata) or None)

    @property
    def has_form(self) -> bool:
        """Whether the field itself is strings or bytes in the form of a scan."""
        return self.form is not None and not self.children

    @property
    def is_struct(self) -> bool:
        """Whether the children are members of a struct."""
        return self.logical_type == "struct"

    @property
    def is_list(self) -> bool:
        """Whether the one child is the item of a variable-size list; a map is a list of entries."""
        return self.logical_type in _LISTS

    @property
    def is_map(self) -> bool:
        """Whether this is a map."""
        return self.logical_type == "map"

    @property
    def list_size(self) -> int | None:
        """The items per list of a fixed-size list of structs; lists of plain values are leaves."""
        return struct_list_size(self.logical_type)

    @cached_property
    def has_struct_lists(self) -> bool:
        """Whether the field contains fixed-size lists of structs."""
        return any(field.list_size is not None for field in self.walk())

    @cached_property
    def is_leaf(self) -> bool:
        """Whether the field owns a column in files since 2.1."""
        if self.logical_type in PLAIN_TYPES:
            return True
        if self.is_struct and self.children:
            return self.is_packed or self.is_blob
        return not self.is_list and self.list_size is None

    @property
    def is_packed(self) -> bool:
        """Whether the members of a struct are stored side by side in one column."""
        return self.is_struct and bool(self.children) and _is_packed(self.metadata)

    @property
    def is_json(self) -> bool:
        """Whether the values are JSON, which is binary in files and text for users."""
        return self.logical_type == JSON

    @property
    def blob_version(self) -> int:
        """The version of a column of blobs as users see it, 1 or 2; 0 for any other column."""
        if not self.metadata:
            return 0
        if self.is_struct:
            return 2 if self.metadata.get(EXTENSION_NAME) == _BLOB_V2 else 0
        return 1 if _BLOB in self.metadata and self.logical_type == "large_binary" else 0

    @property
    def is_blob(self) -> bool:
        """Whether this is a column of blobs, in the form of users or of files."""
        return bool(self.metadata) and (_BLOB in self.metadata or self.blob_version > 0)

    @property
    def is_key(self) -> bool:
        """Whether the field belongs to the primary key of its table."""
        return bool(self.metadata) and _key_position(self.metadata) is not None

    @property
    def key_position(self) -> int | None:
        """The place in the primary key; 0 if unspecified, None if it is not part of the key."""
        return _key_position(self.metadata) if self.metadata else None

    @property
    def item(self) -> Field:
        """The item field of a list or map."""
        return self.children[0]

    @cached_property
    def ids(self) -> tuple[FieldId, ...]:
        """The ids of the field and all below it, in pre-order."""
        if not self.children:
            return (self.id,)
        return tuple(field.id for field in self.walk())

    @cached_property
    def messages(self) -> tuple[file_pb2.Field, ...]:
        """The flattened form of a top-level field; messages must hold a copy of it."""
        messages: list[file_pb2.Field] = []
        _to_proto(self, ROOT, messages)
        return tuple(messages)

    @property
    def is_plain(self) -> bool:
        """Whether the field has nothing special, according to a quick check."""
        return not (self.children or self.metadata)

    def takes(self, array: pa.Array) -> bool:
        """Return whether an array of plain values can be stored as it is; False if unsure."""
        return (
            not (self.children or self.metadata)
            and self.logical_type in PLAIN_TYPES
            and array.type == self.arrow_type
            and (self.nullable or not array.null_count)
        )

    def walk(self) -> Iterator[Field]:
        """Yield the field and all fields below it, in pre-order."""
        yield self
        for child in self.children:
            yield from child.walk()

    def leaves(self) -> Iterator[Field]:
        """Yield the fields that own columns, in column order."""
        if self.is_leaf:
            yield self
            return
        for child in self.children:
            yield from child.leaves()

    def leaf_paths(self) -> Iterator[tuple[Field, ...]]:
        """Yield the path from the field to each of the fields that own columns, in column order."""
        if self.is_leaf:
            yield (self,)
            return
        for child in self.children:
            for path in child.leaf_paths():
                yield (self, *path)

    def project(self, paths: Iterable[tuple[str, ...]]) -> Field:
        """Return the field with only the members at `paths` (each relative to this field)."""
        wanted: dict[str, list[tuple[str, ...]]] = {}
        for path in paths:
            if not path:
                return self
            wanted.setdefault(path[0], []).append(path[1:])
        by_name = {child.name: child for child in self.children} if self.is_struct else {}
        if unknown := [name for name in wanted if name not in by_name]:
            raise ColumnNotFoundError(
                f"field {self.name!r} has no member {unknown[0]!r}; it has {sorted(by_name)}"
            )
        children = tuple(
            child.project(wanted[child.name]) for child in self.children if child.name in wanted
        )
        return replace(self, children=children)

    def in_form(self, form: TextForm | None) -> Field:
        """Return the field with the strings and bytes in a form, at any depth.

        Blobs, packed structs and the storage of extension types do not change.
        """
        if keeps_types(self.metadata):
            return self
        if not self.children:
            return replace(self, form=form) if self.logical_type in TEXT_NAMES else self
        children = tuple(child.in_form(form) for child in self.children)
        if children == self.children:
            return self
        return replace(self, children=children, form=form)

    @classmethod
    def from_arrow(cls, field: pa.Field, ids: Iterator[int], above: str = "") -> Field:
        """Build the tree below an Arrow field, taking ids in pre-order.

        JSON, as text or binary, becomes a field of binary JSON. For messages, `above` is the path
        of the parent field, with a trailing dot.

        Raises:
            UnsupportedTypeError: If the format has no name for a type.
        """
        arrow = (
            field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
        )
        number, path = FieldId(next(ids)), above + field.name
        metadata = stored_metadata(field)
        if metadata.get(EXTENSION_NAME) in {_JSON_TEXT, _JSON_BINARY}:
            return cls(field.name, number, JSON, field.nullable, metadata | _JSON_METADATA)
        children: tuple[Field, ...] = ()
        if pt.is_struct(arrow):
            children = tuple(cls.from_arrow(member, ids, f"{path}.") for member in arrow)
        elif pt.is_list(arrow) or pt.is_large_list(arrow) or _is_struct_list(arrow):
            children = (cls.from_arrow(arrow.value_field, ids, f"{path}."),)
        elif pt.is_map(arrow):
            children = (cls.from_arrow(arrow.field(0), ids, f"{path}."),)
        try:
            name = logical_type(arrow)
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(f"column {path!r}: {error}") from None
        return cls(field.name, number, name, field.nullable, metadata, children)


def keeps_types(metadata: Mapping[str, str]) -> bool:
    """Return whether strings in a field with this metadata are in no other form.

    It is a blob, a packed struct, or the storage of an extension type.
    """
    return _BLOB in metadata or EXTENSION_NAME in metadata or _is_packed(metadata)


def _is_packed(metadata: Mapping[str, str]) -> bool:
    return _PACKED in metadata or metadata.get("packed", "").lower() == "true"


def _is_struct_list(arrow: pa.DataType) -> bool:
    return bool(pt.is_fixed_size_list(arrow) and pt.is_struct(arrow.value_type))


def _to_proto(field: Field, parent: int, messages: list[file_pb2.Field]) -> None:
    message = file_pb2.Field(
        name=field.name,
        id=field.id,
        parent_id=parent,
        logical_type=field.logical_type,
        nullable=field.nullable,
        encoding=_encoding_hint(field),
        dictionary=file_pb2.Dictionary() if field.logical_type.startswith("dict:") else None,
    )
    if field.metadata:
        _add_metadata(message, field.metadata)
    messages.append(message)
    for child in field.children:
        _to_proto(child, ROOT if child.id == DESCRIPTOR_ID else field.id, messages)


def _add_metadata(message: file_pb2.Field, metadata: Mapping[str, str]) -> None:
    """Add the metadata of a field, and set the members of the message that derive from them."""
    for key, value in metadata.items():
        message.metadata[key] = value.encode()
    message.extension_name = metadata.get(EXTENSION_NAME, "")
    position = _key_position(metadata)
    message.unenforced_primary_key = position is not None
    message.unenforced_primary_key_position = position or 0


def _key_position(metadata: Mapping[str, str]) -> int | None:
    """Return a field's place in the primary key: 0 if unspecified, None if it is not part of it."""
    position = metadata.get(_PRIMARY_KEY_POSITION)
    if position is not None:
        return int(position) if position.isdigit() else 0
    return 0 if metadata.get(_PRIMARY_KEY, "").lower() in {"true", "1", "yes"} else None


def _encoding_hint(field: Field) -> file_pb2.Field.Encoding:
    """Return the encoding of legacy files, which the reference still writes for every field."""
    if field.logical_type in {"null", "struct"}:
        return file_pb2.Field.NONE
    if field.logical_type in {"string", "large_string", "binary", "large_binary"}:
        return file_pb2.Field.VAR_BINARY
    if field.logical_type.startswith("dict:"):
        return file_pb2.Field.DICTIONARY
    return file_pb2.Field.PLAIN
