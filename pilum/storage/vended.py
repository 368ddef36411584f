"""Storage options that a namespace vends for a table: `describe_table` returns them.

A namespace is any object with the methods of `lance_namespace.LanceNamespace`. If the options
expire, it is asked again in time (`renewable.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from pilum.errors import InvalidInputError, MissingDependencyError
from pilum.storage.renewable import EXPIRES_AT, Renewable

__all__ = [
    "described",
    "method_of",
    "names_of",
    "namespace_package",
    "options_of_table",
    "require_together",
    "with_vended",
]


def namespace_package() -> ModuleType:
    """Import lance_namespace, which takes long and is optional."""
    try:
        import lance_namespace
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "namespaces need lance-namespace: pip install lance-namespace"
        ) from error
    return lance_namespace


def options_of_table(
    storage_options: Mapping[str, str] | None,
    namespace_client: Any,
    table_id: Sequence[str] | None,
) -> Mapping[str, str] | None:
    """Return the options for the files of a table, with those that its namespace vends.

    Without a namespace, the given options are returned. Errors of the namespace are passed on.

    Raises:
        InvalidInputError: If only one of namespace and id is passed.
        MissingDependencyError: If lance-namespace is not installed.
    """
    if namespace_client is None and table_id is None:
        return storage_options
    require_together(namespace_client, table_id)
    names = names_of(table_id)
    return with_vended(storage_options, described(namespace_client, names), namespace_client, names)


def require_together(namespace_client: object, table_id: object) -> None:
    """Raise InvalidInputError if only one of namespace and id is passed."""
    if (namespace_client is None) != (table_id is None):
        missing = "namespace_client" if namespace_client is None else "table_id"
        raise InvalidInputError(f"pass namespace_client and table_id together: {missing} is None")


def names_of(table_id: Any) -> list[str]:
    """Return the names of an id; raise InvalidInputError unless it is a list of names."""
    is_list = isinstance(table_id, Sequence) and not isinstance(table_id, str | bytes)
    if not is_list or not table_id or not all(isinstance(name, str) for name in table_id):
        raise InvalidInputError(
            f'table_id: expected a list of names such as ["my_table"], found {table_id!r}'
        )
    return list(table_id)


def described(namespace_client: Any, names: list[str]) -> Any:
    """Return the description of a table that a namespace lists."""
    request = namespace_package().DescribeTableRequest(id=names)
    return method_of(namespace_client, "describe_table")(request)


def method_of(namespace_client: Any, name: str) -> Any:
    """Return a method of a namespace; raise InvalidInputError if the object is none."""
    method = getattr(namespace_client, name, None)
    if not callable(method):
        raise InvalidInputError(
            f"namespace_client: expected a lance_namespace.LanceNamespace, found "
            f"{type(namespace_client).__name__}, which has no method {name}"
        )
    return method


def with_vended(
    storage_options: Mapping[str, str] | None,
    answer: Any,
    namespace_client: Any,
    names: Sequence[str],
) -> Mapping[str, str] | None:
    """Return options together with those of an answer, which take precedence."""
    if not answer.storage_options:
        return storage_options
    vended = dict(answer.storage_options)
    if (expiry := vended.get(EXPIRES_AT)) is not None:
        vended[EXPIRES_AT] = Renewable(str(expiry), _Renewal(namespace_client, tuple(names)))
    return {**(storage_options or {}), **vended}


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
        return described(self.client, list(self.names)).storage_options or {}
