"""Frames of Spark whose actions read only what they need, as subclasses of Spark's classes.

    transformation    Spark's own method; its result becomes such a frame, too
    action            Spark's own method of a plain frame, whose scans are narrow

Methods that are in neither list act on the whole table as Spark defines them.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from pilum.spark.narrowing.leaves import Reads

__all__ = ["as_narrow", "reads_of"]

_LOG = logging.getLogger("pilum.spark.reads")

_ACTIONS = (
    "approxQuantile",
    "checkpoint",
    "collect",
    "corr",
    "cov",
    "crosstab",
    "describe",
    "explain",
    "foreach",
    "foreachPartition",
    "freqItems",
    "localCheckpoint",
    "mergeInto",
    "pandas_api",
    "summary",
    "tail",
    "toArrow",
    "toJSON",
    "toLocalIterator",
    "toPandas",
    "transpose",
    "writeTo",
)
_ACTION_PROPERTIES = ("plot", "rdd", "write")
_FAMILY = ("DataFrame", "GroupedData")

_CACHED: WeakKeyDictionary[Any, set[int]] = WeakKeyDictionary()
"""Numbers of the plans that sessions of Spark Connect cache; in classic, Spark's plans show it."""


def as_narrow(result: Any) -> Any:
    """Turn frames, groups of frames and lists of frames into those of this module."""
    if isinstance(result, list):
        return [as_narrow(one) for one in result]
    kind: Any = type(result)
    if kind.__name__ in _FAMILY and kind.__module__.startswith("pyspark.sql."):
        result.__class__ = _narrow_class(kind)
    return result


def reads_of(frame: DataFrame) -> tuple[Reads, ...]:
    """Return what an action of a frame reads of each table of pilum."""
    return _narrowed(frame)[1]


def _narrowed(frame: DataFrame) -> tuple[DataFrame, tuple[Reads, ...]]:
    if hasattr(frame, "_jdf"):
        from pilum.spark.narrowing import classic  # imports the parser, on first use

        return classic.narrowed(frame)
    from pilum.spark.narrowing import connect

    return connect.narrowed(frame, _CACHED.get(frame.sparkSession, ()))


def _to_run(frame: DataFrame) -> DataFrame:
    """Return the plain frame that an action runs, and log what it reads."""
    found, reads = _narrowed(frame)
    for one in reads:
        level = logging.WARNING if one.reason else logging.INFO
        _LOG.log(level, "%s", one)
    return found


@functools.cache
def _narrow_class(base: Any) -> type[Any]:
    """Return the subclass of a class of Spark."""
    members: dict[str, Any] = {"__module__": __name__, "__doc__": base.__doc__}
    is_frame = base.__name__ == "DataFrame"
    for name in dir(base):
        member = inspect.getattr_static(base, name)
        if name.startswith("_") or not inspect.isfunction(member):
            continue
        members[name] = _action(member) if is_frame and name in _ACTIONS else _kept(member)
    if is_frame:
        members.update({name: property(_property(name)) for name in _ACTION_PROPERTIES})
        members.update(count=_count, isEmpty=_is_empty, show=_show)
        if base.__module__.startswith("pyspark.sql.connect."):
            members.update(cache=_cache, persist=_caching(base.persist, is_kept=True))
            members.update(unpersist=_caching(base.unpersist, is_kept=False))
    return type(base.__name__, (base,), members)


def _kept(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        return as_narrow(method(self, *args, **keywords))

    return call


def _action(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        return getattr(_to_run(self), method.__name__)(*args, **keywords)

    return call


def _property(name: str) -> Callable[[Any], Any]:
    return lambda self: getattr(_to_run(self), name)


def _count(self: Any) -> int:
    """Return the number of rows; without conditions, only the metadata is read."""
    return int(_to_run(self.groupBy().count()).collect()[0][0])


def _is_empty(self: Any) -> bool:
    """Return whether there is no row."""
    return not _to_run(self.select().limit(1)).collect()


def _cache(self: Any) -> Any:
    """Cache the rows with the default storage level, as `persist`."""
    return self.persist()


def _caching(method: Callable[..., Any], *, is_kept: bool) -> Callable[..., Any]:
    """Return a method that also notes whether the plan of a frame is cached."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        numbers = _CACHED.setdefault(self.sparkSession, set())
        (numbers.add if is_kept else numbers.discard)(int(self._plan._plan_id))
        return method(self, *args, **keywords)

    return call


def _show(self: Any, n: int = 20, truncate: bool | int = True, vertical: bool = False) -> None:
    """Print the first rows."""
    first = self.limit(n + 1) if isinstance(n, int) and not isinstance(n, bool) else self
    _to_run(first).show(n, truncate, vertical)
