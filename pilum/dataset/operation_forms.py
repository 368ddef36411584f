"""Conversion of operations between their public and their committed form.

There is one pair of functions for each operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from pilum.arguments import require_count
from pilum.dataset.base_paths import DatasetBasePath, bases_to_commit
from pilum.dataset.configuring import map_update
from pilum.dataset.index_metadata import Index
from pilum.dataset.lance_operation import LanceOperation
from pilum.dataset.metadata import DataFile, FragmentMetadata
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.format.schema import FieldId, Schema
from pilum.table.commit.operations.append import Append
from pilum.table.commit.operations.base import Operation
from pilum.table.commit.operations.clone import Clone
from pilum.table.commit.operations.create_index import CreateIndex
from pilum.table.commit.operations.data_replacement import DataReplacement, Replacement
from pilum.table.commit.operations.delete import Delete
from pilum.table.commit.operations.foreign import ForeignOperation
from pilum.table.commit.operations.merge import Merge
from pilum.table.commit.operations.overwrite import Overwrite
from pilum.table.commit.operations.project import Project
from pilum.table.commit.operations.restore import Restore
from pilum.table.commit.operations.rewrite import Rewrite
from pilum.table.commit.operations.update import Update, UpdateMode
from pilum.table.commit.operations.update_config import MapUpdate, UpdateConfig
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.model.reuse_index import Move
from pilum.table.write.align import new_schema

__all__ = ["operation_for_users", "operation_to_commit"]


def operation_for_users(operation: Operation | ForeignOperation) -> LanceOperation.BaseOperation:
    """Convert a committed operation to its public form; a bare `BaseOperation` if there is none."""
    make = _FOR_USERS.get(type(operation))
    return make(operation) if make else LanceOperation.BaseOperation()


def operation_to_commit(operation: LanceOperation.BaseOperation) -> Operation:
    """Convert a public operation to the form that is committed.

    Raises:
        InvalidInputError: If the operation is not one of `LanceOperation`, or not well formed.
        UnsupportedFeatureError: If the operation needs a feature that is not supported.
    """
    make = _TO_COMMIT.get(type(operation))
    if make is None:
        raise InvalidInputError(
            f"operation: expected one of LanceOperation, such as .Append, found {operation!r}"
        )
    return make(operation)


def _append(found: Append) -> LanceOperation.Append:
    return LanceOperation.Append(_metadata(found.fragments))


def _to_append(wanted: LanceOperation.Append) -> Append:
    return Append(_fragments(wanted.fragments))


def _overwrite(found: Overwrite) -> LanceOperation.Overwrite:
    bases = list(map(DatasetBasePath.from_table, found.bases)) or None
    return LanceOperation.Overwrite(found.schema, _metadata(found.fragments), bases)


def _to_overwrite(wanted: LanceOperation.Overwrite) -> Overwrite:
    bases = bases_to_commit(wanted.initial_bases or ())
    schema = _schema("new_schema", wanted.new_schema)
    return Overwrite(schema, _fragments(wanted.fragments), bases=bases)


def _delete(found: Delete) -> LanceOperation.Delete:
    removed = list(map(int, found.removed))
    return LanceOperation.Delete(_metadata(found.updated), removed, found.predicate)


def _to_delete(wanted: LanceOperation.Delete) -> Delete:
    ids = _counts("deleted_fragment_ids", wanted.deleted_fragment_ids)
    updated = _fragments(wanted.updated_fragments)
    return Delete(updated, tuple(map(FragmentId, ids)), str(wanted.predicate))


def _update(found: Update) -> LanceOperation.Update:
    return LanceOperation.Update(
        list(map(int, found.removed)),
        _metadata(found.updated),
        _metadata(found.new),
        list(map(int, found.fields_modified)),
        list(map(int, found.fields_updated)),
        found.mode.value,
        dict(found.offsets) or None,
    )


def _to_update(operation: LanceOperation.Update) -> Update:
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


def _merge(found: Merge) -> LanceOperation.Merge:
    fragments = _metadata(found.fragments)
    return LanceOperation.Merge(fragments, found.schema, found.preserves_nullability)


def _to_merge(wanted: LanceOperation.Merge) -> Merge:
    schema = _schema("schema", wanted.schema)
    return Merge(schema, _fragments(wanted.fragments), bool(wanted.preserves_nullability))


def _project(found: Project) -> LanceOperation.Project:
    return LanceOperation.Project(found.schema, found.preserves_nullability)


def _to_project(wanted: LanceOperation.Project) -> Project:
    if not isinstance(wanted.schema, Schema):
        raise InvalidInputError(
            f"schema: expected one with field ids, as `lance_schema` is, found {wanted.schema!r}"
        )
    return Project(wanted.schema, bool(wanted.preserves_nullability))


def _rewrite(found: Rewrite) -> LanceOperation.Rewrite:
    groups = [
        LanceOperation.RewriteGroup(_metadata(move.old), _metadata(move.new))
        for move in found.moves
    ]
    return LanceOperation.Rewrite(groups, [])


def _to_rewrite(wanted: LanceOperation.Rewrite) -> Rewrite:
    if list(wanted.rewritten_indices):
        raise UnsupportedFeatureError("rewritten_indices: the commit looks after the indices")
    moves = [
        Move(_fragments(group.old_fragments), _fragments(group.new_fragments))
        for group in wanted.groups
    ]
    return Rewrite(tuple(moves))


def _create_index(found: CreateIndex) -> LanceOperation.CreateIndex:
    new, removed = map(Index.from_table, found.new), map(Index.from_table, found.removed)
    return LanceOperation.CreateIndex(list(new), list(removed))


def _to_create_index(wanted: LanceOperation.CreateIndex) -> CreateIndex:
    for index in (*wanted.new_indices, *wanted.removed_indices):
        if not isinstance(index, Index):
            raise InvalidInputError(f"indices: expected Index, found {index!r}")
    new = tuple(index.to_table() for index in wanted.new_indices)
    return CreateIndex(new, tuple(index.to_table() for index in wanted.removed_indices))


def _data_replacement(found: DataReplacement) -> LanceOperation.DataReplacement:
    return LanceOperation.DataReplacement(
        [
            LanceOperation.DataReplacementGroup(int(one.fragment_id), DataFile.from_table(one.file))
            for one in found.replacements
        ]
    )


def _to_data_replacement(wanted: LanceOperation.DataReplacement) -> DataReplacement:
    found = []
    for group in wanted.replacements:
        if not isinstance(group, LanceOperation.DataReplacementGroup) or not isinstance(
            group.new_file, DataFile
        ):
            raise InvalidInputError(f"replacements: expected groups with a DataFile: {group!r}")
        number = FragmentId(require_count("fragment_id", group.fragment_id))
        found.append(Replacement(number, group.new_file.to_table()))
    return DataReplacement(tuple(found))


def _restore(found: Restore) -> LanceOperation.Restore:
    return LanceOperation.Restore(found.version)


def _to_restore(wanted: LanceOperation.Restore) -> Restore:
    return Restore(require_count("version", wanted.version, 1))


def _update_config(found: UpdateConfig) -> LanceOperation.UpdateConfig:
    fields = {int(number): _shown(update) for number, update in found.fields.items()}
    return LanceOperation.UpdateConfig(
        _shown_or_none(found.config),
        _shown_or_none(found.table_metadata),
        _shown_or_none(found.schema_metadata),
        fields or None,
    )


def _to_update_config(wanted: LanceOperation.UpdateConfig) -> UpdateConfig:
    return UpdateConfig(
        _map_update("config_updates", wanted.config_updates),
        _map_update("table_metadata_updates", wanted.table_metadata_updates),
        _map_update("schema_metadata_updates", wanted.schema_metadata_updates),
        _field_updates(wanted.field_metadata_updates or {}),
    )


def _clone(found: Clone) -> LanceOperation.Clone:
    return LanceOperation.Clone(
        found.is_shallow, found.ref_name, found.ref_version, found.ref_path, found.branch_name
    )


def _to_clone(wanted: LanceOperation.Clone) -> Clone:
    raise InvalidInputError(
        f"a clone of {wanted.ref_path} cannot be committed; use shallow_clone, deep_clone or "
        "create_branch"
    )


_FOR_USERS: Mapping[type, Callable[[Any], LanceOperation.BaseOperation]] = {
    Append: _append,
    Clone: _clone,
    CreateIndex: _create_index,
    DataReplacement: _data_replacement,
    Delete: _delete,
    Merge: _merge,
    Overwrite: _overwrite,
    Project: _project,
    Restore: _restore,
    Rewrite: _rewrite,
    Update: _update,
    UpdateConfig: _update_config,
}
_TO_COMMIT: Mapping[type, Callable[[Any], Operation]] = {
    LanceOperation.Append: _to_append,
    LanceOperation.Clone: _to_clone,
    LanceOperation.CreateIndex: _to_create_index,
    LanceOperation.DataReplacement: _to_data_replacement,
    LanceOperation.Delete: _to_delete,
    LanceOperation.Merge: _to_merge,
    LanceOperation.Overwrite: _to_overwrite,
    LanceOperation.Project: _to_project,
    LanceOperation.Restore: _to_restore,
    LanceOperation.Rewrite: _to_rewrite,
    LanceOperation.Update: _to_update,
    LanceOperation.UpdateConfig: _to_update_config,
}


def _shown_or_none(update: MapUpdate | None) -> LanceOperation.UpdateMap | None:
    return None if update is None else _shown(update)


def _shown(update: MapUpdate) -> LanceOperation.UpdateMap:
    return LanceOperation.UpdateMap(dict(update.values), update.replaces)


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


def _schema(what: str, schema: pa.Schema | Schema) -> Schema:
    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, pa.Schema):
        return new_schema(schema)
    raise InvalidInputError(f"{what}: expected a pyarrow.Schema, found {schema!r}")


def _metadata(fragments: Iterable[Fragment]) -> list[FragmentMetadata]:
    return [FragmentMetadata.from_table(fragment) for fragment in fragments]


def _fragments(found: Iterable[FragmentMetadata]) -> tuple[Fragment, ...]:
    fragments = tuple(found)
    for fragment in fragments:
        if not isinstance(fragment, FragmentMetadata):
            raise InvalidInputError(f"fragments: expected FragmentMetadata, found {fragment!r}")
    return tuple(fragment.to_table() for fragment in fragments)
