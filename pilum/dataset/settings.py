"""Settings of a dataset: config, metadata of table, schema and fields, and base paths."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from pilum.arguments import require_list, require_names, require_text, require_texts
from pilum.dataset.base import DatasetBase, commit_operation, properties_of
from pilum.errors import ColumnNotFoundError, InvalidInputError
from pilum.format.fields import Field, FieldId
from pilum.format.schema import Schema
from pilum.table.commit.operations.update_bases import UpdateBases
from pilum.table.commit.operations.update_config import MapUpdate, UpdateConfig
from pilum.table.model.base_paths import BasePath
from pilum.table.read.snapshot import Snapshot

__all__ = ["DatasetBasePath", "Settings", "bases_to_commit", "map_update"]

Updates = Mapping[str, str | None]

_STEP = re.compile(r"(?:^|\.)(?:`([^`]+)`|([^.`]+))")


@dataclass(frozen=True)
class DatasetBasePath:
    """A folder outside a table that may contain some of its data files.

    Attributes:
        path: A URI or an absolute path.
        name: Its name; None if it has none.
        is_dataset_root: Whether it has the folder structure of a table. If not, it contains data
            files directly.
        id: Id, unique in the table; None to have one assigned.
    """

    path: str
    name: str | None = None
    is_dataset_root: bool = False
    id: int | None = None

    @classmethod
    def from_table(cls, base: BasePath) -> DatasetBasePath:
        """Convert a manifest entry to its public form."""
        return cls(base.path, base.name, base.is_dataset_root, base.id)


class Settings(DatasetBase):
    """Methods of `LanceDataset` for config, metadata and base paths.

    Every change is one commit. It starts from the pinned version and moves this dataset to the new
    one. It raises `CommitConflictError` if a concurrent commit changed the same keys, the same
    field or the metadata of the schema.
    """

    def update_config(self, values: Updates, *, replace: bool = False) -> dict[str, str]:
        """Update the config of the table.

        Args:
            values: New values by key; None removes a key.
            replace: Whether to remove all other keys.

        Returns:
            The config of the new version.

        Raises:
            CommitConflictError: If a concurrent commit changed the same keys.
            InvalidInputError: If keys or values are not strings.
        """
        updated = self._update(UpdateConfig(config=map_update("values", values, replace)))
        return dict(updated.manifest.config)

    def delete_config_keys(self, keys: Iterable[str]) -> None:
        """Remove keys from the config of the table; missing keys are ignored.

        Raises:
            CommitConflictError: If a concurrent commit set the same keys.
            InvalidInputError: If keys are not strings.
        """
        self.update_config(dict.fromkeys(require_names("keys", keys)))

    def update_metadata(self, values: Updates, *, replace: bool = False) -> dict[str, str]:
        """Update the metadata of the table; the arguments are those of `update_config`.

        Returns:
            The metadata of the new version.

        Raises:
            CommitConflictError: If a concurrent commit changed the same keys.
            InvalidInputError: If keys or values are not strings.
        """
        updated = self._update(UpdateConfig(table_metadata=map_update("values", values, replace)))
        return dict(updated.manifest.table_metadata)

    def update_schema_metadata(self, values: Updates, *, replace: bool = False) -> dict[str, str]:
        """Update the metadata of the schema; the arguments are those of `update_config`.

        Returns:
            The schema metadata of the new version.

        Raises:
            CommitConflictError: If a concurrent commit changed metadata of the schema, or overwrote
                or restored the table.
            InvalidInputError: If keys or values are not strings.
        """
        updated = self._update(UpdateConfig(schema_metadata=map_update("values", values, replace)))
        return dict(updated.schema.metadata or {})

    def replace_schema_metadata(self, new_metadata: Mapping[str, str]) -> None:
        """Replace the metadata of the schema; deprecated.

        Use `update_schema_metadata` with `replace=True` instead.
        """
        _deprecated("replace_schema_metadata", "update_schema_metadata")
        self.update_schema_metadata(new_metadata, replace=True)

    def update_field_metadata(
        self, field_updates: Mapping[str, Updates], *, replace: bool = False
    ) -> None:
        """Update the metadata of fields.

        Args:
            field_updates: For each field, new values by key; None removes a key. A field is named
                by its dotted path; a step that contains dots is enclosed in backticks.
            replace: Whether to remove all other keys of these fields.

        Raises:
            ColumnNotFoundError: If a field does not exist.
            CommitConflictError: If a concurrent commit changed metadata of the same fields, or
                overwrote or restored the table.
            InvalidInputError: If keys or values are not strings, or if the change would alter how
                stored values are read.
        """
        if not isinstance(field_updates, Mapping):
            raise InvalidInputError(f"field_updates: expected a dict, found {field_updates!r}")
        snapshot = self._snapshot
        fields: dict[FieldId, MapUpdate] = {}
        for path, values in field_updates.items():
            number = _field_id(snapshot.schema, path)
            known = fields.get(number, MapUpdate()).values
            update = map_update(f"field {path!r}", values, replace)
            fields[number] = MapUpdate({**known, **update.values}, bool(replace))
        commit_operation(self, snapshot, UpdateConfig(fields=fields))

    def replace_field_metadata(self, field_name: str, new_metadata: Mapping[str, str]) -> None:
        """Replace the metadata of a field; deprecated.

        Use `update_field_metadata` with `replace=True` instead.
        """
        _deprecated("replace_field_metadata", "update_field_metadata")
        name = require_text("field_name", field_name)
        self.update_field_metadata({name: new_metadata}, replace=True)

    def base_paths(self) -> dict[int, DatasetBasePath]:
        """Return the base paths that may contain data files of the pinned version, by id."""
        found = self._snapshot.manifest.base_paths
        return {base.id: DatasetBasePath.from_table(base) for base in found}

    def add_bases(
        self,
        new_bases: Iterable[DatasetBasePath],
        transaction_properties: Mapping[str, str] | None = None,
    ) -> Self:
        """Add base paths to the table and move this dataset to the new version.

        Data is written there if a write names them in `target_bases`.

        Args:
            new_bases: The base paths; ids are assigned where missing.
            transaction_properties: Properties that are recorded in the history.

        Returns:
            This dataset.

        Raises:
            InvalidInputError: If an id, a name or a path is taken.
            CommitConflictError: If a concurrent commit took an id, a name or a path.
        """
        notes = properties_of(None, transaction_properties)
        commit_operation(self, self._snapshot, UpdateBases(bases_to_commit(new_bases)), notes)
        return self

    def _update(self, operation: UpdateConfig) -> Snapshot:
        return commit_operation(self, self._snapshot, operation)


def _field_id(schema: Schema, path: str) -> FieldId:
    known = dict(_paths(schema.fields))
    steps = tuple(quoted or plain for quoted, plain in _STEP.findall(str(path)))
    if steps not in known or _STEP.sub("", str(path)):
        names = [".".join(steps) for steps in known]
        raise ColumnNotFoundError(f"no field {path!r}; the fields are {names}")
    return known[steps]


def _paths(
    fields: Iterable[Field], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], FieldId]]:
    for field in fields:
        path = (*above, field.name)
        yield path, field.id
        yield from _paths(field.children, path)


def _deprecated(name: str, other: str) -> None:
    warnings.warn(
        f"{name} is deprecated: use {other} with replace=True", DeprecationWarning, stacklevel=3
    )


def map_update(what: str, values: Any, replaces: bool) -> MapUpdate:
    """Check the update of a map of strings; None removes a key."""
    if not isinstance(values, Mapping):
        raise InvalidInputError(f"{what}: expected a dict, found {values!r}")
    require_texts(what, {key: "" if value is None else value for key, value in values.items()})
    return MapUpdate(dict(values), bool(replaces))


def bases_to_commit(bases: Iterable[DatasetBasePath]) -> tuple[BasePath, ...]:
    """Convert base paths for an operation; the id 0 requests a free id."""
    return tuple(map(_to_commit, require_list("base paths", bases)))


def _to_commit(base: DatasetBasePath) -> BasePath:
    path, number = getattr(base, "path", None), getattr(base, "id", None) or 0
    name = getattr(base, "name", None)
    is_path = isinstance(path, str | os.PathLike) and os.fspath(path)
    is_id = isinstance(number, int) and 0 <= number < 1 << 32
    if not (is_path and is_id and isinstance(name, str | None)):
        raise InvalidInputError(f"expected a DatasetBasePath, found {base!r}")
    return BasePath(number, str(os.fspath(base.path)), bool(base.is_dataset_root), name)
