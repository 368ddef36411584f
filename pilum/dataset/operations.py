"""Committing by hand: fragments that were written elsewhere become a version in one step.

fragments = write_fragments(data, uri)                  on many machines
operation = LanceOperation.Append(fragments)            on one
LanceDataset.commit(uri, operation, read_version=7)
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from pilum.dataset.metadata import FragmentMetadata
from pilum.dataset.options import map_update, require_count
from pilum.errors import InvalidInputError
from pilum.format.schema import FieldId, Schema
from pilum.table import transaction
from pilum.table.align import new_schema
from pilum.table.fragment import Fragment, FragmentId
from pilum.table.operations.append import Append
from pilum.table.operations.base import Operation
from pilum.table.operations.delete import Delete
from pilum.table.operations.overwrite import Overwrite
from pilum.table.operations.restore import Restore
from pilum.table.operations.update import Update, UpdateMode
from pilum.table.operations.update_config import MapUpdate, UpdateConfig

__all__ = ["LanceOperation", "Transaction"]


class LanceOperation:
    """What can be committed."""

    @dataclass
    class BaseOperation:
        """Base of the operations."""

    @dataclass
    class Append(BaseOperation):
        """Adds rows.

        Attributes:
            fragments: What `write_fragments` gave in mode "append".
        """

        fragments: Iterable[FragmentMetadata]

    @dataclass
    class Overwrite(BaseOperation):
        """Replaces schema and rows, or makes a new table.

        Attributes:
            new_schema: The columns. A `pyarrow.Schema` is numbered as `write_fragments` does it in
                mode "create" and "overwrite".
            fragments: What `write_fragments` gave in one of these modes.
        """

        new_schema: pa.Schema | Schema
        fragments: Iterable[FragmentMetadata]

    @dataclass
    class Delete(BaseOperation):
        """Marks rows as deleted, and drops fragments without any others.

        Attributes:
            updated_fragments: What `LanceFragment.delete` gave.
            deleted_fragment_ids: Of fragments for which it gave None.
            predicate: What chose the rows, for readers of the history.
        """

        updated_fragments: Iterable[FragmentMetadata]
        deleted_fragment_ids: Iterable[int]
        predicate: str

    @dataclass
    class Update(BaseOperation):
        """Changes rows, and may add and remove some.

        Attributes:
            removed_fragment_ids: Of fragments of which no row is left.
            updated_fragments: Fragments as they are afterwards: with other deletion files, or, with
                `update_mode` "rewrite_columns", with other data files.
            new_fragments: The rows that were written.
            fields_modified: Ids of fields with other values in `updated_fragments`.
            fields_for_preserving_frag_bitmap: Ids of fields with other values in `new_fragments`.
            update_mode: "rewrite_rows" or "rewrite_columns"; the first if empty.
            updated_fragment_offsets: With "rewrite_columns" and stable row ids: the physical rows
                of each fragment that changed, as Roaring bitmaps.
        """

        removed_fragment_ids: list[int] = field(default_factory=list)
        updated_fragments: list[FragmentMetadata] = field(default_factory=list)
        new_fragments: list[FragmentMetadata] = field(default_factory=list)
        fields_modified: list[int] = field(default_factory=list)
        fields_for_preserving_frag_bitmap: list[int] = field(default_factory=list)
        update_mode: str = ""
        updated_fragment_offsets: dict[int, bytes] | None = None

    @dataclass
    class UpdateMap:
        """A change of a map of texts.

        Attributes:
            updates: What keys are set to; None removes a key.
            replace: Whether all other keys are removed.
        """

        updates: dict[str, str | None]
        replace: bool = False

    @dataclass
    class UpdateConfig(BaseOperation):
        """Changes config and metadata; None leaves one as it is.

        Attributes:
            config_updates: Of the settings of the table.
            table_metadata_updates: Of the notes about it.
            schema_metadata_updates: Of the metadata of its schema.
            field_metadata_updates: Of the metadata of fields, by their ids.
        """

        config_updates: LanceOperation.UpdateMap | None = None
        table_metadata_updates: LanceOperation.UpdateMap | None = None
        schema_metadata_updates: LanceOperation.UpdateMap | None = None
        field_metadata_updates: dict[int, LanceOperation.UpdateMap] | None = None

    @dataclass
    class Restore(BaseOperation):
        """Makes an old version the newest again.

        Attributes:
            version: Its number.
        """

        version: int


@dataclass
class Transaction:
    """An operation with what the commit needs to know about it.

    Attributes:
        read_version: The version that it was made for; 0 if there was no table.
        operation: What to commit.
        uuid: Unique for ever.
        transaction_properties: Notes for readers of the history.
    """

    read_version: int
    operation: LanceOperation.BaseOperation
    uuid: str = field(default_factory=lambda: str(uuids.uuid4()))
    transaction_properties: Mapping[str, str] | None = field(default_factory=dict)

    @property
    def fragments(self) -> list[FragmentMetadata]:
        """What the operation adds."""
        if isinstance(self.operation, LanceOperation.Update):
            return list(self.operation.new_fragments)
        return list(getattr(self.operation, "fragments", ()))

    @classmethod
    def from_table(cls, found: transaction.Transaction) -> Transaction:
        """The form for users of a transaction that is ready to be committed."""
        operation = _from_table(found.operation)
        return cls(found.read_version, operation, found.uuid, dict(found.properties))

    def to_table(self) -> transaction.Transaction:
        """What is committed.

        Raises:
            InvalidInputError: If the operation is not one of `LanceOperation`.
        """
        operation = _to_table(self.operation)
        properties = dict(self.transaction_properties or {})
        return transaction.Transaction(self.read_version, operation, self.uuid, properties)


def _from_table(operation: Operation) -> LanceOperation.BaseOperation:
    if isinstance(operation, Overwrite):
        return LanceOperation.Overwrite(operation.schema, _metadata(operation.fragments))
    if isinstance(operation, Append):
        return LanceOperation.Append(_metadata(operation.fragments))
    if isinstance(operation, Delete):
        updated, removed = _metadata(operation.updated), list(map(int, operation.removed))
        return LanceOperation.Delete(updated, removed, operation.predicate)
    if isinstance(operation, Update):
        return LanceOperation.Update(
            list(map(int, operation.removed)),
            _metadata(operation.updated),
            _metadata(operation.new),
            list(map(int, operation.fields_modified)),
            list(map(int, operation.fields_updated)),
            operation.mode.value,
            dict(operation.offsets) or None,
        )
    raise InvalidInputError(f"no operation for users: {operation.arm}")


def _to_table(operation: LanceOperation.BaseOperation) -> Operation:
    if isinstance(operation, LanceOperation.Append):
        return Append(_fragments(operation.fragments))
    if isinstance(operation, LanceOperation.Overwrite):
        return Overwrite(_schema(operation.new_schema), _fragments(operation.fragments))
    if isinstance(operation, LanceOperation.Delete):
        ids = _counts("deleted_fragment_ids", operation.deleted_fragment_ids)
        updated = _fragments(operation.updated_fragments)
        return Delete(updated, tuple(map(FragmentId, ids)), str(operation.predicate))
    if isinstance(operation, LanceOperation.Update):
        return _update(operation)
    if isinstance(operation, LanceOperation.Restore):
        return Restore(require_count("version", operation.version, 1))
    if isinstance(operation, LanceOperation.UpdateConfig):
        return UpdateConfig(
            _map_update("config_updates", operation.config_updates),
            _map_update("table_metadata_updates", operation.table_metadata_updates),
            _map_update("schema_metadata_updates", operation.schema_metadata_updates),
            _field_updates(operation.field_metadata_updates or {}),
        )
    raise InvalidInputError(
        f"operation: expected one of LanceOperation, such as .Append, found {operation!r}"
    )


def _update(operation: LanceOperation.Update) -> Update:
    removed = _counts("removed_fragment_ids", operation.removed_fragment_ids)
    modified = _counts("fields_modified", operation.fields_modified)
    updated = "fields_for_preserving_frag_bitmap"
    try:
        mode = UpdateMode(operation.update_mode or UpdateMode.ROWS.value)
    except ValueError:
        modes = ", ".join(mode.value for mode in UpdateMode)
        raise InvalidInputError(
            f"update_mode: expected one of {modes}, found {operation.update_mode!r}"
        ) from None
    return Update(
        _fragments(operation.updated_fragments),
        tuple(map(FragmentId, removed)),
        _fragments(operation.new_fragments),
        mode,
        tuple(map(FieldId, modified)),
        tuple(map(FieldId, _counts(updated, getattr(operation, updated)))),
        dict(operation.updated_fragment_offsets or {}),
    )


def _counts(what: str, numbers: Iterable[int]) -> list[int]:
    return [require_count(what, number) for number in numbers]


def _map_update(what: str, update: LanceOperation.UpdateMap | None) -> MapUpdate | None:
    return None if update is None else map_update(what, update.updates, update.replace)


def _field_updates(updates: Mapping[int, LanceOperation.UpdateMap]) -> dict[FieldId, MapUpdate]:
    return {
        FieldId(require_count("field_metadata_updates", number)): map_update(
            f"field {number}", update.updates, update.replace
        )
        for number, update in updates.items()
    }


def _schema(schema: pa.Schema | Schema) -> Schema:
    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, pa.Schema):
        return new_schema(schema)
    raise InvalidInputError(f"new_schema: expected a pyarrow.Schema, found {schema!r}")


def _metadata(fragments: Iterable[Fragment]) -> list[FragmentMetadata]:
    return [FragmentMetadata.from_table(fragment) for fragment in fragments]


def _fragments(found: Iterable[FragmentMetadata]) -> tuple[Fragment, ...]:
    fragments = tuple(found)
    for fragment in fragments:
        if not isinstance(fragment, FragmentMetadata):
            raise InvalidInputError(f"fragments: expected FragmentMetadata, found {fragment!r}")
    return tuple(fragment.to_table() for fragment in fragments)
