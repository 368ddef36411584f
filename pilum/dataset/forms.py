"""Public forms of operations and transactions, converted from and to committed ones by one table.

    public form, mutable                      committed, frozen
    LanceOperation.Delete                     Delete
        updated_fragments        ◀────────▶       updated       fragments
        deleted_fragment_ids                      removed       numbers
        predicate                                 predicate     text

`FORMS` has one entry for each public class, and in it one row for each field: its name, the
attribute of the committed form, and the kind of its values, which converts them both ways.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from pilum.arguments import require_count
from pilum.dataset.metadata import DataFile, DataOverlayFile, FragmentMetadata, Index
from pilum.dataset.operations import LanceOperation
from pilum.dataset.settings import DatasetBasePath, bases_to_commit, map_update
from pilum.errors import InvalidInputError
from pilum.format.schema import Schema
from pilum.schema import LanceSchema
from pilum.table.commit import transaction
from pilum.table.commit.operations.append import Append
from pilum.table.commit.operations.clone import Clone
from pilum.table.commit.operations.create_index import CreateIndex
from pilum.table.commit.operations.data_overlay import DataOverlay, Overlaid
from pilum.table.commit.operations.data_replacement import DataReplacement, Replacement
from pilum.table.commit.operations.delete import Delete
from pilum.table.commit.operations.merge import Merge
from pilum.table.commit.operations.overwrite import Overwrite
from pilum.table.commit.operations.project import Project
from pilum.table.commit.operations.restore import Restore
from pilum.table.commit.operations.rewrite import Rewrite
from pilum.table.commit.operations.update import Update, UpdateMode
from pilum.table.commit.operations.update_config import MapUpdate, UpdateConfig
from pilum.table.model.index_segments import IndexSegment, RewrittenIndex
from pilum.table.model.reuse_index import Move
from pilum.table.write.align import new_schema

__all__ = ["FORMS", "Form", "Kind", "Transaction", "from_form", "to_form"]


@dataclass
class Transaction:
    """An operation with the facts that its commit needs.

    Attributes:
        read_version: The version that the operation is based on; 0 if there was no table.
        operation: The operation to commit.
        uuid: Globally unique id.
        transaction_properties: Properties that are recorded in the history.
    """

    read_version: int
    operation: LanceOperation.BaseOperation
    uuid: str = field(default_factory=lambda: str(uuids.uuid4()))
    transaction_properties: Mapping[str, str] | None = field(default_factory=dict)

    @property
    def fragments(self) -> list[FragmentMetadata]:
        """The fragments that the operation adds."""
        if isinstance(self.operation, LanceOperation.Update):
            return list(self.operation.new_fragments)
        return list(getattr(self.operation, "fragments", ()))

    @classmethod
    def from_table(cls, found: transaction.Transaction | transaction.Committed) -> Transaction:
        """Convert a transaction; an operation without a public form is a bare `BaseOperation`."""
        has_form = type(found.operation) in _PUBLIC
        operation = to_form(found.operation) if has_form else LanceOperation.BaseOperation()
        return cls(found.read_version, operation, found.uuid, dict(found.properties))

    def to_table(self) -> transaction.Transaction:
        """Convert to the form that is committed.

        Raises:
            InvalidInputError: If the operation is not one of `LanceOperation`, or not well formed.
            UnsupportedFeatureError: If the operation needs a feature that is not supported.
        """
        form = self.operation
        if not isinstance(form, LanceOperation.BaseOperation) or type(form) not in FORMS:
            raise InvalidInputError(
                f"operation: expected one of LanceOperation, such as .Append, found {form!r}"
            )
        operation = from_form(form)
        properties = dict(self.transaction_properties or {})
        return transaction.Transaction(self.read_version, operation, self.uuid, properties)


def to_form(found: Any) -> Any:
    """Convert a committed value to its public form."""
    public = _PUBLIC[type(found)]
    values = {
        name: kind.to_form(None if attribute is None else getattr(found, attribute))
        for name, (attribute, kind) in FORMS[public].fields.items()
    }
    return public(**values)


def from_form(form: Any) -> Any:
    """Convert a public form to the value that is committed."""
    values = {}
    for name, (attribute, kind) in FORMS[type(form)].fields.items():
        value = kind.from_form(name, getattr(form, name))
        if attribute is not None:
            values[attribute] = value
    return FORMS[type(form)].committed(**values)


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Kind:
    """A kind of values of fields, which are public or committed.

    `from_form` checks and converts a public value; the first argument names the field.
    """

    from_form: Callable[[str, Any], Any]
    to_form: Callable[[Any], Any] = _same


@dataclass(frozen=True)
class Form:
    """A public form, and the class of its committed form.

    For each public field, `fields` has the attribute of the committed form and the kind of its
    values. The attribute is None if the committed form does not have the field.
    """

    committed: type
    fields: Mapping[str, tuple[str | None, Kind]]

    @classmethod
    def of(cls, committed: type, **fields: Kind | tuple[str | None, Kind]) -> Form:
        """Describe a form; a kind alone means that the attribute has the name of the field."""
        rows = {
            name: row if isinstance(row, tuple) else (name, row) for name, row in fields.items()
        }
        return cls(committed, rows)


def _one(
    public: type,
    to_form: Callable[[Any], Any] = to_form,
    from_form: Callable[[Any], Any] = from_form,
    content: str = "",
) -> Kind:
    def checked(name: str, value: Any) -> Any:
        if not isinstance(value, public):
            expected = public.__name__ + content
            raise InvalidInputError(f"{name}: expected {expected}, found {value!r}")
        return from_form(value)

    return Kind(checked, to_form)


def _many(kind: Kind) -> Kind:
    return Kind(
        lambda name, values: tuple(kind.from_form(name, value) for value in values),
        lambda values: [kind.to_form(value) for value in values],
    )


def _schema(name: str, schema: Any) -> Schema:
    if isinstance(schema, LanceSchema):
        return schema.stored
    if isinstance(schema, pa.Schema):
        return new_schema(schema)
    raise InvalidInputError(f"{name}: expected a pyarrow.Schema, found {schema!r}")


def _schema_with_ids(name: str, schema: Any) -> Schema:
    if not isinstance(schema, LanceSchema):
        raise InvalidInputError(
            f"{name}: expected one with field ids, as `lance_schema` is, found {schema!r}"
        )
    return schema.stored


def _mode(name: str, mode: Any) -> UpdateMode:
    try:
        return UpdateMode(mode or UpdateMode.ROWS.value)
    except ValueError:
        modes = ", ".join(mode.value for mode in UpdateMode)
        raise InvalidInputError(f"{name}: expected one of {modes}, found {mode!r}") from None


def _map_update(name: str, update: Any) -> MapUpdate:
    return map_update(name, update.updates, update.replace)


def _map_update_form(update: MapUpdate) -> LanceOperation.UpdateMap:
    return LanceOperation.UpdateMap(dict(update.values), update.replaces)


def _field_updates(name: str, updates: Any) -> dict[int, MapUpdate]:
    return {
        require_count(name, number): _map_update(f"field {number}", update)
        for number, update in (updates or {}).items()
    }


def _field_updates_form(
    updates: Mapping[int, MapUpdate],
) -> dict[int, LanceOperation.UpdateMap] | None:
    return {int(number): _map_update_form(update) for number, update in updates.items()} or None


def _rewritten_index(index: Any) -> RewrittenIndex:
    segment = Index(
        index.new_id,
        "",
        [],
        0,
        [],
        require_count("new_index_version", index.new_index_version),
        index_details=(index.new_details_type_url, index.new_details_value),
    )
    old = replace(segment, uuid=index.old_id).to_table()
    return RewrittenIndex(old.uuid, segment.to_table().message)


def _rewritten_index_form(index: RewrittenIndex) -> LanceOperation.RewrittenIndex:
    new, details = IndexSegment(index.new), index.new.index_details
    return LanceOperation.RewrittenIndex(
        index.old_uuid, new.uuid, details.type_url, details.value, index.new.index_version
    )


def _cloned(_: str, path: str) -> str:
    raise InvalidInputError(
        f"a clone of {path} cannot be committed; use shallow_clone, deep_clone or create_branch"
    )


ANY = Kind(lambda _, value: value)
FLAG = Kind(lambda _, value: bool(value))
TEXT = Kind(lambda _, value: str(value))
NUMBER = Kind(require_count, int)
NUMBERS = _many(NUMBER)
VERSION = Kind(lambda name, value: require_count(name, value, 1))
OFFSETS = Kind(lambda _, offsets: dict(offsets or {}), lambda offsets: dict(offsets) or None)
MODE = Kind(_mode, lambda mode: mode.value)
SCHEMA = Kind(_schema, LanceSchema)
SCHEMA_WITH_IDS = Kind(_schema_with_ids, LanceSchema)
MAP_UPDATE = Kind(
    lambda name, update: None if update is None else _map_update(name, update),
    lambda update: None if update is None else _map_update_form(update),
)
FIELD_UPDATES = Kind(_field_updates, _field_updates_form)
FILE = _one(DataFile, DataFile.from_table, DataFile.to_table)
FRAGMENTS = _many(_one(FragmentMetadata, FragmentMetadata.from_table, FragmentMetadata.to_table))
INDICES = _many(_one(Index, Index.from_table, Index.to_table))
BASES = Kind(
    lambda _, bases: bases_to_commit(bases or ()),
    lambda bases: list(map(DatasetBasePath.from_table, bases)) or None,
)
GROUPS = _many(_one(LanceOperation.RewriteGroup))
OVERLAYS = _many(_one(DataOverlayFile, DataOverlayFile.from_table, DataOverlayFile.to_table))
OVERLAID = _many(_one(LanceOperation.DataOverlayGroup, content=" with DataOverlayFiles"))
REPLACEMENTS = _many(_one(LanceOperation.DataReplacementGroup, content=" with a DataFile"))
REWRITTEN = _many(_one(LanceOperation.RewrittenIndex, _rewritten_index_form, _rewritten_index))
SOURCE = Kind(_cloned)

FORMS: Mapping[type, Form] = {
    LanceOperation.Append: Form.of(Append, fragments=FRAGMENTS),
    LanceOperation.Clone: Form.of(
        Clone, is_shallow=ANY, ref_name=ANY, ref_version=ANY, ref_path=SOURCE, branch_name=ANY
    ),
    LanceOperation.CreateIndex: Form.of(
        CreateIndex, new_indices=("new", INDICES), removed_indices=("removed", INDICES)
    ),
    LanceOperation.DataOverlay: Form.of(DataOverlay, groups=OVERLAID),
    LanceOperation.DataOverlayGroup: Form.of(Overlaid, fragment_id=NUMBER, overlays=OVERLAYS),
    LanceOperation.DataReplacement: Form.of(DataReplacement, replacements=REPLACEMENTS),
    LanceOperation.DataReplacementGroup: Form.of(
        Replacement, fragment_id=NUMBER, new_file=("file", FILE)
    ),
    LanceOperation.Delete: Form.of(
        Delete,
        updated_fragments=("updated", FRAGMENTS),
        deleted_fragment_ids=("removed", NUMBERS),
        predicate=TEXT,
    ),
    LanceOperation.Merge: Form.of(
        Merge, fragments=FRAGMENTS, schema=SCHEMA, preserves_nullability=FLAG
    ),
    LanceOperation.Overwrite: Form.of(
        Overwrite,
        new_schema=("schema", SCHEMA),
        fragments=FRAGMENTS,
        initial_bases=("bases", BASES),
    ),
    LanceOperation.Project: Form.of(Project, schema=SCHEMA_WITH_IDS, preserves_nullability=FLAG),
    LanceOperation.Restore: Form.of(Restore, version=VERSION),
    LanceOperation.Rewrite: Form.of(
        Rewrite, groups=("moves", GROUPS), rewritten_indices=("rewritten", REWRITTEN)
    ),
    LanceOperation.RewriteGroup: Form.of(
        Move, old_fragments=("old", FRAGMENTS), new_fragments=("new", FRAGMENTS)
    ),
    LanceOperation.Update: Form.of(
        Update,
        removed_fragment_ids=("removed", NUMBERS),
        updated_fragments=("updated", FRAGMENTS),
        new_fragments=("new", FRAGMENTS),
        fields_modified=NUMBERS,
        fields_for_preserving_frag_bitmap=("fields_updated", NUMBERS),
        update_mode=("mode", MODE),
        updated_fragment_offsets=("offsets", OFFSETS),
    ),
    LanceOperation.UpdateConfig: Form.of(
        UpdateConfig,
        config_updates=("config", MAP_UPDATE),
        table_metadata_updates=("table_metadata", MAP_UPDATE),
        schema_metadata_updates=("schema_metadata", MAP_UPDATE),
        field_metadata_updates=("fields", FIELD_UPDATES),
    ),
}
"""The public forms."""

_PUBLIC = {form.committed: public for public, form in FORMS.items()}
