"""`Transaction.overwrite`: new schema and rows; also the first commit of every table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from pilum.errors import CommitConflictError, DatasetAlreadyExistsError, InvalidInputError
from pilum.format.pb import transaction_pb2
from pilum.format.schema import Schema
from pilum.storage.base import Store
from pilum.table.commit.footprint import Footprint, Kind, resources
from pilum.table.commit.operations.append import Append
from pilum.table.commit.operations.base import (
    Operation,
    data_format_of,
    data_paths,
    numbered,
    require_fits,
)
from pilum.table.model.base_paths import BasePath, with_new_bases
from pilum.table.model.features import Feature
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.model.fragments import Fragments
from pilum.table.model.manifest import Manifest
from pilum.table.write.align import require_sound_keys

__all__ = ["IfCreated", "Overwrite"]


class IfCreated(Enum):
    """The action of a write that found no table, if another writer creates one first.

    The value is the mode of the write.
    """

    REFUSE = "create"
    APPEND = "append"
    REPLACE = "overwrite"


@dataclass(frozen=True, slots=True)
class Overwrite(Operation):
    """Replaces schema and rows; config, metadata and the fragment id counter continue.

    Attributes:
        schema: The new schema with its field ids.
        fragments: Fragments with the new rows; they get unused ids.
        config: Settings to add to those of the table.
        empty_format: Version of future data files if there are none yet; not part of the
            transaction.
        bases: Base paths of a table that this creates; ids of 0 are assigned, from 1.
        stable_row_ids: Whether rows of a table that this creates keep their ids when they move. Not
            part of the transaction, and ignored if the table exists.
        if_created: The action if it was made for no table and there is one now; not part of the
            transaction.
    """

    arm = "overwrite"
    creates = True
    schema: Schema
    fragments: tuple[Fragment, ...]
    config: Mapping[str, str] = field(default_factory=dict)
    empty_format: str | None = field(default=None, compare=False)
    stable_row_ids: bool = field(default=False, compare=False)
    bases: tuple[BasePath, ...] = ()
    if_created: IfCreated = field(default=IfCreated.REPLACE, compare=False)

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Overwrite) -> Overwrite:
        """Read the operation from its message."""
        return cls(
            Schema.from_proto(message.schema, message.schema_metadata),
            tuple(map(Fragment.from_proto, message.fragments)),
            dict(message.config_upsert_values),
            bases=tuple(map(BasePath.from_proto, message.initial_bases)),
        )

    def to_proto(self) -> transaction_pb2.Transaction.Overwrite:
        """Build the message of the operation."""
        return transaction_pb2.Transaction.Overwrite(
            fragments=[fragment.to_proto() for fragment in self.fragments],
            schema=self.schema.to_proto(),
            schema_metadata=self.schema.metadata_to_proto(),
            config_upsert_values=self.config,
            initial_bases=[base.to_proto() for base in self.bases],
        )

    def footprint(self) -> Footprint:
        """Return a footprint that ignores changes of the old rows, but not another overwrite.

        An overwrite that creates the table replaces nothing, so its settings do not conflict.
        """
        keys = self.config if self.if_created is IfCreated.REPLACE else ()
        return Footprint.of(
            relies_on=(
                *(Kind.REPLACEMENT, Kind.MEMTABLES),
                *resources(Kind.CONFIG_KEY, keys),
                *resources(Kind.REMOVED_CONFIG_KEY, keys),
            ),
            changes=(Kind.REPLACEMENT, Kind.HISTORY, *resources(Kind.CONFIG_KEY, keys)),
        )

    @property
    def new_fragments(self) -> tuple[Fragment, ...]:
        """The fragments with the new rows."""
        return self.fragments

    @property
    def new_bases(self) -> tuple[BasePath, ...]:
        """The base paths of a table that it creates."""
        return self.bases

    def new_files(self) -> tuple[str, ...]:
        """Return the paths of the data files."""
        return data_paths(self.fragments)

    @property
    def can_follow_more(self) -> bool:
        """Return whether it becomes another operation if there is a table already."""
        return self.if_created is not IfCreated.REPLACE

    def rebase(self, store: Store, manifest: Manifest) -> Append:
        """Return an append of its rows to the table that another writer created first."""
        if self.if_created is IfCreated.REFUSE:
            raise DatasetAlreadyExistsError(
                f"{store.uri}: another writer has created the table first; use mode='append' "
                "or mode='overwrite'"
            )
        if self.schema.fields != manifest.schema.fields or self.bases:
            raise CommitConflictError(
                f"{store.uri}: another writer has created the table first, with the columns "
                f"{manifest.schema.names} or base paths of its own; append again",
                retryable=True,
                operation=Append.arm,
                read_version=0,
                version=manifest.version,
            )
        return Append(self.fragments, self.schema)

    def apply(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the new content and without indices."""
        if self.bases and manifest.version:
            raise InvalidInputError(
                "base paths can be given when a table is created; use add_bases afterwards"
            )
        require_sound_keys(self.schema)
        lowest = min((field.id for field in self.schema.walk()), default=0)
        if lowest < manifest.first_new_field_id:
            raise InvalidInputError(
                f"field id {lowest} was used before; this table never gives an id again, so new "
                f"columns begin at {manifest.first_new_field_id}"
            )
        require_fits(self.fragments, self.schema)
        formats = data_format_of(self.fragments)
        if len(formats) > 1:
            raise InvalidInputError(f"data files of several versions: {', '.join(sorted(formats))}")
        stable = Feature.STABLE_ROW_IDS if self.stable_row_ids and not manifest.version else 0
        unassigned = (replace(fragment, id=FragmentId(0)) for fragment in self.fragments)
        return replace(
            manifest,
            schema=self.schema,
            fragments=Fragments(numbered(unassigned, manifest.highest_fragment_id)),
            data_format=formats.pop() if formats else self.empty_format or manifest.data_format,
            config={**manifest.config, **self.config},
            reader_flags=manifest.reader_flags | stable,
            writer_flags=manifest.writer_flags | stable,
            index_section=b"",
            base_paths=with_new_bases(manifest.base_paths, self.bases),
        )
