"""Context of single requests, such as a token that expires: headers of HTTP."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import Any, Final

from pilum.errors import InvalidInputError

__all__ = ["DynamicContextProvider", "provider_of"]

_PREFIX: Final = "dynamic_context_provider."
_CLASS: Final = "dynamic_context_provider.impl"


class DynamicContextProvider(ABC):
    """Base class of objects that are asked for the context of each request."""

    @abstractmethod
    def provide_context(self, info: dict[str, str]) -> dict[str, str]:
        """Return the context of a request; "headers.X" is the header X of HTTP.

        Args:
            info: `operation`, such as "list_tables", and `object_id`, the names of the table or
                namespace with the delimiter between them.
        """


def provider_of(properties: dict[str, str]) -> Any:
    """Remove the properties of a provider from `properties`, and return the provider or None.

    `dynamic_context_provider.impl` is the path of its class, and `dynamic_context_provider.x` its
    argument x.

    Raises:
        InvalidInputError: If there is no such class.
    """
    given = {name: properties.pop(name) for name in [*properties] if name.startswith(_PREFIX)}
    path = given.pop(_CLASS, None)
    if not path:
        return None
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ValueError, ImportError, AttributeError) as error:
        raise InvalidInputError(
            f"{_CLASS}: expected the path of a class such as my_module.MyProvider, found {path!r}: "
            f"{error}"
        ) from error
    return found(**{name.removeprefix(_PREFIX): value for name, value in given.items()})
