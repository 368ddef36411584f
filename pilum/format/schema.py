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
from dataclasses import dataclass

import pyarrow as pa

from pilum.cache import Cache
from pilum.errors import ColumnNotFoundError, CorruptFileError, InvalidInputError
from pilum.format.fields import DESCRIPTOR_ID, ROOT, Field, FieldId
from pilum.format.pb import file_pb2
from pilum.format.types import (
    BFLOAT16,
    EXTENSION_NAME,
    PLAIN_BY_ID,
    PLAIN_TYPES,
    arrow_of_leaf,
)
from pilum.lazy import cached_property

__all__ = ["Schema"]

_MAX_DEPTH = 100
_NO_ID_LEFT = 2**31 - 1
_MANAGED_BLOBS = "lance.blob.managed"


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
        found = ((field.key_position, field.name) for field in self.fields)
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
            if not isinstance(column, str):
                raise InvalidInputError(f"expected the name of a column, found {column!r:.80}")
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
        children: dict[int, list[file_pb2.Field]] = {ROOT: []}
        above = ROOT
        for message in fields:
            parent = message.parent_id
            if message.id == DESCRIPTOR_ID:
                parent = above  # members of blob descriptors have neither an id nor a parent
            if parent not in children or (message.id == DESCRIPTOR_ID and parent == ROOT):
                raise CorruptFileError(f"field {message.name!r}: no parent {parent}")
            children[parent].append(message)
            if message.id != DESCRIPTOR_ID:
                above = message.id
                children.setdefault(above, [])
        tree = []
        for message in children[ROOT]:
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
