"""The schema as Lance stores it: a tree of fields with ids, flattened in pre-order.

    a: int32                      id 0, parent -1
    s: struct<x: int64, y: list>  id 1, parent -1
        x: int64                  id 2, parent 1
        y: list<string>           id 3, parent 1
            item: string          id 4, parent 3

The manifest of a table and global buffer 0 of a data file contain the same `Field` messages.
Source: docs/format/container.md, "Schema".
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NewType

import pyarrow as pa
import pyarrow.types as pt

from pilum.cache import Cache
from pilum.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    InvalidInputError,
    UnsupportedTypeError,
)
from pilum.format.pb import file_pb2
from pilum.format.text_forms import TEXT_NAMES, TextForm, formed
from pilum.format.types import (
    BFLOAT16,
    EXTENSION_METADATA,
    EXTENSION_NAME,
    JSON,
    PLAIN_BY_ID,
    PLAIN_TYPES,
    arrow_of_leaf,
    logical_type,
    stored_metadata,
    struct_list_size,
)

__all__ = ["DESCRIPTOR_ID", "Field", "FieldId", "Schema"]

FieldId = NewType("FieldId", int)

_ROOT = -1
_MAX_DEPTH = 100
_NO_ID_LEFT = 2**31 - 1
_LISTS = frozenset({"list", "large_list", "list.struct", "large_list.struct", "map"})
_PACKED = "lance-encoding:packed"
_BLOB = "lance-encoding:blob"
_BLOB_V2 = "lance.blob.v2"
_MANAGED_BLOBS = "lance.blob.managed"
_JSON_TEXT = "arrow.json"
_JSON_BINARY = "lance.json"
_JSON_METADATA = {EXTENSION_NAME: _JSON_BINARY, EXTENSION_METADATA: ""}

DESCRIPTOR_ID = FieldId(-1)
"""The id of members of blob descriptors."""
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
        _to_proto(self, _ROOT, messages)
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


@dataclass(frozen=True)
class Schema:
    """The fields of a table or file, and its metadata."""

    fields: tuple[Field, ...]
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema."""
        fields = [
            field.arrow
            if field.metadata or field.logical_type not in PLAIN_TYPES
            # The common case, without calls; tables may have thousands of such fields.
            else pa.field(field.name, arrow_of_leaf(field.logical_type), field.nullable)
            for field in self.fields
        ]
        return pa.schema(fields, dict(self.metadata) or None)

    @cached_property
    def is_plain(self) -> bool:
        """Whether all fields hold plain values, or nulls; arrays of their types need no checks."""
        for field in self.fields:  # a generator would cost more; tables may have thousands
            if field.children or field.metadata or not field.nullable:
                return False
            if field.logical_type not in PLAIN_TYPES:
                return False
        return True

    @cached_property
    def has_marks(self) -> bool:
        """Whether there may be blobs, JSON or extension types, at any depth.

        Their marks are in the metadata of a field, or in its logical type.
        """
        return any(
            field.metadata or field.is_json or BFLOAT16 in field.logical_type
            for field in self.walk()
        )

    @property
    def has_managed_blobs(self) -> bool:
        """Whether payloads of blobs go to objects that no data file owns, in a table with it.

        InvalidInputError is raised if the metadata has another value for it than true or false.
        """
        text = self.metadata.get(_MANAGED_BLOBS, "false")
        if text not in {"true", "false"}:
            raise InvalidInputError(
                f"metadata {_MANAGED_BLOBS} of the schema: expected 'true' or 'false', found "
                f"{text!r:.40}"
            )
        return text == "true"

    def takes(self, batch: pa.RecordBatch) -> bool:
        """Return whether a batch can be stored as it is; False if unsure."""
        return self.is_plain and batch.schema.equals(self.arrow)

    def _repr_html_(self) -> str:
        from pilum.pictures.html import table

        rows = [
            (self.path(one.id), int(one.id), one.arrow_type, "" if one.nullable else "not null")
            for one in self.walk()
        ]
        return table(("column", "id", "type", ""), rows)

    def find(self, field_id: FieldId) -> Field | None:
        """Return the field with this id, at any depth; None if there is none."""
        return self._by_id.get(field_id)

    def path(self, field_id: FieldId) -> str | None:
        """Return the dotted path of the field with this id; None if there is none."""
        for field in self.fields:
            if field_id in field.ids:
                return ".".join(inner.name for inner in field.walk() if field_id in inner.ids)
        return None

    @cached_property
    def fault(self) -> str:
        """The reason why the schema is invalid for a table; empty if it is valid."""
        if self._is_simple:
            return _fault_of_names(self.fields, "")
        found = (_fault_of(field) for field in self.walk())
        numbers = Counter(field.id for field in self.walk() if field.id != DESCRIPTOR_ID)
        twice = (f"two fields have the id {number}" for number, n in numbers.items() if n > 1)
        return next(filter(None, (_fault_of_names(self.fields, ""), *found, *twice)), "")

    @property
    def _is_simple(self) -> bool:
        """Whether all fields have valid types and distinct ids, according to a quick check."""
        ids = set()
        for field in self.fields:
            kind = field.logical_type
            if field.children or kind not in PLAIN_TYPES or kind == "null":
                return False
            ids.add(field.id)
        are_distinct = 0 < len(ids) == len(self.fields)
        return are_distinct and 0 <= min(ids) <= max(ids) < _NO_ID_LEFT

    @cached_property
    def _by_id(self) -> dict[FieldId, Field]:
        return {field.id: field for field in self.walk()}

    def parent(self, field: Field) -> Field | None:
        """Return the field above one of the schema's own fields; None for a top-level field."""
        return self._parents.get(id(field))

    @cached_property
    def _parents(self) -> dict[int, Field]:
        """The field above each field below the top level, by the identity of the lower one."""
        return {id(child): field for field in self.walk() for child in field.children}

    @cached_property
    def names(self) -> list[str]:
        """The names of the top-level fields."""
        return list(self.by_name)

    @cached_property
    def by_name(self) -> dict[str, Field]:
        """The top-level fields by name."""
        return {field.name: field for field in self.fields}

    def walk(self) -> Iterator[Field]:
        """Yield all fields in pre-order."""
        for field in self.fields:
            yield from field.walk()

    def leaves(self) -> Iterator[Field]:
        """Yield all fields that own columns, in column order."""
        for field in self.fields:
            yield from field.leaves()

    @cached_property
    def leaf_columns(self) -> Mapping[FieldId, int]:
        """The position of each leaf among the leaves, which is its column in files since 2.1."""
        return {number: place for place, number in enumerate(self.leaf_ids)}

    @cached_property
    def leaf_ids(self) -> tuple[FieldId, ...]:
        """The ids of the leaves."""
        return tuple(leaf.id for leaf in self.leaves())

    @cached_property
    def primary_key(self) -> tuple[str, ...]:
        """The top-level fields that identify a row, in the key's order, as their metadata declare.

        Uniqueness is not checked.
        """
        found = ((_key_position(field.metadata), field.name) for field in self.fields)
        keys = [(position, name) for position, name in found if position is not None]
        return tuple(name for _, name in sorted(keys, key=lambda key: key[0]))

    @property
    def max_field_id(self) -> int:
        """The highest id; -1 if there is no field."""
        return max((field.id for field in self.walk()), default=-1)

    def field(self, name: str) -> Field:
        """Return the top-level field of this name; raise ColumnNotFoundError if there is none."""
        if name not in self.by_name:
            raise ColumnNotFoundError(f"no column {name!r}; the columns are {self.names}")
        return self.by_name[name]

    def project(self, columns: Iterable[str]) -> Schema:
        """Return the schema with only the named columns, in the order given.

        Args:
            columns: Names of top-level fields, or dotted paths to members of structs. Several
                paths into one struct make one field, at the place of the first.

        Raises:
            ColumnNotFoundError: If a path does not exist.
        """
        wanted: dict[str, list[tuple[str, ...]]] = {}
        for column in columns:
            name, *path = (column,) if column in self.by_name else column.split(".")
            wanted.setdefault(name, []).append(tuple(path))
        fields = tuple(self.field(name).project(paths) for name, paths in wanted.items())
        return Schema(fields, self.metadata)

    @classmethod
    def from_arrow(cls, schema: pa.Schema, first_id: int = 0) -> Schema:
        """Build a schema from an Arrow schema and number its fields in pre-order.

        Raises:
            UnsupportedTypeError: If the format has no name for a type.
            InvalidInputError: If two fields have one name, or a top-level name contains a dot.
        """
        ids = iter(range(first_id, 2**31))
        fields = []
        for field in schema:
            name, kind = field.name, field.type
            if "." in name:
                raise InvalidInputError(f"column {name!r}: names must not contain a dot")
            plain = PLAIN_BY_ID.get(kind.id)
            if plain is None or field.metadata:
                fields.append(Field.from_arrow(field, ids))
            else:  # most fields; tables may have thousands of them
                fields.append(Field(name, FieldId(next(ids)), plain, field.nullable))
        _check_unique(tuple(fields))
        metadata = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
        made = cls(tuple(fields), metadata)
        if made.is_plain:
            vars(made)["arrow"] = schema  # otherwise it would be built again, field by field
        return made

    @classmethod
    def from_proto(
        cls, fields: Iterable[file_pb2.Field], metadata: Mapping[str, bytes] | None = None
    ) -> Schema:
        """Rebuild the tree from its flattened form.

        Versions and files of a table mostly have the same schema; they then share one object.

        Raises:
            CorruptFileError: If a parent is missing or the tree is too deep.
        """
        messages = list(fields)
        flat = tuple([message.SerializeToString() for message in messages])
        key = flat, tuple(metadata.items()) if metadata else ()
        found = _known_schemas.get(key)
        if found is None:
            found = cls._of_messages(messages, metadata or {})
            _known_schemas.put(key, found, 1)
        return found

    @classmethod
    def _of_messages(
        cls, fields: Iterable[file_pb2.Field], metadata: Mapping[str, bytes]
    ) -> Schema:
        children: dict[int, list[file_pb2.Field]] = {_ROOT: []}
        above = _ROOT
        for message in fields:
            parent = message.parent_id
            if message.id == DESCRIPTOR_ID:
                parent = above  # members of blob descriptors have neither an id nor a parent
            if parent not in children or (message.id == DESCRIPTOR_ID and parent == _ROOT):
                raise CorruptFileError(f"field {message.name!r}: no parent {parent}")
            children[parent].append(message)
            if message.id != DESCRIPTOR_ID:
                above = message.id
                children.setdefault(above, [])
        tree = []
        for message in children[_ROOT]:
            kind, number = message.logical_type, message.id
            is_plain = kind in PLAIN_TYPES and kind != "null" and number != DESCRIPTOR_ID
            if is_plain and not (message.metadata or message.extension_name or children[number]):
                # Most fields; tables may have thousands of them.
                tree.append(Field(message.name, FieldId(number), kind, message.nullable))
            else:
                tree.append(_from_proto(message, children, 0))
        return cls(tuple(tree), _text(metadata, "the schema"))

    def to_proto(self) -> list[file_pb2.Field]:
        """Return the flattened form, in pre-order."""
        return [message for field in self.fields for message in field.messages]

    def metadata_to_proto(self) -> dict[str, bytes]:
        """Return the schema metadata in the form of the messages."""
        return {key: value.encode() for key, value in self.metadata.items()}


_known_schemas = Cache(limit_bytes=16)
"""Parsed schemas by their messages; each counts as one."""


def keeps_types(metadata: Mapping[str, str]) -> bool:
    """Return whether strings in a field with this metadata are in no other form.

    It is a blob, a packed struct, or the storage of an extension type.
    """
    return _BLOB in metadata or EXTENSION_NAME in metadata or _is_packed(metadata)


def _is_packed(metadata: Mapping[str, str]) -> bool:
    return _PACKED in metadata or metadata.get("packed", "").lower() == "true"


def _is_struct_list(arrow: pa.DataType) -> bool:
    return bool(pt.is_fixed_size_list(arrow) and pt.is_struct(arrow.value_type))


def _text(metadata: Mapping[str, bytes], where: str) -> dict[str, str]:
    if not metadata:
        return {}
    try:
        return {key: value.decode() for key, value in metadata.items()}
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"metadata of {where}: {error}") from None


def _check_unique(fields: tuple[Field, ...]) -> None:
    if fault := _fault_of_names(fields, ""):
        raise InvalidInputError(fault)


def _fault_of_names(fields: tuple[Field, ...], above: str) -> str:
    """Return which name is missing or occurs twice."""
    where = f"field {above!r}" if above else "the schema"
    seen: set[str] = set()
    for field in fields:
        if not (field.name or above):
            return f"{where} has a field without a name"
        if field.name in seen:
            return f"{where} has two fields named {field.name!r}"
        seen.add(field.name)
        if field.children and (fault := _fault_of_names(field.children, field.name or above)):
            return fault
    return ""


def _fault_of(field: Field) -> str:
    """Return what is wrong with the type and id of a field, or with the ids of its members."""
    if field.children and not (field.is_struct or field.is_list or field.list_size is not None):
        return f"field {field.name!r} of type {field.logical_type!r} has members"
    if field.logical_type == "null" and not field.nullable:
        return f"field {field.name!r} is never null and of type null"
    if field.id >= _NO_ID_LEFT or (field.id < 0 and field.id != DESCRIPTOR_ID):
        return f"field {field.name!r} has the id {field.id}"
    if not field.children or field.is_blob:
        return ""  # members of blob descriptors have no ids
    lacking = (child.name for child in field.children if child.id == DESCRIPTOR_ID)
    return next((f"field {field.name!r}: its member {name!r} has no id" for name in lacking), "")


def _from_proto(
    message: file_pb2.Field, children: Mapping[int, list[file_pb2.Field]], depth: int
) -> Field:
    if depth > _MAX_DEPTH:
        raise CorruptFileError(f"field {message.name!r}: nested deeper than {_MAX_DEPTH} levels")
    name, number = message.name, message.id
    metadata = _text(message.metadata, f"field {name!r}")
    if message.extension_name:
        metadata.setdefault(EXTENSION_NAME, message.extension_name)
    members = [] if number == DESCRIPTOR_ID else children[number]
    below = tuple([_from_proto(child, children, depth + 1) for child in members])
    logical_type = message.logical_type
    field = Field(name, FieldId(number), logical_type, message.nullable, metadata, below)
    if logical_type == "null" and not message.nullable:
        raise CorruptFileError(f"field {name!r}: of type null, but not nullable")
    if not below and logical_type in PLAIN_TYPES:
        return field
    if (field.is_list or field.list_size is not None) and len(below) != 1:
        raise CorruptFileError(f"field {field.name!r}: a list with {len(below)} item fields")
    if field.is_map and not (field.item.is_struct and len(field.item.children) == 2):
        raise CorruptFileError(f"field {field.name!r}: a map without keys and values")
    return field


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
        _to_proto(child, _ROOT if child.id == DESCRIPTOR_ID else field.id, messages)


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
