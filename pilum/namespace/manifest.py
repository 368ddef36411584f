"""The manifest table of a folder: a table of tables and namespaces.

    root/__manifest/      a table with a row for each object:

      object_id           "orders", or "sales$orders" for "orders" of the namespace "sales"
      object_type         "namespace", "table", or another kind, which is kept
      location            the folder of a table, relative to the root
      metadata            its properties as JSON, or null
      base_objects        null

A change is a version with all rows, which only follows the version that it was made from: when two
writers change the table at the same time, the second repeats its change on the new rows. Columns
and rows of other kinds are kept. Source: the specification of the directory catalog in
lance-namespace.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pilum.commit import LanceOperation
from pilum.dataset.fragment import write_fragments
from pilum.dataset.lance_dataset import LanceDataset, write_dataset
from pilum.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    CommitContentionError,
    DatasetAlreadyExistsError,
    DatasetNotFoundError,
)
from pilum.namespace.folders import Folders
from pilum.namespace.ids import DELIMITER, MANIFEST_FOLDER, children, prefix_of
from pilum.table.commit.publish import Backoff

import lance_namespace as api  # isort: skip  # ids.py has checked that it is installed

__all__ = ["NAMESPACE", "TABLE", "Entry", "ManifestTable"]

NAMESPACE: Final = "namespace"
TABLE: Final = "table"
_COLUMNS: Final = ["object_id", "object_type", "location", "metadata"]
_KEY: Final = {"lance-schema:unenforced-primary-key:position": "0"}
_SCHEMA: Final = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False, metadata=_KEY),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.field("object_id", pa.string()))),
    ]
)
_ATTEMPTS: Final = 20

Edit = Callable[[pa.Table], pa.Table]
"""A change: takes the rows and returns the new ones. Repeated if another writer was faster."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the manifest table."""

    kind: str
    location: str | None = None
    metadata: str | None = None

    @staticmethod
    def of(kind: str, location: str | None, properties: Mapping[str, str] | None) -> Entry:
        """Return the entry of an object with properties."""
        return Entry(kind, location, json.dumps(dict(properties)) if properties else None)

    def properties(self, key: str) -> dict[str, str] | None:
        """Return the properties of the object, None without any.

        Raises:
            InvalidTableStateError: If they are not an object of texts in JSON.
        """
        if self.metadata is None:
            return None
        try:
            found = json.loads(self.metadata)
            return {name: _text(value) for name, value in found.items()}
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise api.InvalidTableStateError(
                f"{key!r}: the manifest table has invalid metadata: {error}"
            ) from error


class ManifestTable:
    """The manifest table of a folder, which need not exist."""

    def __init__(self, folders: Folders, is_enabled: bool) -> None:
        """Prepare the table. Nothing is read yet.

        Args:
            folders: The folders of the root.
            is_enabled: Whether the table is used; without, it has no entries.
        """
        self._folders = folders
        self._is_enabled = is_enabled
        self._location = folders.location(MANIFEST_FOLDER)

    def exists(self) -> bool:
        """Return whether there is a manifest table that is used."""
        return self._opened() is not None

    def entries(self) -> dict[str, Entry]:
        """Return all entries by their ids."""
        table = self._opened()
        if table is None:
            return {}
        try:
            rows = table.to_table(columns=_COLUMNS)
        except ColumnNotFoundError as error:
            raise api.InvalidTableStateError(
                f"{self._location}: this is no manifest table: {error}"
            ) from error
        if not all(map(_is_text, rows.columns)) or any(rows[n].null_count for n in _COLUMNS[:2]):
            raise api.InvalidTableStateError(
                f"{self._location}: this is no manifest table: expected texts in "
                f"{', '.join(_COLUMNS)}, found {rows.schema}"
            )
        ids, *others = (column.to_pylist() for column in rows.columns)
        return {key: Entry(*fields) for key, *fields in zip(ids, *others, strict=True)}

    def root_properties(self) -> dict[str, str]:
        """Return the properties of the root, which are the metadata of the manifest table."""
        table = self._opened()
        return {} if table is None else dict(table.metadata)

    def add(self, key: str, entry: Entry) -> None:
        """Add an entry, unless there is one with its id.

        Raises:
            TableAlreadyExistsError: If there is a table with this id.
            NamespaceAlreadyExistsError: If there is a namespace with this id.
            NamespaceNotFoundError: If its namespace was dropped concurrently.
        """
        parent = key.rpartition(DELIMITER)[0]

        def added(rows: pa.Table) -> pa.Table:
            if parent and not rows.filter(_is_object(rows, parent, NAMESPACE)).num_rows:
                raise api.NamespaceNotFoundError(
                    f"{self._folders.root}: there is no namespace {parent!r} any more"
                )
            taken = rows.filter(pc.equal(rows["object_id"], key))
            if taken.num_rows:
                kind = taken["object_type"][0].as_py()
                is_namespace = kind == NAMESPACE
                error = (
                    api.NamespaceAlreadyExistsError if is_namespace else api.TableAlreadyExistsError
                )
                raise error(f"{self._folders.root}: there is a {kind} {key!r} already")
            values = {
                "object_id": key,
                "object_type": entry.kind,
                "location": entry.location,
                "metadata": entry.metadata,
            }
            new = pa.Table.from_pylist([values], rows.schema)
            return pa.concat_tables([rows, new])

        self._change(added)

    def remove(self, key: str, kind: str, unless_contains: bool = False) -> None:
        """Remove an entry.

        Args:
            key: Its id.
            kind: Its kind.
            unless_contains: Whether NamespaceNotEmptyError is raised if there are entries in it.
        """

        def removed(rows: pa.Table) -> pa.Table:
            found = unless_contains and children(rows["object_id"].to_pylist(), prefix_of([key]))
            if found:
                raise api.NamespaceNotEmptyError(
                    f"{self._folders.root}: the namespace {key!r} contains {', '.join(found[:5])}; "
                    "drop them first"
                )
            return rows.filter(pc.invert(_is_object(rows, key, kind)))

        self._change(removed)

    def _opened(self) -> LanceDataset | None:
        if not self._is_enabled:
            return None
        try:
            return self._folders.open(MANIFEST_FOLDER)
        except DatasetNotFoundError:
            return None

    def _change(self, edit: Edit) -> None:
        self._require_enabled()
        pause = Backoff()
        for _ in range(_ATTEMPTS):
            try:
                self._attempt(edit)
            except (CommitConflictError, CommitContentionError, DatasetAlreadyExistsError):
                if pause.take():
                    continue
                break
            return
        raise api.ConcurrentModificationError(
            f"{self._location}: all attempts lost against other writers; try again later"
        )

    def _attempt(self, edit: Edit) -> None:
        options: dict[str, Any] = {"storage_options": self._folders.options}
        table = self._opened()
        if table is None:
            write_dataset(edit(_SCHEMA.empty_table()), self._location, **options)
            return
        rows = edit(table.to_table())
        fragments = write_fragments(rows, table, mode="overwrite", **options) if len(rows) else []
        LanceDataset.commit(
            self._location,
            LanceOperation.Overwrite(table.schema, fragments),
            read_version=table.version,
            max_retries=0,
            **options,
        )

    def _require_enabled(self) -> None:
        if not self._is_enabled:
            raise api.UnsupportedOperationError(
                f"{self._folders.root}: this needs the manifest table; connect without "
                'manifest_enabled="false"'
            )


def _is_object(rows: pa.Table, key: str, kind: str) -> pa.ChunkedArray:
    return pc.and_(pc.equal(rows["object_id"], key), pc.equal(rows["object_type"], kind))


def _is_text(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected texts, found {value!r}")
    return value
