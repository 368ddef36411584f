"""Find the table that a namespace lists by an id: where it is, and with which options it opens.

namespace_client, table_id ──describe_table or declare_table──▶ location, storage options
                                                                ▲                  │
                                                                └── describe_table ┘
                                                                 when credentials expire
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar, overload

from pilum.dataset.managed_versions import ManagedVersions
from pilum.errors import InvalidInputError
from pilum.storage.open import Location
from pilum.storage.vended import (
    described,
    method_of,
    names_of,
    namespace_package,
    require_together,
    with_vended,
)
from pilum.table.versions.commit_handler import CommitHandler, CommitLock, open_table

__all__ = ["Expected", "Located", "located", "located_at", "only_handler"]


class Expected(Enum):
    """Expected state of the id of a table."""

    LISTED = "the namespace lists it"
    NEW = "the namespace does not list it, and is to declare it"
    EITHER = "it is declared unless the namespace lists it"


_L = TypeVar("_L", covariant=True)
_U = TypeVar("_U")


class Located(NamedTuple, Generic[_L]):
    """The location of a table, and how it is opened.

    Attributes:
        location: Its location, or a dataset.
        storage_options: Options of its store.
        commit_handler: Decides about its versions, if its namespace does.
    """

    location: _L
    storage_options: Mapping[str, str] | None
    commit_handler: CommitHandler | None = None


@overload
def located(
    uri: Location | None,
    storage_options: Mapping[str, str] | None,
    namespace_client: Any,
    table_id: Sequence[str] | None,
    expected: Expected = ...,
) -> Located[Location]: ...


@overload
def located(
    uri: _U | Location | None,
    storage_options: Mapping[str, str] | None,
    namespace_client: Any,
    table_id: Sequence[str] | None,
    expected: Expected = ...,
) -> Located[_U | Location]: ...


def located(
    uri: _U | Location | None,
    storage_options: Mapping[str, str] | None,
    namespace_client: Any,
    table_id: Sequence[str] | None,
    expected: Expected = Expected.LISTED,
) -> Located[_U | Location]:
    """Return the location and the storage options of a table, and who decides about its versions.

    The table is named by its location, by a dataset, or by its id in a namespace. Storage options
    of the namespace take precedence over those that are passed, as in the reference. Errors of the
    namespace are passed on.

    Raises:
        InvalidInputError: If neither or both are passed, or the namespace returns no location.
        MissingDependencyError: If a namespace is passed and lance-namespace is not installed.
    """
    if namespace_client is not None or table_id is not None or uri is None:
        _require_one(uri, namespace_client, table_id)
    if uri is not None:
        return Located(uri, storage_options)
    names = names_of(table_id)
    answer = _ask(namespace_client, names, expected)
    if not answer.location:
        raise InvalidInputError(f"table {names}: the namespace returned no location for it")
    options = with_vended(storage_options, answer, namespace_client, names)
    if not getattr(answer, "managed_versioning", None):
        return Located(answer.location, options)
    root = open_table(answer.location, options).uri
    return Located(answer.location, options, ManagedVersions(namespace_client, tuple(names), root))


def located_at(
    uri: _U,
    storage_options: Mapping[str, str] | None,
    namespace_client: Any,
    table_id: Sequence[str] | None,
) -> Located[_U]:
    """Return how a table is opened whose location is known, as its namespace describes it.

    Raises:
        InvalidInputError: If only one of namespace and id is passed.
    """
    if namespace_client is None and table_id is None:
        return Located(uri, storage_options)
    found = located(None, storage_options, namespace_client, table_id)
    return Located(uri, found.storage_options, found.commit_handler)


def only_handler(
    of_namespace: CommitHandler | None,
    given: CommitHandler | None,
    lock: CommitLock | None,
) -> CommitHandler | None:
    """Return the commit handler of a namespace, or else the given one.

    Raises:
        InvalidInputError: If the namespace manages versions, and a handler or lock is given too.
    """
    if of_namespace is None:
        return given
    if lock is not None or given not in (None, of_namespace):
        raise InvalidInputError(
            "the namespace manages the versions of this table: omit commit_lock and commit_handler"
        )
    return of_namespace


def _require_one(uri: object, namespace_client: object, table_id: object) -> None:
    given = [namespace_client is not None, table_id is not None]
    if (uri is not None) == any(given):
        found = "both" if any(given) else "neither"
        raise InvalidInputError(
            f"pass uri, or namespace_client together with table_id; found {found}"
        )
    require_together(namespace_client, table_id)


def _ask(namespace_client: Any, names: list[str], expected: Expected) -> Any:
    package = namespace_package()
    if expected is not Expected.LISTED:
        declare = method_of(namespace_client, "declare_table")
        try:
            return declare(package.DeclareTableRequest(id=names))
        except package.TableAlreadyExistsError:
            if expected is Expected.NEW:
                raise
    return described(namespace_client, names)
