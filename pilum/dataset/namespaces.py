"""Find the table that a namespace lists by an id: where it is, and with which options it opens.

    namespace_client, table_id ──describe_table or declare_table──▶ location, storage options
                                                                    ▲                  │
                                                                    └── describe_table ┘
                                                                     when credentials expire

A namespace is any object with these methods of `lance_namespace.LanceNamespace`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType
from typing import Any, overload

from pilum.dataset.base import DatasetBase
from pilum.errors import InvalidInputError, MissingDependencyError, UnsupportedFeatureError
from pilum.storage.open import Location
from pilum.storage.renewable import EXPIRES_AT, Renewable

__all__ = ["Expected", "located", "namespace_package"]


class Expected(Enum):
    """Expected state of the id of a table."""

    LISTED = "the namespace lists it"
    NEW = "the namespace does not list it, and is to declare it"
    EITHER = "it is declared unless the namespace lists it"


@overload
def located(
    uri: Location | None,
    storage_options: Mapping[str, str] | None,
    namespace_client: Any,
    table_id: Sequence[str] | None,
    expected: Expected = ...,
) -> tuple[Location, Mapping[str, str] | None]: ...


@overload
def located(
    uri: Location | DatasetBase | None,
    storage_options: Mapping[str, str] | None,
    namespace_client: Any,
    table_id: Sequence[str] | None,
    expected: Expected = ...,
) -> tuple[Location | DatasetBase, Mapping[str, str] | None]: ...


def located(
    uri: Location | DatasetBase | None,
    storage_options: Mapping[str, str] | None,
    namespace_client: Any,
    table_id: Sequence[str] | None,
    expected: Expected = Expected.LISTED,
) -> tuple[Location | DatasetBase, Mapping[str, str] | None]:
    """Return the location and the storage options of a table.

    The table is named by its location, by a dataset, or by its id in a namespace. Storage options
    of the namespace take precedence over those that are passed, as in the reference. Errors of the
    namespace are passed on.

    Raises:
        InvalidInputError: If neither or both are passed, or the namespace returns no location.
        MissingDependencyError: If a namespace is passed and lance-namespace is not installed.
        UnsupportedFeatureError: If the namespace manages the versions of the table itself.
    """
    if namespace_client is not None or table_id is not None or uri is None:
        _require_one(uri, namespace_client, table_id)
    if uri is not None:
        return uri, storage_options
    names = _names(table_id)
    answer = _ask(namespace_client, names, expected)
    if not answer.location:
        raise InvalidInputError(f"table {names}: the namespace returned no location for it")
    if getattr(answer, "managed_versioning", None):
        raise UnsupportedFeatureError(
            f"table {names}: its namespace manages its versions itself, which is not supported; "
            f"its files are at {answer.location}"
        )
    if not answer.storage_options:
        return answer.location, storage_options
    vended = dict(answer.storage_options)
    if (expiry := vended.get(EXPIRES_AT)) is not None:
        vended[EXPIRES_AT] = Renewable(str(expiry), _Renewal(namespace_client, tuple(names)))
    return answer.location, {**(storage_options or {}), **vended}


@dataclass(frozen=True)
class _Renewal:
    """Returns the current storage options of a table, as its namespace describes it."""

    client: Any = field(compare=False)
    names: tuple[str, ...]
    client_number: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "client_number", id(self.client))

    def __reduce__(self) -> tuple[Any, ...]:
        return _Renewal, (self.client, self.names)

    def __call__(self) -> Mapping[str, str]:
        answer = _ask(self.client, list(self.names), Expected.LISTED)
        return answer.storage_options or {}


def namespace_package() -> ModuleType:
    """Import lance_namespace, which takes long and is optional."""
    try:
        import lance_namespace
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "namespaces need lance-namespace: pip install lance-namespace"
        ) from error
    return lance_namespace


def _require_one(uri: object, namespace_client: object, table_id: object) -> None:
    given = [namespace_client is not None, table_id is not None]
    if (uri is not None) == any(given):
        found = "both" if any(given) else "neither"
        raise InvalidInputError(
            f"pass uri, or namespace_client together with table_id; found {found}"
        )
    if any(given) and not all(given):
        missing = "table_id" if given[0] else "namespace_client"
        raise InvalidInputError(f"pass namespace_client and table_id together: {missing} is None")


def _names(table_id: Any) -> list[str]:
    is_list = isinstance(table_id, Sequence) and not isinstance(table_id, str | bytes)
    if not is_list or not table_id or not all(isinstance(name, str) for name in table_id):
        raise InvalidInputError(
            f'table_id: expected a list of names such as ["my_table"], found {table_id!r}'
        )
    return list(table_id)


def _ask(namespace_client: Any, names: list[str], expected: Expected) -> Any:
    package = namespace_package()
    if expected is not Expected.LISTED:
        declare = _method(namespace_client, "declare_table")
        try:
            return declare(package.DeclareTableRequest(id=names))
        except package.TableAlreadyExistsError:
            if expected is Expected.NEW:
                raise
    return _method(namespace_client, "describe_table")(package.DescribeTableRequest(id=names))


def _method(namespace_client: Any, name: str) -> Any:
    method = getattr(namespace_client, name, None)
    if not callable(method):
        raise InvalidInputError(
            f"namespace_client: expected a lance_namespace.LanceNamespace, found "
            f"{type(namespace_client).__name__}, which has no method {name}"
        )
    return method
