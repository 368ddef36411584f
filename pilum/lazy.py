"""Properties that are computed on first use, without a lock.

`functools.cached_property` of Python 3.11 computes under a lock that all instances share. Threads
then deadlock where two properties need each other, such as those of a field and of its members; a
slow read of one table stops those of others; and in a child process, a property that another thread
was computing at the fork is locked for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

__all__ = ["cached_property"]

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801 - a decorator, as in functools
    """A property that is computed once and then kept in the `__dict__` of its instance.

    Threads that come together may compute it several times, but all get the same value. It
    therefore must depend on nothing that changes, and have no side effects.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> T | Self:
        if instance is None:
            return self
        value: T = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value
