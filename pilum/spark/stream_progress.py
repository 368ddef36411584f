"""The progress of a streaming query in versions of tables, for a `StreamingQueryListener`.

    progress of Spark    sources: rows, endOffset, latestOffset    ──▶ versions that were read
                         sink: rows                                ──▶ last commit of the query

Spark (4.3 and older) takes no metrics from the sources and sinks of Python: its progress has their
rows and offsets, but neither a location nor what a commit returned. So the version of the sink is
read from the table, which stores the number of the last micro-batch with the id of the query.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress

import pilum
from pilum.errors import DatasetNotFoundError, InvalidInputError
from pilum.spark.options import table_uri
from pilum.spark.stream_source import LoggedOffset

__all__ = ["SourceProgress", "StreamProgress", "stream_progress"]


@dataclass(frozen=True)
class SourceProgress:
    """The progress of one table that a query follows.

    Attributes:
        rows: Number of rows that the micro-batch read.
        version: The newest version that the query has begun to read; 0 if there is none.
        newest_version: The newest version of the table at that time; None if it is not reported.
    """

    rows: int
    version: int
    newest_version: int | None


@dataclass(frozen=True)
class StreamProgress:
    """The progress of a query after one micro-batch.

    Attributes:
        query_id: Id of the query, which is the same after a restart.
        batch_id: Number of the micro-batch.
        rows: Number of rows that all sources read.
        written_rows: Number of rows that the sink received; None with `foreachBatch`.
        sources: The tables of pilum that it follows, in the order of the query.
        sink_version: The version that the micro-batch made; None without `sink`, if the batch made
            none, or if a later batch is in the table already.
    """

    query_id: str
    batch_id: int
    rows: int
    written_rows: int | None
    sources: tuple[SourceProgress, ...]
    sink_version: int | None


def stream_progress(
    progress: StreamingQueryProgress | Mapping[str, Any],
    *,
    sink: str | None = None,
    app_id: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> StreamProgress:
    """Return the progress of a query in versions of tables.

    >>> class Watch(StreamingQueryListener):
    ...     def onQueryProgress(self, event):
    ...         print(pilum.spark.stream_progress(event.progress, sink="/tmp/t"))

    Args:
        progress: The progress that a `StreamingQueryListener` or `query.lastProgress` returns.
        sink: Location of the table that the query writes to, with `format("pilum")` or
            `pilum.spark.upsert`. Its newest version is read.
        app_id: The name that `upsert` was given; the id of the query if None.
        storage_options: Settings of the store of the sink.

    Raises:
        InvalidInputError: If this is not the progress of a query.
    """
    text = getattr(progress, "json", None)
    values: Any = json.loads(text) if isinstance(text, str) else progress
    try:
        query_id, batch_id = str(values["id"]), int(values["batchId"])
        rows = int(values["numInputRows"])
        written = int(values["sink"].get("numOutputRows", -1))
        sources = tuple(_sources(values["sources"]))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"not the progress of a streaming query: {progress!r}") from error
    version = None
    if sink is not None:
        version = _committed(sink, app_id or query_id, batch_id, storage_options)
    return StreamProgress(
        query_id, batch_id, rows, None if written < 0 else written, sources, version
    )


def _sources(given: list[Mapping[str, Any]]) -> Iterator[SourceProgress]:
    for one in given:
        end = _offset(one["endOffset"])
        if end is not None:
            newest = _offset(one.get("latestOffset"))
            yield SourceProgress(
                int(one["numInputRows"]),
                end.last_version,
                None if newest is None else newest.last_version,
            )


def _offset(given: Any) -> LoggedOffset | None:
    """Return an offset of a table; None for those of other sources."""
    values = json.loads(given) if isinstance(given, str) else given
    if not isinstance(values, Mapping) or not {"version", "fragment"} <= values.keys():
        return None
    return LoggedOffset.from_json(values)


def _committed(
    uri: str, app_id: str, batch_id: int, storage_options: Mapping[str, str] | None
) -> int | None:
    try:
        table = pilum.dataset(table_uri(uri), storage_options=dict(storage_options or {}))
    except DatasetNotFoundError:
        return None
    last = table.last_commit(app_id)
    return last.version if last is not None and last.app_version == batch_id else None
