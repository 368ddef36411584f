"""Namespaces: tables that are listed, described, created and dropped by name.

    root/
      orders.lance/                        the table "orders": a folder with a version, or with
        .lance-reserved                      a declaration, for a writer that is about to create it
        .lance-deregistered                  a mark by which it is not listed, though its files stay
      __manifest/                          optional: a table of further tables, see below

The manifest table is written by the reference. It lists tables that have other folders, and tables
of child namespaces. It has a row for each, with these columns among others:

    object_id      "orders", or "sales$orders" for the table "orders" of the namespace "sales"
    object_type    "table" or "namespace"
    location       the folder, relative to the root

Here its tables are listed, described and opened, but not changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from pilum.dataset.lance_dataset import LanceDataset, dataset, write_dataset
from pilum.dataset.namespaces import namespace_package
from pilum.errors import (
    DatasetAlreadyExistsError,
    DatasetNotFoundError,
    InvalidInputError,
    NotFoundError,
)
from pilum.schema import schema_to_json
from pilum.storage.base import prefetch
from pilum.storage.local import LocalStore
from pilum.storage.open import open_store
from pilum.table.read.session import Session
from pilum.table.refs.references import Reference

namespace_package()

import lance_namespace as api  # noqa: E402  # after the check that it is installed

__all__ = ["DirectoryNamespace"]

_RESERVED: Final = ".lance-reserved"
_DEREGISTERED: Final = ".lance-deregistered"
_MARK: Final = b"reserved"
"""The content of both marks."""
_SUFFIX: Final = ".lance"
_MANIFEST: Final = "__manifest"
_DELIMITER: Final = "$"
_INVALID_NAME: Final = re.compile(r"[/\\$\x00-\x1f\x7f]|^\.")
_STORAGE: Final = "storage."
_SWITCHES: Final = ("manifest_enabled", "vend_input_storage_options")


@dataclass(frozen=True)
class _State:
    """Contents of the folder of a table."""

    reserved: bool
    deregistered: bool
    has_versions: bool

    @property
    def is_listed(self) -> bool:
        return (self.reserved or self.has_versions) and not self.deregistered


class DirectoryNamespace(api.LanceNamespace):
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
                table is ignored. With `vend_input_storage_options="false"`, descriptions of tables
                do not contain the options of the object store.

        Raises:
            InvalidInputError: If a property is missing, unknown or invalid.
        """
        if context_provider is not None:
            raise InvalidInputError("context_provider: folders have no requests to pass it to")
        given = {name: str(value) for name, value in properties.items()}
        if not given.get("root"):
            raise InvalidInputError('DirectoryNamespace: pass the property "root", a path or URI')
        options = {name: value for name, value in given.items() if name.startswith(_STORAGE)}
        unknown = given.keys() - options.keys() - {"root", *_SWITCHES}
        if unknown:
            raise InvalidInputError(
                f"DirectoryNamespace: unknown properties {sorted(unknown)}; expected root, "
                f"{', '.join(_SWITCHES)} or {_STORAGE}*"
            )
        self._options = {name.removeprefix(_STORAGE): value for name, value in options.items()}
        self._reads_manifest, self._vends = (_is_on(given, name) for name in _SWITCHES)
        self._session = session
        self._store = open_store(given["root"], self._options)
        self._root = self._store.uri.rstrip("/")

    def namespace_id(self) -> str:
        """Return a text that identifies the folder."""
        return f'DirectoryNamespace {{ root: "{self._root}" }}'

    def __repr__(self) -> str:
        return f"DirectoryNamespace(root={self._root!r})"

    def list_namespaces(self, request: api.ListNamespacesRequest) -> api.ListNamespacesResponse:
        """Return the namespaces directly in one, which only a manifest table has."""
        prefix = _prefix(request.id)
        ids = [key for key, kind in self._registered() if kind == "namespace"]
        names, token = _page(_children(ids, prefix), request)
        return api.ListNamespacesResponse(namespaces=names, page_token=token)

    def namespace_exists(self, request: api.NamespaceExistsRequest) -> api.NamespaceExistsResponse:
        """Raise NamespaceNotFoundError unless a namespace exists; the root always does."""
        self._require_namespace(request.id)
        return api.NamespaceExistsResponse()

    def list_tables(self, request: api.ListTablesRequest) -> api.ListTablesResponse:
        """Return the names of the tables of a namespace, in lexical order."""
        self._require_namespace(request.id)
        prefix = _prefix(request.id)
        registered = [key for key, kind in self._registered() if kind == "table"]
        found = set(_children(registered, prefix))
        if not prefix:
            found.update(self._listed(request.include_declared is not False))
        names, token = _page(sorted(found), request)
        return api.ListTablesResponse(tables=names, page_token=token)

    def describe_table(self, request: api.DescribeTableRequest) -> api.DescribeTableResponse:
        """Return the location of a table and the options of its store.

        Its version, schema and statistics are returned with `load_detailed_metadata`.
        """
        *parents, name = _id_of(request)
        folder, state = self._found(request)
        location, wanted, details = self._location(folder), _version(request), {}
        if wanted is not None or (request.load_detailed_metadata and state.has_versions):
            try:
                details = _details(self._open(folder, wanted))
            except NotFoundError as error:
                raise api.TableVersionNotFoundError(str(error)) from error
        says_declared = request.check_declared or request.load_detailed_metadata
        return api.DescribeTableResponse(
            table=name,
            namespace=parents,
            location=location,
            table_uri=_uri(location) if request.with_table_uri else None,
            storage_options=self._vended(request),
            is_only_declared=not state.has_versions if says_declared else None,
            **details,
        )

    def table_exists(self, request: api.TableExistsRequest) -> api.TableExistsResponse:
        """Raise TableNotFoundError unless a table is declared or exists."""
        self._found(request)
        return api.TableExistsResponse()

    def declare_table(self, request: api.DeclareTableRequest) -> api.DeclareTableResponse:
        """Reserve the name of a table for the caller, who is about to write it."""
        folder = self._new(request)
        if not self._store.put_if_absent(f"{folder}/{_RESERVED}", _MARK):
            raise api.TableAlreadyExistsError(f"{self._location(folder)} is declared already")
        return api.DeclareTableResponse(
            location=self._location(folder), storage_options=self._vended(request)
        )

    def create_table(
        self, request: api.CreateTableRequest, request_data: bytes
    ) -> api.CreateTableResponse:
        """Write a table from an Arrow IPC stream.

        The mode is "create" (the default), "exist_ok" or "overwrite".
        """
        mode, reader = _creation_mode(request), _stream(request_data)
        _refuse_properties(request)
        _, folder = self._own_folder(request)
        state = self._state(folder)
        if state.deregistered or (state.is_listed and mode == "create"):
            raise self._exists(folder, state)
        if mode == "existok" and state.has_versions:
            return api.CreateTableResponse(location=self._location(folder))
        options = {**self._options, **(request.storage_options or {})}
        written_as = "overwrite" if mode == "overwrite" else "create"
        try:
            written = write_dataset(
                reader, self._location(folder), mode=written_as, storage_options=options
            )
        except DatasetAlreadyExistsError as error:
            if mode == "create":
                raise self._exists(folder, state) from error
            return api.CreateTableResponse(location=self._location(folder))
        return api.CreateTableResponse(location=self._location(folder), version=written.version)

    def register_table(self, request: api.RegisterTableRequest) -> api.RegisterTableResponse:
        """List a table again that was deregistered; its folder has to be that of its name."""
        _refuse_properties(request)
        name, folder = self._own_folder(request)
        if request.location.rstrip("/") not in {folder, self._location(folder)}:
            raise api.UnsupportedOperationError(
                f"table {name}: its folder has to be {folder}, found {request.location!r}"
            )
        state = self._state(folder)
        if state.is_listed:
            raise self._exists(folder, state)
        if not state.has_versions:
            raise api.TableNotFoundError(f"{self._location(folder)}: there is no table")
        self._store.delete(f"{folder}/{_DEREGISTERED}")
        return api.RegisterTableResponse(location=folder)

    def deregister_table(self, request: api.DeregisterTableRequest) -> api.DeregisterTableResponse:
        """Stop listing a table, without deleting its files."""
        folder = self._own(request)
        self._store.put(f"{folder}/{_DEREGISTERED}", _MARK)
        return api.DeregisterTableResponse(id=request.id, location=self._location(folder))

    def drop_table(self, request: api.DropTableRequest) -> api.DropTableResponse:
        """Delete a table and all of its files."""
        folder = self._own(request)
        location = self._location(folder)
        if self._state(folder).has_versions:
            LanceDataset.drop(location, self._options)
        else:
            self._store.delete(f"{folder}/{_RESERVED}")
            if isinstance(self._store, LocalStore):  # only file systems have empty folders
                with suppress(OSError):
                    os.rmdir(location)
        return api.DropTableResponse(id=request.id, location=location)

    def _vended(self, request: Any) -> dict[str, str] | None:
        is_wanted = self._vends and request.vend_credentials is not False
        return self._options if is_wanted and self._options else None

    def _location(self, folder: str) -> str:
        return f"{self._root}/{folder}"

    def _open(self, folder: str, version: Any = None) -> LanceDataset:
        return dataset(
            self._location(folder),
            version,
            storage_options=self._options,
            session=self._session,
        )

    def _state(self, folder: str) -> _State:
        marks = {entry.name for entry in self._store.list(folder)}
        versions = next(iter(self._store.names(f"{folder}/_versions")), None)
        return _State(_RESERVED in marks, _DEREGISTERED in marks, versions is not None)

    def _listed(self, include_declared: bool) -> Iterator[str]:
        """Yield the names of the tables that have folders of their names."""
        folders = [name for name in self._store.folders("") if name.endswith(_SUFFIX)]
        tasks = [partial(self._state, folder) for folder in folders]
        for folder, state in zip(folders, prefetch(self._store, tasks), strict=True):
            name = folder.removesuffix(_SUFFIX)
            is_wanted = state.has_versions or include_declared
            if state.is_listed and is_wanted and not _INVALID_NAME.search(name) and name:
                yield name

    def _registered(self) -> dict[tuple[str, str], str | None]:
        """Return the folders of the manifest table, by the ids and types of the objects."""
        if not self._reads_manifest:
            return {}
        try:
            table = self._open(_MANIFEST)
        except DatasetNotFoundError:
            return {}
        rows = table.to_table(columns=["object_id", "object_type", "location"])
        ids, kinds, locations = (column.to_pylist() for column in rows.columns)
        return dict(zip(zip(ids, kinds, strict=True), locations, strict=True))

    def _require_namespace(self, names: list[str] | None) -> None:
        if names and (_DELIMITER.join(names), "namespace") not in self._registered():
            raise api.NamespaceNotFoundError(f"{self._root}: there is no namespace {names}")

    def _found(self, request: Any) -> tuple[str, _State]:
        """Return the folder of a table that is listed, and what it contains."""
        names = _id_of(request)
        key = (_DELIMITER.join(names), "table")
        registered = self._registered()
        if key in registered:
            folder = _within_root(registered[key], key[0])
            return folder, self._state(folder)
        if len(names) == 1:
            folder = names[0] + _SUFFIX
            state = self._state(folder)
            if state.is_listed:
                return folder, state
        raise api.TableNotFoundError(f"{self._root}: there is no table {_DELIMITER.join(names)!r}")

    def _own_folder(self, request: Any) -> tuple[str, str]:
        """Return the name and the folder of a table that no manifest table lists.

        Raises:
            TableAlreadyExistsError: If a new table is requested and a manifest table lists it.
        """
        names = _id_of(request)
        if len(names) > 1:
            raise api.UnsupportedOperationError(
                f"table {names}: tables of child namespaces cannot be changed here; pass one name"
            )
        if (names[0], "table") in self._registered():
            if _is_for_new(request):
                raise api.TableAlreadyExistsError(f"{self._root}: {names[0]!r} exists")
            raise api.UnsupportedOperationError(
                f"table {names[0]!r} is listed by the manifest table of {self._root}, which is "
                "only read here"
            )
        return names[0], names[0] + _SUFFIX

    def _own(self, request: Any) -> str:
        """Return the folder of a table that is listed, and that no manifest table lists."""
        name, folder = self._own_folder(request)
        if not self._state(folder).is_listed:
            raise api.TableNotFoundError(f"{self._root}: there is no table {name!r}")
        return folder

    def _new(self, request: api.DeclareTableRequest) -> str:
        """Return the folder of a table that is neither declared nor exists."""
        _refuse_properties(request)
        _, folder = self._own_folder(request)
        if request.location not in {None, folder, self._location(folder)}:
            raise api.InvalidInputError(
                f"location: expected {self._location(folder)}, found {request.location!r}"
            )
        state = self._state(folder)
        if state.reserved or state.has_versions:
            raise self._exists(folder, state)
        return folder

    def _exists(self, folder: str, state: _State) -> Exception:
        what = "is deregistered, and its files are still there" if state.deregistered else "exists"
        found: Exception = api.TableAlreadyExistsError(f"{self._location(folder)} {what}")
        return found


def _is_on(properties: Mapping[str, str], name: str) -> bool:
    value = properties.get(name, "true").lower()
    if value not in {"true", "false"}:
        raise InvalidInputError(f"{name}: expected true or false, found {value!r}")
    return value == "true"


def _id_of(request: Any) -> list[str]:
    """Return the names in the id of a table: of its namespaces, and its own."""
    names: list[str] = list(request.id or ())
    if not names:
        raise api.InvalidInputError('id: expected names such as ["my_table"], found none')
    for name in names:
        if not name or _INVALID_NAME.search(name):
            raise api.InvalidInputError(
                f"id: {name!r} is no name of a table here; names are not empty, do not begin with "
                "a dot, and contain no slash, backslash, dollar or control character"
            )
    return names


def _prefix(names: list[str] | None) -> str:
    return "".join(f"{name}{_DELIMITER}" for name in names or ())


def _children(ids: Iterable[str], prefix: str) -> list[str]:
    """Return the names of the objects directly in a namespace, in lexical order."""
    names = (one.removeprefix(prefix) for one in ids if one.startswith(prefix))
    return sorted(name for name in names if name and _DELIMITER not in name)


def _page(names: list[str], request: Any) -> tuple[list[str], str | None]:
    """Return the names after the token of a request, and the token of the next page."""
    if request.limit is not None and request.limit < 1:
        raise api.InvalidInputError(f"limit: expected at least 1, found {request.limit}")
    if request.page_token:
        names = [name for name in names if name > request.page_token]
    page = names[: request.limit]
    return page, page[-1] if len(page) < len(names) else None


def _within_root(location: str | None, table: str) -> str:
    """Return the folder of a table of the manifest table, which anyone may have written."""
    parts = (location or "").strip("/").split("/")
    if not location or location.startswith("/") or "://" in location or {"", ".."} & {*parts}:
        raise api.InvalidTableStateError(
            f"table {table!r}: the manifest table has the location {location!r}, which is no "
            "folder below the root"
        )
    return location.rstrip("/")


def _uri(location: str) -> str:
    return Path(location).as_uri() if location.startswith("/") else location


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
        "schema": schema_to_json(table.schema),
        "stats": {
            "num_deleted_rows": physical - manifest.num_rows,
            "num_fragments": len(manifest.fragments),
        },
    }


def _is_for_new(request: Any) -> bool:
    if isinstance(request, api.CreateTableRequest):
        return _creation_mode(request) == "create"
    return isinstance(request, api.DeclareTableRequest)


def _creation_mode(request: api.CreateTableRequest) -> str:
    mode: str = (request.mode or "create").lower().replace("_", "")
    if mode not in {"create", "existok", "overwrite"}:
        raise api.InvalidInputError(
            f"mode: expected create, exist_ok or overwrite, found {request.mode!r}"
        )
    return mode


def _refuse_properties(request: Any) -> None:
    if request.properties:
        raise api.UnsupportedOperationError("properties: a folder has no place for them")


def _stream(data: bytes) -> pa.RecordBatchReader:
    try:
        return pa.ipc.open_stream(data)
    except pa.ArrowInvalid as error:
        raise api.InvalidInputError(f"request_data: no Arrow IPC stream: {error}") from error
