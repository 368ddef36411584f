"""`Transaction.project`: dropped or renamed columns; no file is written.

    schema     a (0)   b (1)   c (2)                a (0)   B (1)
    files      f: 0, 1         g: 2        ──▶      f: 0, 1

Columns keep their ids, so files do not depend on their names. A file with none of the remaining
columns is removed; a file with some of them keeps all of its entries. If a fragment would lose all
files, the first one stays, because some readers refuse fragments without files.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from pilum.errors import InvalidInputError, SchemaMismatchError
from pilum.format.fields import Field
from pilum.format.pb import transaction_pb2
from pilum.format.schema import Schema
from pilum.storage.base import Store
from pilum.table.commit.footprint import Footprint, Kind, resources
from pilum.table.commit.operations.base import Operation, with_fragments, with_needed_files
from pilum.table.model.manifest import Manifest
from pilum.table.write.align import require_sound_keys

__all__ = ["Project"]


@dataclass(frozen=True, slots=True)
class Project(Operation):
    """Drops columns, or changes their name, place or nullability.

    Attributes:
        schema: The remaining columns, with their ids.
        preserves_nullability: Whether no nullable column becomes non-nullable.
        keeps_metadata: Whether the metadata of the fields are only copied, so that newer ones
            replace them; not part of the transaction.
    """

    arm = "project"
    schema: Schema
    preserves_nullability: bool = False
    keeps_metadata: bool = field(default=False, compare=False)

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Project) -> Project:
        """Read the operation from its message."""
        return cls(Schema.from_proto(message.schema), message.preserves_nullability)

    def to_proto(self) -> transaction_pb2.Transaction.Project:
        """Build the message of the operation."""
        return transaction_pb2.Transaction.Project(
            schema=self.schema.to_proto(), preserves_nullability=self.preserves_nullability
        )

    def footprint(self) -> Footprint:
        """Return a footprint that relies on the columns.

        New rows matter only if they may lack values.
        """
        values = () if self.preserves_nullability else (Kind.WRITTEN_VALUES,)
        required = () if self.preserves_nullability else (Kind.REQUIRED_COLUMNS,)
        described = resources(Kind.FIELD_DESCRIPTION, (found.id for found in self.schema.walk()))
        return Footprint.of(
            relies_on=(Kind.HISTORY, Kind.MEMTABLES, Kind.SCHEMA, *values, *described),
            changes=(Kind.SCHEMA, Kind.PROJECTION, *required),
        )

    def apply(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the new schema, without unused files and indices."""
        if not self.schema.fields:
            raise InvalidInputError("a table needs at least one column")
        require_sound_keys(self.schema)
        for found in self.schema.walk():
            _require_same_type(found, manifest.schema.find(found.id))
        fields = tuple(_with_dictionaries(found, manifest.schema) for found in self.schema.fields)
        schema = Schema(fields, manifest.schema.metadata)
        ids = {field.id for field in schema.walk()}
        fragments = tuple(with_needed_files(one, ids) for one in manifest.fragments)
        return with_fragments(manifest, fragments, schema=schema)

    def rebase(self, store: Store, manifest: Manifest) -> Self | None:
        """Return the operation with the current metadata of fields.

        It cannot be merged if the metadata may be a part of the change.
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
    """Return the field with the dictionaries of the table, which may have grown concurrently."""
    known = schema.find(field.id)
    children = tuple(_with_dictionaries(child, schema) for child in field.children)
    return replace(field, children=children, dictionary=known.dictionary if known else None)


def _with_metadata(field: Field, schema: Schema) -> Field:
    """Return the field with its metadata in a schema."""
    known = schema.find(field.id)
    children = tuple(_with_metadata(child, schema) for child in field.children)
    return replace(field, children=children, metadata=(known or field).metadata)
