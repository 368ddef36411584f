"""The options of `format("pilum")`, parsed and checked once; an unknown option is an error.

Case and underscores are ignored: `batchSize`, `batch_size` and `BATCHSIZE` are the same option.
Options that begin with `storage.` are passed to the store, such as `storage.aws_region`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

from pilum import EncodingOptions
from pilum.distributed.following import LATEST, Following
from pilum.distributed.jobs import JobKey
from pilum.errors import InvalidInputError

__all__ = [
    "DEFAULT_BATCH_BYTES",
    "Options",
    "option_texts",
    "table_uri",
    "version_texts",
]

T = TypeVar("T")

_TRUTH = {"true": True, "false": False}
# Batches of about this size pass through the pipe to the JVM fastest.
DEFAULT_BATCH_BYTES = 16 << 20
# Measured: the memory that a task needs apart from its rows, and the number of copies of the rows:
# prefetched, decoded, sent, and freed, which the allocator keeps for the next rows.
_FIXED_BYTES = 128 << 20
_MEMORY_SHARES = 12
_LEAST_WINDOW = 1 << 20
_OF_THE_STORE = "storage."
# Spark adds these when it creates a catalog table, and the last one to streams.
_OF_SPARK = ("provider", "location", "owner", "option.", "checkpointlocation")


@dataclass(frozen=True, kw_only=True)
class Options(Following):
    """The options for reading and writing; those of `Following` are for streams.

    Attributes:
        path: Location of the table: an absolute path or a URI.
        version: Reading: a number or the name of a tag, instead of the latest version.
        branch: The branch to read or write; version numbers are those of the branch.
        as_of: Reading: the latest version at this time (aware).
        columns: Reading: names of columns or dotted paths, in the order of the result.
        filter: Reading: a SQL condition, evaluated by the scan.
        limit: Reading: number of rows that are enough; tasks stop early, but may return more.
        case_sensitive: Whether column names that differ only in case are different. Spark does not
            pass `spark.sql.caseSensitive` to Python sources.
        batch_size: Reading: rows per batch; by default about 20,000, fewer if they are wide.
        batch_bytes: Reading: maximum bytes per batch; larger batches are split.
        blobs: Reading: what blob columns contain, "descriptors" or "payloads".
        memory_limit: Reading and writing: approximate limit, in bytes, of the data that a task
            holds.
        partition_bytes: Reading: approximate size of the files that one task reads.
        pushdown: Reading: whether the conditions of a query filter rows in the scan. Spark then
            uses the rows of one query for all queries of the frame, so use it only for frames that
            are queried once.
        nanoseconds: Reading: what to do with times finer than Spark's: refuse or truncate.
        max_files_per_trigger: Streams: fragments per micro-batch.
        max_rows_per_trigger: Streams: rows per micro-batch, but at least one fragment.
        max_bytes_per_trigger: Streams: bytes of files per micro-batch, but at least one fragment.
        mode: Writing: "create" requires that there is no table yet.
        max_rows_per_file: Writing: number of rows after which a new file is started.
        max_bytes_per_file: Writing: number of bytes after which a new file is started.
        data_storage_version: Writing: file format version of a new or overwritten table.
        txn_app_id: Writing: id of the writing application, with `txn_version`; see `job_key`.
        txn_version: Writing: number of the write, which increases with each write.
        check_replays: Writing: whether a micro-batch that is written again must have the same rows
            as before; see `pilum.spark.tally`.
        compact_every: Writing streams: after this many micro-batches, the newest small files are
            joined.
        schema_mode: Writing: "merge" adds the columns that a table lacks.
        stable_row_ids: Writing: whether rows of a new table keep their ids when they move.
        encoding: Writing: settings of the encodings; each of its attributes is an option.
        storage_options: Settings of the store.
    """

    path: str
    version: int | str | None = None
    branch: str | None = None
    as_of: datetime | None = None
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    limit: int | None = None
    case_sensitive: bool = False
    batch_size: int | None = None
    batch_bytes: int = DEFAULT_BATCH_BYTES
    blobs: str = "descriptors"
    memory_limit: int | None = None
    partition_bytes: int | None = None
    pushdown: bool = False
    nanoseconds: str = "refuse"
    max_files_per_trigger: int | None = None
    max_rows_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    mode: str | None = None
    max_rows_per_file: int | None = None
    max_bytes_per_file: int | None = None
    data_storage_version: str | None = None
    txn_app_id: str | None = None
    txn_version: int | None = None
    check_replays: bool = True
    compact_every: int | None = None
    schema_mode: Literal["merge"] | None = None
    stable_row_ids: bool = False
    encoding: EncodingOptions = field(default_factory=EncodingOptions)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Options:
        """Parse the options that Spark passes."""
        values: dict[str, Any] = {}
        access, encoding = {}, {}
        for key, text in given.items():
            if key.lower().startswith(_OF_THE_STORE):
                access[key[len(_OF_THE_STORE) :]] = text
            elif not key.lower().startswith(_OF_SPARK):
                if (name := _name(key)) in _ENCODING:
                    encoding[name] = text
                else:
                    values[name] = _parse(name, text)
        if "path" not in values:
            raise InvalidInputError(
                "no path was given: name the table in load(path) or save(path). Spark keeps the "
                "options of its catalog tables to itself: use a temporary view"
            )
        values["encoding"] = EncodingOptions.of_texts(encoding)
        options = cls(**values, storage_options=access)
        if options.version is not None and options.as_of is not None:
            raise InvalidInputError('the options "version" and "asOf" exclude each other')
        if (options.txn_app_id is None) != (options.txn_version is None):
            raise InvalidInputError('the options "txnAppId" and "txnVersion" go together')
        return options

    @property
    def window_bytes(self) -> int | None:
        """Return the bytes of rows that a task reads at once; None if its memory is not limited."""
        limit = self.memory_limit
        return limit and max(_LEAST_WINDOW, (limit - _FIXED_BYTES) // _MEMORY_SHARES)

    @property
    def bounded_batch_bytes(self) -> int:
        """Return `batch_bytes`, or less if the memory of a task is limited."""
        return min(self.batch_bytes, self.window_bytes or self.batch_bytes)

    @property
    def job_key(self) -> JobKey | None:
        """Return the key that makes a write idempotent: the table stores the highest number."""
        if self.txn_app_id is None or self.txn_version is None:
            return None
        return self.txn_app_id, self.txn_version


def table_uri(path: str) -> str:
    """Return the location as an absolute path or URI, which is valid in tasks on any machine."""
    if path.startswith("file:") and not path.startswith("file://"):
        path = path.removeprefix("file:")
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))


def option_texts(
    uri: str, given: Mapping[str, object], storage_options: Mapping[str, str] | None
) -> dict[str, str]:
    """Return options as Spark passes them; those that are None are omitted."""
    access = {f"storage.{key}": value for key, value in (storage_options or {}).items()}
    texts = {key: str(value) for key, value in given.items() if value is not None}
    return {"path": uri, **texts, **access}


def version_texts(
    version: int | str | None, branch: str | None, as_of: datetime | None
) -> dict[str, object]:
    """Return the options that name a version."""
    moment = as_of and as_of.astimezone().isoformat()
    return {"version": version, "branch": branch, "asOf": moment}


def _name(key: str) -> str:
    name = _NAMES.get(key.lower().replace("_", ""))
    if name is None:
        names = [*_PARSERS, *_ENCODING]
        known = ", ".join(["path", *(_camel(name) for name in names if name != "path")])
        raise InvalidInputError(f"unknown option {key!r}; known: {known}, storage.…")
    return name


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def _parse(name: str, text: str) -> Any:
    try:
        return _PARSERS[name](text)
    except ValueError as error:
        raise InvalidInputError(f"option {_camel(name)!r}: {error}, found {text!r}") from error


def _positive(text: str) -> int:
    if not text.strip().isdigit() or int(text) < 1:
        raise ValueError("expected a positive whole number")
    return int(text)


def _count(text: str) -> int:
    if not text.strip().isdigit():
        raise ValueError("expected a whole number from 0")
    return int(text)


def _starting_version(text: str) -> int:
    return LATEST if text.lower() == "latest" else _positive(text)


def _version(text: str) -> int | str:
    if not text.strip():
        raise ValueError("expected a number or the name of a tag")
    return _positive(text) if text.strip().isdigit() else text


def _time(text: str) -> datetime:
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError("expected a time such as 2026-11-21T12:00:00Z") from error
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _columns(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ValueError("expected different names with commas between them")
    return names


def _truth(text: str) -> bool:
    return _TRUTH[_one_of(*_TRUTH)(text)]


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in allowed:
            raise ValueError(f"expected {', '.join(allowed[:-1])} or {allowed[-1]}")
        return text.lower()

    return parse


_PARSERS: dict[str, Callable[[str], Any]] = {
    "path": table_uri,
    "version": _version,
    "branch": str,
    "as_of": _time,
    "columns": _columns,
    "filter": str,
    "limit": _positive,
    "case_sensitive": _truth,
    "batch_size": _positive,
    "batch_bytes": _positive,
    "blobs": _one_of("descriptors", "payloads"),
    "memory_limit": _positive,
    "partition_bytes": _positive,
    "pushdown": _truth,
    "nanoseconds": _one_of("refuse", "truncate"),
    "starting_version": _starting_version,
    "starting_timestamp": _time,
    "read_change_feed": _truth,
    "on_change": _one_of("fail", "skip", "reread"),
    "max_files_per_trigger": _positive,
    "max_rows_per_trigger": _positive,
    "max_bytes_per_trigger": _positive,
    "fail_on_data_loss": _truth,
    "mode": _one_of("create", "append", "overwrite"),
    "max_rows_per_file": _positive,
    "max_bytes_per_file": _positive,
    "data_storage_version": str,
    "txn_app_id": str,
    "txn_version": _count,
    "check_replays": _truth,
    "compact_every": _positive,
    "schema_mode": _one_of("merge"),
    "stable_row_ids": _truth,
}
_ENCODING = tuple(field.name for field in fields(EncodingOptions))
_NAMES = {name.replace("_", ""): name for name in (*_PARSERS, *_ENCODING)}
