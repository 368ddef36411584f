"""Versions of the tables of a folder, for writers that have them managed by the namespace.

_versions/…612.manifest-{uuid}   written by the client, which then requests the version
_versions/…612.manifest          the version: a copy that is created unless it exists
"""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import Any

from pilum.dataset.managed_versions import attributes_of, path_in_bucket
from pilum.errors import CorruptFileError, NotFoundError
from pilum.storage.base import Entry, Store
from pilum.table.model.manifest_file import listed_manifests, load_manifest
from pilum.table.model.names import VERSIONS_FOLDER, ManifestName, NamingScheme, branch_folder
from pilum.table.versions.commit_handler import open_table

import lance_namespace as api  # isort: skip  # managed_versions.py loads it as well

__all__ = ["VersionOperations", "Versions"]

_BRANCH_PART = re.compile(r"(?!\.)[\w.-]+")
_TOKEN = re.compile(r"[0-9]{1,20}")
_LATEST = -1
"""The end of a range that includes the latest version."""


class Versions:
    """The versions of one line of a table: of its main branch, or of another one."""

    def __init__(self, location: str, options: dict[str, str], branch: str | None) -> None:
        """Open the folder of the line. Nothing is read yet.

        Args:
            location: Location of the table.
            options: Options of its store.
            branch: Name of a branch; None for the main branch.

        Raises:
            InvalidInputError: If the branch has no name, such as one that leads out of the table.
        """
        if branch and not all(map(_BRANCH_PART.fullmatch, branch.split("/"))):
            raise api.InvalidInputError(f"branch: {branch!r} is no name of a branch")
        line = f"{location}/{branch_folder(branch)}" if branch else location
        self._store: Store = open_table(line, options)
        self._root = path_in_bucket(self._store.uri)

    def listed(self, request: api.ListTableVersionsRequest) -> api.ListTableVersionsResponse:
        """Return the versions in ascending order, or in descending order on request."""
        names = listed_manifests(self._store)
        if request.descending:
            names.reverse()
        if request.page_token:
            names = _after(names, request.page_token, bool(request.descending))
        limit = request.limit
        if limit is not None and limit < 1:
            raise api.InvalidInputError(f"limit: expected at least 1, found {limit}")
        shown = names[:limit]
        token = str(shown[-1].version) if len(shown) < len(names) else None
        return api.ListTableVersionsResponse(versions=self._described(shown), page_token=token)

    def describe(self, version: int | None) -> api.DescribeTableVersionResponse:
        """Return one version; the latest if None."""
        names = listed_manifests(self._store)
        found = [name for name in names if version in {None, name.version}]
        if not found:
            raise api.TableVersionNotFoundError(f"{self._store.uri} has no version {version}")
        return api.DescribeTableVersionResponse(version=self._described(found[-1:])[0])

    def create(self, request: Any) -> api.CreateTableVersionResponse:
        """Make a manifest the version that follows the latest one, and delete its first copy.

        Raises:
            ConcurrentModificationError: If the version exists, or is not the next one.
            InvalidInputError: If the manifest is not in the folder of versions, does not exist, or
                is not that of the version.
        """
        scheme = _scheme(request.naming_scheme)
        name = scheme.manifest_name(request.version)
        folder = f"{self._root}/{VERSIONS_FOLDER}/"
        staged = request.manifest_path.lstrip("/")
        if not staged.startswith(folder) or "/" in staged.removeprefix(folder):
            raise api.InvalidInputError(
                f"manifest_path: expected a file in {folder}, found {request.manifest_path!r}"
            )
        staged = f"{VERSIONS_FOLDER}/{staged.removeprefix(folder)}"
        known = listed_manifests(self._store)
        latest = known[-1].version if known else 0
        if request.version != latest + 1 and (known or not request.branch):
            raise api.ConcurrentModificationError(
                f"{self._store.uri}: version {request.version} does not follow the latest one, "
                f"{latest}"
            )
        try:
            load_manifest(self._store, staged, request.version)
            data = self._store.read(staged)
        except (NotFoundError, CorruptFileError) as error:
            raise api.InvalidInputError(f"manifest_path: {error}") from error
        if request.manifest_size not in {None, len(data)}:
            raise api.InvalidInputError(
                f"manifest_size: expected {len(data)}, that of {staged}, found "
                f"{request.manifest_size}"
            )
        if not self._store.put_if_absent(name.path, data):
            raise api.ConcurrentModificationError(
                f"{self._store.uri} has a version {request.version} already"
            )
        if staged != name.path:
            self._store.delete(staged)
        return api.CreateTableVersionResponse(version=self._described([name])[0])

    def delete(self, request: Any) -> api.BatchDeleteTableVersionsResponse:
        """Delete the manifests of ranges of versions, without the files that only they need.

        Raises:
            InvalidInputError: If the latest version is in a range; then none is deleted.
        """
        names = listed_manifests(self._store)
        latest = names[-1].version if names else 0
        ranges = [_bounds(one, latest) for one in request.ranges]
        found = [name for name in names if any(a <= name.version < b for a, b in ranges)]
        if any(name.version == latest for name in found):
            raise api.InvalidInputError(
                f"ranges: version {latest} is the latest one of {self._store.uri}; drop the table "
                "to delete it"
            )
        for name in found:
            self._store.delete(name.path)
        return api.BatchDeleteTableVersionsResponse(deleted_count=len(found))

    def _described(self, names: list[ManifestName]) -> list[api.TableVersion]:
        entries = {entry.name: entry for entry in self._store.list(VERSIONS_FOLDER)}
        found = []
        for name in names:
            entry = entries.get(name.path.removeprefix(f"{VERSIONS_FOLDER}/"))
            found.append(
                api.TableVersion(
                    version=name.version,
                    manifest_path=f"{self._root}/{name.path}",
                    manifest_size=entry.size if entry else None,
                    timestamp_millis=_millis(entry),
                )
            )
        return found


def _after(names: list[ManifestName], token: str, descending: bool) -> list[ManifestName]:
    """Return the names after a version, which may have been deleted since."""
    if _TOKEN.fullmatch(token) is None:
        raise api.InvalidInputError(f"page_token: expected one of a page, found {token!r}")
    last = int(token)
    return [name for name in names if (name.version < last if descending else name.version > last)]


def _millis(entry: Entry | None) -> int | None:
    return None if entry is None or entry.modified is None else int(entry.modified * 1000)


def _bounds(given: Any, latest: int) -> tuple[int, int]:
    """Return the first version of a range, and the one after its last."""
    names = ("start_version", "end_version")
    if isinstance(given, dict):
        start, end = (given[name] for name in names)
    else:
        start, end = (getattr(given, name) for name in names)
    return start, latest + 1 if end == _LATEST else end


def _scheme(name: str | None) -> NamingScheme:
    if name not in {None, *NamingScheme.__members__}:
        raise api.InvalidInputError(f"naming_scheme: expected V1 or V2, found {name!r}")
    return NamingScheme[name or "V2"]


class VersionOperations(api.LanceNamespace):
    """The operations of namespaces on versions, for a namespace that opens the lines of tables."""

    @abstractmethod
    def _versions(self, request: Any) -> Versions:
        """Open the line of a request."""

    def list_table_versions(
        self, request: api.ListTableVersionsRequest
    ) -> api.ListTableVersionsResponse:
        """Return the versions of a table or of one of its branches."""
        request = attributes_of(request)
        return self._versions(request).listed(request)

    def describe_table_version(
        self, request: api.DescribeTableVersionRequest
    ) -> api.DescribeTableVersionResponse:
        """Return where the manifest of a version is; of the latest version if none is given."""
        request = attributes_of(request)
        return self._versions(request).describe(request.version)

    def create_table_version(
        self, request: api.CreateTableVersionRequest
    ) -> api.CreateTableVersionResponse:
        """Make a manifest that the caller has written the next version of a table."""
        request = attributes_of(request)
        return self._versions(request).create(request)

    def batch_delete_table_versions(
        self, request: api.BatchDeleteTableVersionsRequest
    ) -> api.BatchDeleteTableVersionsResponse:
        """Delete the manifests of versions, whose data files `cleanup_old_versions` deletes."""
        request = attributes_of(request)
        return self._versions(request).delete(request)
