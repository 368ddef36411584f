"""Versions that a namespace manages: it decides which manifest becomes a version.

    1  put       _versions/…612.manifest-{uuid}                     the manifest, under its own name
    2  request   create_table_version(3, manifest_path=that name)   this commits the version

In step 2, the namespace refuses a version that exists. It may move the manifest to its final name;
otherwise readers find it by the path that the namespace returns. Paths of manifests are those in
the bucket, or of the file system, without a slash at the beginning; a branch has its own versions.
Source: the specification of table versions in lance-namespace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote
from uuid import uuid4

from pilum.errors import (
    CommitError,
    CorruptFileError,
    UnsupportedFeatureError,
)
from pilum.storage.base import Store, write_object
from pilum.storage.vended import namespace_package
from pilum.table.model.names import VERSIONS_FOLDER, ManifestName, final_name

__all__ = [
    "ManagedVersions",
    "Request",
    "attributes_of",
    "path_in_bucket",
]

_BUCKET: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*")
_BRANCHES: Final = "/tree/"


class Request(dict[str, Any]):
    """A request whose fields are items and attributes: namespaces read the one or the other."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name)

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """Return the fields, as the models of lance-namespace do."""
        return dict(self)


def attributes_of(request: Any) -> Any:
    """Return a request with attributes: the reference passes some as mere dicts."""
    return Request(request) if isinstance(request, dict) else request


@dataclass(frozen=True)
class ManagedVersions:
    """The commit handler of a table whose versions its namespace manages.

    Attributes:
        client: The namespace.
        table_id: The id of the table.
        root: Location of the store of the table.
    """

    client: Any = field(compare=False)
    table_id: tuple[str, ...]
    root: str

    def publish(self, store: Store, name: ManifestName, data: bytes) -> bool:
        """Write the manifest under a name of its own, and have the namespace make it the version.

        Raises:
            CommitError: If the namespace refused it for another reason than that it exists.
            OSError: If it is unknown whether the namespace did it.
        """
        staged = f"{name.path}-{uuid4()}"
        write_object(store, staged, data)
        package = namespace_package()
        try:
            self._request(
                "create_table_version",
                store,
                version=name.version,
                manifest_path=f"{path_in_bucket(store.uri)}/{staged}",
                manifest_size=len(data),
                naming_scheme=name.scheme.name,
            )
        except package.ConcurrentModificationError:
            with suppress(OSError):  # a request that a proxy repeated finds its own version
                if self.settle(store, name.version) != staged:
                    store.delete(staged)
            return False
        except (package.ServiceUnavailableError, package.InternalError) as error:
            raise OSError(self._text(store, error)) from error
        except package.LanceNamespaceError as error:
            with suppress(OSError):
                store.delete(staged)
            raise CommitError(self._text(store, error)) from error
        return True

    def _names(self, store: Store, since: int) -> Iterator[ManifestName]:
        """Yield the versions from the newest to the first before `since`."""
        token: str | None = None
        while True:
            page = self._list(store, page_token=token)
            versions = _get(page, "versions") or []
            found = sorted((_name_of(store, one) for one in versions), reverse=True)
            yield from found
            token = _get(page, "page_token")
            if not token or not found or found[-1].version < since:
                return

    def names(self, store: Store, since: int = 0) -> list[ManifestName]:
        """Return the versions that the namespace lists, oldest first."""
        return sorted(self._names(store, since))

    def latest(self, store: Store) -> ManifestName | None:
        """Return the newest version that the namespace lists, None without any."""
        versions = _get(self._list(store, limit=1), "versions") or []
        return max((_name_of(store, one) for one in versions), default=None)

    def settle(self, store: Store, version: int) -> str | None:
        """Return the path of the manifest that the namespace has for a version, None without."""
        package = namespace_package()
        try:
            answer = self._request("describe_table_version", store, version=version)
        except (package.TableVersionNotFoundError, package.TableNotFoundError):
            return None
        except package.LanceNamespaceError as error:
            raise OSError(self._text(store, error)) from error
        return _name_of(store, _get(answer, "version")).path

    def forget(self, store: Store, versions: Sequence[int]) -> None:
        """Have the namespace remove versions from its list.

        Raises:
            UnsupportedFeatureError: If the namespace cannot do that.
            OSError: If it failed.
        """
        package = namespace_package()
        ranges = [{"start_version": first, "end_version": end} for first, end in _runs(versions)]
        try:
            self._request("batch_delete_table_versions", store, ranges=ranges)
        except package.UnsupportedOperationError as error:
            raise UnsupportedFeatureError(self._text(store, error)) from error
        except package.LanceNamespaceError as error:
            raise OSError(self._text(store, error)) from error

    def _list(self, store: Store, **fields: Any) -> Any:
        package = namespace_package()
        try:
            return self._request("list_table_versions", store, descending=True, **fields)
        except (package.TableNotFoundError, package.TableBranchNotFoundError):
            return {}  # of a branch that is about to be created
        except package.LanceNamespaceError as error:
            raise OSError(self._text(store, error)) from error

    def _request(self, method: str, store: Store, **fields: Any) -> Any:
        branch = store.uri.removeprefix(self.root + _BRANCHES)
        if branch != store.uri:
            fields["branch"] = branch
        given = {name: value for name, value in fields.items() if value is not None}
        return getattr(self.client, method)(Request(id=list(self.table_id), **given))

    def _text(self, store: Store, error: Exception) -> str:
        return f"{store.uri}: the namespace of table {list(self.table_id)} failed: {error}"


def path_in_bucket(uri: str) -> str:
    """Return a location without its scheme and bucket, and without a slash at the beginning."""
    plain = _BUCKET.sub("", uri)
    return (plain if plain == uri else unquote(plain)).strip("/")


def _get(answer: Any, field: str) -> Any:
    """Return a field of an answer, which is a model or, from the reference, a dict."""
    return answer.get(field) if isinstance(answer, dict) else getattr(answer, field, None)


def _name_of(store: Store, version: Any) -> ManifestName:
    """Return the manifest of a version, from what the namespace returned.

    Raises:
        CorruptFileError: If its path is not that of a manifest of this version.
    """
    number, path = _get(version, "version"), str(_get(version, "manifest_path"))
    name = path.rpartition(f"{VERSIONS_FOLDER}/")[2]
    final = ManifestName.parse(final_name(name) or name)
    if final is None or final.version != number:
        raise CorruptFileError(
            f"the namespace has the manifest {path!r} for version {number!r}", store.uri
        )
    return ManifestName(final.version, f"{VERSIONS_FOLDER}/{name}", final.scheme)


def _runs(versions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of ascending numbers: the first, and the one after the last."""
    first = None
    for number, following in zip(versions, [*versions[1:], None], strict=True):
        first = number if first is None else first
        if following != number + 1:
            yield first, number + 1
            first = None
