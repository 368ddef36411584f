"""`Transaction.project`: fewer columns, or columns with other names; no file is written.

    schema     a (0)   b (1)   c (2)                a (0)   B (1)
    files      f: 0, 1         g: 2        ──▶      f: 0, 1

Columns keep their ids, so that files need not know their names. A file that has none of the
columns left goes; one that has some keeps all of its entries. Of a fragment that would lose all of
them, the first file stays: there are readers that refuse fragments without files.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from pilum.errors import InvalidInputError, SchemaMismatchError
from pilum.format.pb import transaction_pb2
from pilum.format.schema import Field, Schema
from pilum.storage.base import Store
from pilum.table.commit.footprint import Footprint, Kind, Resource
from pilum.table.commit.operations.base import Operation
from pilum.table.commit.operations.fragments import with_needed_files
from pilum.table.commit.operations.indices import retained_indices
from pilum.table.model.manifest import Manifest
from pilum.table.model.primary_key import require_sound_keys

__all__ = ["Project"]


@dataclass(frozen=True, slots=True)
class Project(Operation):
    """Drops columns, or gives them another name, place or nullability.

    Attributes:
        schema: The columns that are left, with the ids that they have.
        preserves_nullability: Whether no column asks for values that could be null before.
        keeps_metadata: Whether the metadata of the fields are only carried along, so that newer
            ones take their place; not part of the transaction.
    """

    arm = "project"
    schema: Schema
    preserves_nullability: bool = False
    keeps_metadata: bool = field(default=False, compare=False)

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Project) -> Project:
        """Reads the message of the arm."""
        return cls(Schema.from_proto(message.schema), message.preserves_nullability)

    def to_proto(self) -> transaction_pb2.Transaction.Project:
        """Builds the message of the arm."""
        return transaction_pb2.Transaction.Project(
            schema=self.schema.to_proto(), preserves_nullability=self.preserves_nullability
        )

    def footprint(self) -> Footprint:
        """The columns must be those that it knows; new rows only matter if they may lack values."""
        values = () if self.preserves_nullability else (Kind.WRITTEN_VALUES,)
        required = () if self.preserves_nullability else (Kind.REQUIRED_COLUMNS,)
        plain = Footprint.of(
            relies_on=(Kind.HISTORY, Kind.MEMTABLES, Kind.SCHEMA, *values),
            changes=(Kind.SCHEMA, Kind.PROJECTION, *required),
        )
        ids = (str(found.id) for found in self.schema.walk())
        described = frozenset(Resource(Kind.FIELD_DESCRIPTION, number) for number in ids)
        return Footprint(plain.relies_on | described, plain.changes)

    def apply(self, manifest: Manifest) -> Manifest:
        """The manifest with the other schema, without files and indices that nobody needs.

        Raises:
            SchemaMismatchError: If a field is not one of the table, or has another type.
            InvalidInputError: If no field is left.
        """
        if not self.schema.fields:
            raise InvalidInputError("a table needs at least one column")
        require_sound_keys(self.schema)
        for found in self.schema.walk():
            _require_same_type(found, manifest.schema.find(found.id))
        fields = tuple(_with_dictionaries(found, manifest.schema) for found in self.schema.fields)
        schema = Schema(fields, manifest.schema.metadata)
        ids = {field.id for field in schema.walk()}
        fragments = tuple(with_needed_files(one, ids) for one in manifest.fragments)
        return replace(
            manifest,
            schema=schema,
            fragments=fragments,
            index_section=retained_indices(manifest.index_section, schema, fragments),
        )

    def rebase(self, store: Store, manifest: Manifest) -> Self | None:
        """The same columns with the metadata that fields have now.

        Returns:
            None if the metadata may be a part of the change.
        """
        del store
        if not self.keeps_metadata:
            return None
        fields = tuple(_with_metadata(found, manifest.schema) for found in self.schema.fields)
        return replace(self, schema=Schema(fields, self.schema.metadata))


def _require_same_type(field: Field, known: Field | None) -> None:
    if known is None:
        raise SchemaMismatchError(f"the table has no field {field.id} ({field.name!r})")
    if field.logical_type != known.logical_type:
        raise SchemaMismatchError(
            f"field {field.id} ({field.name!r}) is of type {known.logical_type!r}, "
            f"not {field.logical_type!r}"
        )


def _with_dictionaries(field: Field, schema: Schema) -> Field:
    """The field with the dictionaries of the table, which may have grown meanwhile."""
    known = schema.find(field.id)
    children = tuple(_with_dictionaries(child, schema) for child in field.children)
    return replace(field, children=children, dictionary=known.dictionary if known else None)


def _with_metadata(field: Field, schema: Schema) -> Field:
    """The field with the metadata that it has in a schema."""
    known = schema.find(field.id)
    children = tuple(_with_metadata(child, schema) for child in field.children)
    return replace(field, children=children, metadata=(known or field).metadata)
