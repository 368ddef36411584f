"""A folder as a namespace: tables that are listed, described, created and dropped by name.

Tables of the root are folders with their names (`folders.py`). Child namespaces, their tables,
tables with properties and tables in folders of other names are rows of the manifest table
(`manifest.py`), which is created when it is needed first. Once it exists, it lists the tables of
the root too, as that of the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from pilum.dataset.lance_dataset import LanceDataset, write_dataset
from pilum.errors import (
    DatasetAlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    UnsupportedTypeError,
)
from pilum.namespace.folders import SUFFIX, Folders, State
from pilum.namespace.ids import (
    MAX_FOLDER_BYTES,
    children,
    id_of,
    is_below,
    key_of,
    page,
    prefix_of,
    within_root,
)
from pilum.namespace.manifest import NAMESPACE, TABLE, Entry, ManifestTable
from pilum.namespace.rows import stream_of
from pilum.namespace.tables import TableOperations
from pilum.namespace.versions import VersionOperations, Versions
from pilum.schema import schema_to_json
from pilum.storage.open import open_store
from pilum.table.read.session import Session
from pilum.table.refs.references import Reference

import lance_namespace as api  # isort: skip  # ids.py has checked that it is installed

__all__ = ["DirectoryNamespace"]

_STORAGE: Final = "storage."
_SWITCHES: Final = ("manifest_enabled", "dir_listing_enabled", "vend_input_storage_options")
_TRACKING: Final = "table_version_tracking_enabled"


@dataclass(frozen=True)
class _Found:
    """A table that is listed.

    Attributes:
        folder: Its folder below the root.
        state: Contents of the folder.
        entry: Its row in the manifest table, None if only its folder lists it.
    """

    folder: str
    state: State
    entry: Entry | None


class DirectoryNamespace(TableOperations, VersionOperations):
    """The tables in a folder, local or in an object store.

    Errors are those of `lance_namespace`. Operations that are not defined here raise its
    `UnsupportedOperationError`.
    """

    def __init__(
        self,
        session: Session | None = None,
        context_provider: None = None,
        **properties: str,
    ) -> None:
        """Open a folder. Nothing is read or written yet.

        Args:
            session: Session whose caches are used; None for the caches of the process.
            context_provider: Must be None.
            properties: `root` is the folder, a path or URI as in `pilum.dataset`. `storage.x` is
                the option `x` of its object store. With `manifest_enabled="false"`, the manifest
                table is ignored. With `dir_listing_enabled="false"`, only the manifest table lists
                tables. With `vend_input_storage_options="false"`, descriptions of tables do not
                contain the options of the object store. With
                `table_version_tracking_enabled="true"`, clients create versions through this
                namespace.

        Raises:
            InvalidInputError: If a property is missing, unknown or invalid.
        """
        if context_provider is not None:
            raise InvalidInputError("context_provider: folders have no requests to pass it to")
        self._properties = properties
        given = {name: str(value) for name, value in properties.items()}
        if not given.get("root"):
            raise InvalidInputError('DirectoryNamespace: pass the property "root", a path or URI')
        options = {name: value for name, value in given.items() if name.startswith(_STORAGE)}
        unknown = given.keys() - options.keys() - {"root", _TRACKING, *_SWITCHES}
        if unknown:
            raise InvalidInputError(
                f"DirectoryNamespace: unknown properties {sorted(unknown)}; expected root, "
                f"{', '.join(_SWITCHES)}, {_TRACKING} or {_STORAGE}*"
            )
        options = {name.removeprefix(_STORAGE): value for name, value in options.items()}
        self._manages = _is_on(given, _TRACKING, "false")
        has_manifest, self._lists_folders, self._vends = (_is_on(given, name) for name in _SWITCHES)
        if not has_manifest and not self._lists_folders:
            raise InvalidInputError(
                "DirectoryNamespace: manifest_enabled and dir_listing_enabled are both false, so "
                "that nothing lists tables"
            )
        self._folders = Folders(open_store(given["root"], options), options, session)
        self._manifest = ManifestTable(self._folders, has_manifest)

    def namespace_id(self) -> str:
        """Return a text that identifies the folder."""
        return f'DirectoryNamespace {{ root: "{self._folders.root}" }}'

    def __repr__(self) -> str:
        return f"DirectoryNamespace(root={self._folders.root!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self._properties,)

    def create_namespace(self, request: api.CreateNamespaceRequest) -> api.CreateNamespaceResponse:
        """Create a namespace in one that exists. The mode is "create" (the default) or "exist_ok".

        NamespaceAlreadyExistsError is raised with the mode "create" if it exists.
        """
        mode = _mode(request, ("create", "existok"))
        names = id_of(request)
        entry = Entry.of(NAMESPACE, None, request.properties)
        self._require_namespace(names[:-1])
        try:
            self._manifest.add(key_of(names), entry)
        except api.NamespaceAlreadyExistsError:
            if mode == "create":
                raise
            return api.CreateNamespaceResponse()
        return api.CreateNamespaceResponse(properties=request.properties)

    def describe_namespace(
        self, request: api.DescribeNamespaceRequest
    ) -> api.DescribeNamespaceResponse:
        """Return the properties of a namespace."""
        if not request.id:
            return api.DescribeNamespaceResponse(properties=self._manifest.root_properties())
        entry = self._require_namespace(request.id)
        properties = entry.properties(key_of(request.id)) if entry else None
        return api.DescribeNamespaceResponse(properties=properties or {})

    def drop_namespace(self, request: api.DropNamespaceRequest) -> api.DropNamespaceResponse:
        """Drop an empty namespace; with the mode "skip" also one that does not exist."""
        if (request.behavior or "restrict").lower() != "restrict":
            raise api.UnsupportedOperationError(
                f"behavior: expected restrict, found {request.behavior!r}; drop the tables first"
            )
        mode = _mode(request, ("fail", "skip"))
        names = id_of(request)
        try:
            self._require_namespace(names)
        except api.NamespaceNotFoundError:
            if mode == "fail":
                raise
            return api.DropNamespaceResponse()
        self._manifest.remove(key_of(names), NAMESPACE, unless_contains=True)
        return api.DropNamespaceResponse()

    def list_namespaces(self, request: api.ListNamespacesRequest) -> api.ListNamespacesResponse:
        """Return the namespaces directly in one, in lexical order."""
        entries = self._manifest.entries()
        self._require_namespace(request.id, entries)
        ids = [key for key, entry in entries.items() if entry.kind == NAMESPACE]
        names, token = page(children(ids, prefix_of(request.id)), request)
        return api.ListNamespacesResponse(namespaces=names, page_token=token)

    def namespace_exists(self, request: api.NamespaceExistsRequest) -> api.NamespaceExistsResponse:
        """Raise NamespaceNotFoundError unless a namespace exists; the root always does."""
        self._require_namespace(request.id)
        return api.NamespaceExistsResponse()

    def list_tables(self, request: api.ListTablesRequest) -> api.ListTablesResponse:
        """Return the names of the tables of a namespace, in lexical order."""
        entries = self._manifest.entries()
        self._require_namespace(request.id, entries)
        found = children(self._registered(entries, request), prefix_of(request.id))
        names = {*found, *(() if request.id else self._listed(request))}
        shown, token = page(sorted(names), request)
        return api.ListTablesResponse(tables=shown, page_token=token)

    def list_all_tables(self, request: api.ListTablesRequest) -> api.ListTablesResponse:
        """Return the ids of all tables, with "$" between their names, in lexical order."""
        registered = self._registered(self._manifest.entries(), request)
        shown, token = page(sorted({*registered, *self._listed(request)}), request)
        return api.ListTablesResponse(tables=shown, page_token=token)

    def describe_table(self, request: api.DescribeTableRequest) -> api.DescribeTableResponse:
        """Return the location of a table and the options of its store.

        Its version, schema and statistics are returned with `load_detailed_metadata`.
        """
        *parents, name = names = id_of(request)
        found = self._found(names)
        has_versions, wanted, details = found.state.has_versions, _version(request), {}
        if wanted is not None or (request.load_detailed_metadata and has_versions):
            try:
                details = _details(self._folders.open(found.folder, wanted))
            except NotFoundError as error:
                raise api.TableVersionNotFoundError(str(error)) from error
        says_declared = request.check_declared or request.load_detailed_metadata
        return api.DescribeTableResponse(
            table=name,
            namespace=parents,
            location=self._folders.location(found.folder),
            table_uri=self._folders.uri(found.folder) if request.with_table_uri else None,
            storage_options=self._vended(request),
            is_only_declared=not has_versions if says_declared else None,
            properties=found.entry.properties(key_of(names)) if found.entry else None,
            managed_versioning=self._manages or None,
            **details,
        )

    def table_exists(self, request: api.TableExistsRequest) -> api.TableExistsResponse:
        """Raise TableNotFoundError unless a table is declared or exists."""
        self._found(id_of(request))
        return api.TableExistsResponse()

    def declare_table(self, request: api.DeclareTableRequest) -> api.DeclareTableResponse:
        """Reserve the name of a table for the caller, who is about to write it."""
        names = id_of(request)
        folder = self._new_folder(names)
        if request.location not in {None, folder, self._folders.location(folder)}:
            raise api.InvalidInputError(
                f"location: expected none, or {self._folders.location(folder)}, found "
                f"{request.location!r}"
            )
        if not self._folders.reserve(folder):
            raise self._taken(folder, self._folders.state(folder))
        try:
            self._add(names, folder, request.properties)
        except api.LanceNamespaceError:
            self._folders.drop(folder)
            raise
        return api.DeclareTableResponse(
            location=self._folders.location(folder),
            storage_options=self._vended(request),
            properties=request.properties,
            managed_versioning=self._manages or None,
        )

    def create_table(
        self, request: api.CreateTableRequest, request_data: bytes
    ) -> api.CreateTableResponse:
        """Write a table from an Arrow IPC stream.

        The mode is "create" (the default), "exist_ok" or "overwrite".
        """
        mode, reader = _mode(request, ("create", "existok", "overwrite")), stream_of(request_data)
        names = id_of(request)
        folder, is_new = self._written_folder(names, mode)
        location = self._folders.location(folder)
        given = request.storage_options or {}
        if "manifest_store" in map(str.lower, given):  # its files would be anywhere
            raise api.InvalidInputError("storage_options: manifest_store is none of a request")
        options = {**self._folders.options, **given}
        written_as = "overwrite" if mode == "overwrite" else "create"
        try:
            written = write_dataset(reader, location, mode=written_as, storage_options=options)
        except DatasetAlreadyExistsError as error:
            if mode == "create":
                raise self._taken(folder, self._folders.state(folder)) from error
            return api.CreateTableResponse(location=location)
        if is_new:
            try:
                self._add(names, folder, request.properties)
            except api.LanceNamespaceError:
                if mode != "overwrite":
                    self._folders.drop(folder)
                raise
        return api.CreateTableResponse(
            location=location, version=written.version, properties=request.properties
        )

    def register_table(self, request: api.RegisterTableRequest) -> api.RegisterTableResponse:
        """List a table that has a folder below the root, such as one that was deregistered."""
        names = id_of(request)
        own = names[0] + SUFFIX if len(names) == 1 and self._lists_folders else None
        folder = self._folders.folder(request.location)
        if not is_below(folder):
            raise api.InvalidInputError(
                f"location: expected a folder below {self._folders.root}, found "
                f"{request.location!r}"
            )
        self._require_unlisted(names)
        state = self._folders.state(folder)
        if not state.has_versions:
            raise api.TableNotFoundError(f"{self._folders.location(folder)}: there is no table")
        self._require_nameless(folder, state)
        self._add(names, folder, request.properties, is_required=folder != own)
        if folder == own:
            self._folders.register(folder)
        return api.RegisterTableResponse(location=folder, properties=request.properties)

    def deregister_table(self, request: api.DeregisterTableRequest) -> api.DeregisterTableResponse:
        """Stop listing a table, without deleting its files."""
        names = id_of(request)
        found = self._found(names)
        if found.folder.endswith(SUFFIX):  # it would be listed as a folder
            self._folders.deregister(found.folder)
        if found.entry is not None:
            self._manifest.remove(key_of(names), TABLE)
        location = self._folders.location(found.folder)
        return api.DeregisterTableResponse(id=request.id, location=location)

    def drop_table(self, request: api.DropTableRequest) -> api.DropTableResponse:
        """Delete a table and all of its files."""
        names = id_of(request)
        found = self._found(names)
        if found.entry is not None:
            self._manifest.remove(key_of(names), TABLE)
        self._folders.drop(found.folder)
        location = self._folders.location(found.folder)
        return api.DropTableResponse(id=request.id, location=location)

    def _table(self, request: Any, version: int | None = None) -> LanceDataset:
        folder = self._found(id_of(request)).folder
        branch = getattr(request, "branch", None)
        return self._folders.open(folder, version if branch is None else (branch, version))

    def _versions(self, request: Any) -> Versions:
        location = self._folders.location(self._found(id_of(request)).folder)
        return Versions(location, self._folders.options, request.branch)

    def _vended(self, request: Any) -> dict[str, str] | None:
        is_wanted = self._vends and request.vend_credentials is not False
        return self._folders.options if is_wanted and self._folders.options else None

    def _registered(self, entries: Mapping[str, Entry], request: Any) -> list[str]:
        """Return the ids of the tables of the manifest table."""
        tables = {key: entry for key, entry in entries.items() if entry.kind == TABLE}
        if request.include_declared is not False:
            return [*tables]
        folders = {key: within_root(entry.location, key) for key, entry in tables.items()}
        return [key for key, folder in folders.items() if self._folders.state(folder).has_versions]

    def _listed(self, request: Any) -> list[str]:
        """Return the names of the tables that have folders of their names."""
        if not self._lists_folders:
            return []
        return [*self._folders.listed(request.include_declared is not False)]

    def _require_namespace(
        self, names: list[str] | None, entries: Mapping[str, Entry] | None = None
    ) -> Entry | None:
        """Return the entry of a namespace, None for the root."""
        if not names:
            return None
        known = self._manifest.entries() if entries is None else entries
        entry = known.get(key_of(names))
        if entry is None or entry.kind != NAMESPACE:
            raise api.NamespaceNotFoundError(
                f"{self._folders.root}: there is no namespace {names}; create_namespace creates it"
            )
        return entry

    def _lookup(self, names: list[str]) -> _Found | None:
        """Return a table that is listed, None if there is no such table."""
        key = key_of(names)
        entry = self._manifest.entries().get(key)
        if entry is not None and entry.kind == TABLE:
            folder = within_root(entry.location, key)
            return _Found(folder, self._folders.state(folder), entry)
        if len(names) == 1 and self._lists_folders:
            folder = names[0] + SUFFIX
            state = self._folders.state(folder)
            if state.is_listed:
                return _Found(folder, state, None)
        return None

    def _found(self, names: list[str]) -> _Found:
        found = self._lookup(names)
        if found is None:
            raise api.TableNotFoundError(
                f"{self._folders.root}: there is no table {key_of(names)!r}"
            )
        return found

    def _require_unlisted(self, names: list[str]) -> None:
        self._require_namespace(names[:-1])
        found = self._lookup(names)
        if found is not None:
            raise self._taken(found.folder, found.state)

    def _require_nameless(self, folder: str, state: State) -> None:
        """Require that a folder is no table yet, so that dropping one does not drop another."""
        is_own = folder.endswith(SUFFIX) and "/" not in folder and self._lists_folders
        entries = self._manifest.entries().items()
        names = [key for key, entry in entries if entry.location == folder]
        if is_own and state.is_listed:
            names.append(folder.removesuffix(SUFFIX))
        if names:
            raise api.TableAlreadyExistsError(
                f"{self._folders.location(folder)} is the table {names[0]!r}; deregister that first"
            )

    def _new_folder(self, names: list[str]) -> str:
        """Return the folder of a table that is not listed and about to be."""
        self._require_unlisted(names)
        if len(names) > 1 or not self._lists_folders:
            folder = f"{uuid4().hex[:8]}_{key_of(names)}"
            if len(folder.encode()) > MAX_FOLDER_BYTES:
                raise api.InvalidInputError("id: the names together are too long for a folder")
            return folder
        folder = names[0] + SUFFIX
        state = self._folders.state(folder)
        if state.exists:
            raise self._taken(folder, state)
        return folder

    def _written_folder(self, names: list[str], mode: str) -> tuple[str, bool]:
        """Return the folder of a table to write, and whether it is to be listed afterwards."""
        found = self._lookup(names)
        if found is None:
            return self._new_folder(names), True
        if mode == "create" and found.state.has_versions:
            raise self._taken(found.folder, found.state)
        return found.folder, False

    def _add(
        self,
        names: list[str],
        folder: str,
        properties: Mapping[str, str] | None,
        is_required: bool = False,
    ) -> None:
        """Add a table to the manifest table, if that exists or something needs it."""
        is_own = len(names) == 1 and self._lists_folders and not is_required
        if not is_own or properties or self._manifest.exists():
            self._manifest.add(key_of(names), Entry.of(TABLE, folder, properties))

    def _taken(self, folder: str, state: State) -> Exception:
        what = "is deregistered, and its files are still there" if state.deregistered else "exists"
        found: Exception = api.TableAlreadyExistsError(f"{self._folders.location(folder)} {what}")
        return found


def _opened(properties: dict[str, Any]) -> DirectoryNamespace:
    return DirectoryNamespace(**properties)


def _is_on(properties: Mapping[str, str], name: str, default: str = "true") -> bool:
    value = properties.get(name, default).lower()
    if value not in {"true", "false"}:
        raise InvalidInputError(f"{name}: expected true or false, found {value!r}")
    return value == "true"


def _version(request: api.DescribeTableRequest) -> Reference | None:
    if request.tag is not None and (request.version, request.branch) != (None, None):
        raise api.InvalidInputError("tag: pass it without version and branch")
    if request.branch is not None:
        return request.branch, request.version
    version: Reference | None = request.version if request.tag is None else request.tag
    return version


def _details(table: LanceDataset) -> dict[str, Any]:
    manifest = table.snapshot.manifest
    physical = sum(fragment.physical_rows for fragment in manifest.fragments)
    return {
        "version": manifest.version,
        "schema": _schema(table),
        "stats": {
            "num_deleted_rows": physical - manifest.num_rows,
            "num_fragments": len(manifest.fragments),
        },
    }


def _schema(table: LanceDataset) -> dict[str, Any] | None:
    try:
        return schema_to_json(table.schema)
    except UnsupportedTypeError:  # a map, for which the protocol has no name
        return None


def _mode(request: Any, known: tuple[str, ...]) -> str:
    """Return the mode of a request, in lower case and without underscores."""
    mode: str = (request.mode or known[0]).lower().replace("_", "")
    if mode not in known:
        raise api.InvalidInputError(
            f"mode: expected {' or '.join(known).replace('existok', 'exist_ok')}, found "
            f"{request.mode!r}"
        )
    return mode
