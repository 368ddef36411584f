"""`Transaction.update_config`: config and metadata of the table, its schema and its fields.

    config             1  a=1 b=2
    table metadata     2
    schema metadata    3                    a: 3, b: removed    ──▶    a=3
    field metadata     of each field

Each of the four is a map, and has an update of its own. Messages of older writers use other members
for the same purpose. Source: docs/format/table.md, "Config and metadata".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.format.fields import Field, FieldId
from pilum.format.pb import transaction_pb2
from pilum.format.schema import Schema
from pilum.table.commit.footprint import Footprint, Kind, resources
from pilum.table.commit.operations.base import Operation
from pilum.table.model.manifest import Manifest

__all__ = ["MapUpdate", "UpdateConfig"]

_Message = transaction_pb2.Transaction.UpdateConfig
_KEYS_OF_TABLES = "lance-schema:unenforced-"
_POSITION = "lance-schema:unenforced-primary-key:position"
_CLUSTERING_KEY = "lance-schema:unenforced-clustering-key"


@dataclass(frozen=True, slots=True)
class MapUpdate:
    """A change of a map of strings.

    Attributes:
        values: New values by key; None removes a key.
        replaces: Whether all other keys are removed.
    """

    values: Mapping[str, str | None] = field(default_factory=dict)
    replaces: bool = False

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.UpdateMap) -> MapUpdate:
        """Parse a message; of two entries with one key, the later counts."""
        values = {
            entry.key: entry.value if entry.HasField("value") else None
            for entry in message.update_entries
        }
        return cls(values, message.replace)

    def to_proto(self) -> transaction_pb2.Transaction.UpdateMap:
        """Build the message."""
        entry = transaction_pb2.Transaction.UpdateMap.Entry
        entries = [entry(key=key, value=value) for key, value in self.values.items()]
        return transaction_pb2.Transaction.UpdateMap(update_entries=entries, replace=self.replaces)

    def applied(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return the map after the change."""
        changed = {**({} if self.replaces else texts), **self.values}
        return {key: value for key, value in changed.items() if value is not None}


@dataclass(frozen=True, slots=True)
class UpdateConfig(Operation):
    """Changes config and metadata; None leaves one as it is.

    Attributes:
        config: Change of the config of the table.
        table_metadata: Change of the table's metadata, set by users.
        schema_metadata: Change of the metadata of the schema.
        fields: Changes of the metadata of fields.
    """

    arm = "update_config"
    config: MapUpdate | None = None
    table_metadata: MapUpdate | None = None
    schema_metadata: MapUpdate | None = None
    fields: Mapping[FieldId, MapUpdate] = field(default_factory=dict)

    @classmethod
    def from_proto(cls, message: _Message) -> UpdateConfig:
        """Read the operation from its message, in its old or new form, but not in both."""
        if not _is_old(message):
            return cls(
                _update(message, "config_updates"),
                _update(message, "table_metadata_updates"),
                _update(message, "schema_metadata_updates"),
                {
                    FieldId(number): MapUpdate.from_proto(update)
                    for number, update in sorted(message.field_metadata_updates.items())
                },
            )
        if _is_new(message):
            raise UnsupportedFeatureError("an update of the config in two forms at once")
        return cls._from_old(message)

    @classmethod
    def _from_old(cls, message: _Message) -> UpdateConfig:
        config = {**message.upsert_values, **dict.fromkeys(message.delete_keys)}
        schema = MapUpdate(dict(message.schema_metadata), replaces=True)
        return cls(
            MapUpdate(config) if config else None,
            schema_metadata=schema if message.schema_metadata else None,
            fields={
                FieldId(number): MapUpdate(dict(found.metadata), replaces=True)
                for number, found in sorted(message.field_metadata.items())
            },
        )

    def to_proto(self) -> _Message:
        """Build the message of the operation, in its new form."""
        return _Message(
            config_updates=_message(self.config),
            table_metadata_updates=_message(self.table_metadata),
            schema_metadata_updates=_message(self.schema_metadata),
            field_metadata_updates={
                number: update.to_proto() for number, update in self.fields.items()
            },
        )

    def footprint(self) -> Footprint:
        """Return a footprint that relies on the same keys, the same fields and the schema."""
        config = self.config.values if self.config else {}
        notes = self.table_metadata.values if self.table_metadata else {}
        set_keys = {key for key, value in config.items() if value is not None}
        own = [
            *resources(Kind.TABLE_METADATA_KEY, notes),
            *resources(Kind.FIELD_METADATA, self.fields),
            *((Kind.SCHEMA_METADATA,) if self.schema_metadata is not None else ()),
        ]
        has_columns = self.schema_metadata is not None or self.fields
        return Footprint.of(
            relies_on=(
                *((Kind.HISTORY, Kind.COLUMNS) if has_columns else ()),
                *own,
                *resources(Kind.CONFIG_KEY, config),
                *resources(Kind.REMOVED_CONFIG_KEY, set_keys),
            ),
            changes=(
                *((Kind.METADATA, Kind.DESCRIPTIONS) if has_columns else ()),
                *own,
                *resources(Kind.FIELD_DESCRIPTION, self.fields),
                *resources(Kind.CONFIG_KEY, set_keys),
                *resources(Kind.REMOVED_CONFIG_KEY, config.keys() - set_keys),
            ),
        )

    def fits(self, read: Manifest, manifest: Manifest) -> bool:
        """Return whether everything that it changes is unchanged since."""
        before, now = read.schema, manifest.schema
        return (
            _is_same(self.config, read.config, manifest.config)
            and _is_same(self.table_metadata, read.table_metadata, manifest.table_metadata)
            and (self.schema_metadata is None or before.metadata == now.metadata)
            and all(before.find(number) == now.find(number) for number in self.fields)
        )

    def apply(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the changed maps."""
        schema = manifest.schema
        if missing := set(self.fields) - {found.id for found in schema.walk()}:
            raise InvalidInputError(f"the table has no fields {sorted(missing)}")
        return replace(
            manifest,
            config=_applied(self.config, manifest.config),
            table_metadata=_applied(self.table_metadata, manifest.table_metadata),
            schema=Schema(
                tuple(_changed(found, self.fields) for found in schema.fields),
                _applied(self.schema_metadata, schema.metadata),
            ),
        )


def _update(message: _Message, name: str) -> MapUpdate | None:
    return MapUpdate.from_proto(getattr(message, name)) if message.HasField(name) else None


def _message(update: MapUpdate | None) -> transaction_pb2.Transaction.UpdateMap | None:
    return None if update is None else update.to_proto()


def _is_old(message: _Message) -> bool:
    return bool(
        message.upsert_values
        or message.delete_keys
        or message.schema_metadata
        or message.field_metadata
    )


def _is_new(message: _Message) -> bool:
    names = ("config_updates", "table_metadata_updates", "schema_metadata_updates")
    return any(map(message.HasField, names)) or bool(message.field_metadata_updates)


def _is_same(update: MapUpdate | None, before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Return whether a map is unchanged in the part that an update concerns."""
    if update is None:
        return True
    keys = {*before, *now, *update.values} if update.replaces else update.values
    return all(before.get(key) == now.get(key) for key in keys)


def _applied(update: MapUpdate | None, texts: Mapping[str, str]) -> Mapping[str, str]:
    return texts if update is None else update.applied(texts)


def _changed(
    found: Field, updates: Mapping[FieldId, MapUpdate], *, nullable: bool = False
) -> Field:
    """Return a field with changed metadata, including its descendants.

    `nullable` is that of its ancestors.
    """
    nullable = nullable or found.nullable
    children = tuple(_changed(child, updates, nullable=nullable) for child in found.children)
    metadata = _applied(updates.get(found.id), found.metadata)
    changed = replace(found, children=children, metadata=metadata)
    if _storage(changed) != _storage(found):
        raise InvalidInputError(
            f"field {found.name!r}: with these metadata its stored values would be read in "
            "another way; write the column again"
        )
    if _keys(changed) != _keys(found):
        _require_new_key(found, changed, nullable=nullable)
    return changed


def _require_new_key(found: Field, changed: Field, *, nullable: bool) -> None:
    where = f"field {found.name!r}"
    if _keys(found):
        raise InvalidInputError(f"{where}: the key of a table cannot be changed")
    if any(key.startswith(_CLUSTERING_KEY) for key in _keys(changed)):
        raise UnsupportedFeatureError(f"{where}: a clustering key")
    if not changed.is_key or not changed.metadata.get(_POSITION, "1").isdigit():
        raise InvalidInputError(f"{where}: {_keys(changed)} does not say whether it is in the key")
    if nullable:
        raise InvalidInputError(f"{where}: a key and what is around it must not be nullable")


def _storage(found: Field) -> tuple[object, ...]:
    """Return the metadata that decide about the columns of a field in files."""
    return found.is_leaf, found.is_packed, found.blob_version


def _keys(found: Field) -> dict[str, str]:
    metadata = found.metadata
    return {key: metadata[key] for key in metadata if key.startswith(_KEYS_OF_TABLES)}
