"""Ingestion of files of other formats into a table, each file exactly once.

    list of files ──▶ those that are not in ──▶ portions, each noted, then written and committed
                                                  with the key (job, number of the portion)

A named job can run any number of times: each run ingests the new files only. The table itself
records which portions it contains, in the same version that added the last one
(`LanceDataset.last_commit`). The job's journal records the files of a portion, in a note written
before the first row of the portion. So no file is ingested twice or skipped, whenever a run is
killed. Source: docs/guide/spark-jobs.md, "Ingest".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import pilum
from pilum.distributed import Mode
from pilum.distributed.journal import Journal
from pilum.distributed.tasks import optional_count
from pilum.errors import CorruptFileError, DatasetNotFoundError, InvalidInputError
from pilum.spark.job_reports import reported
from pilum.spark.names import is_case_sensitive
from pilum.spark.options import Options, table_uri
from pilum.spark.sink import plan_write, write_frame

__all__ = [
    "FORMATS",
    "IngestResult",
    "SourceFormat",
    "ingest",
    "read_files",
    "require_query",
    "transformed",
]

SourceFormat = Literal["parquet", "csv", "json", "orc", "files"]

_BLOB = {"lance-encoding:blob": "true"}
_GLOB = re.compile(r"([*?\[\]{}\\])")
# Rows that do not parse are errors, not rows of nulls; column names are compared.
_STRICT = {"mode": "FAILFAST"}
FORMATS: dict[str, dict[str, str]] = {
    "parquet": {},
    "orc": {},
    "csv": {**_STRICT, "header": "true", "enforceSchema": "false"},
    "json": _STRICT,
    "files": {"recursiveFileLookup": "true"},
}
"""File formats, and the Spark options that are set for each."""


@dataclass(frozen=True, slots=True)
class IngestResult:
    """The result of an ingestion.

    Attributes:
        version: The version of the table that has the rows; 0 if there is no table yet.
        num_files: Number of ingested files.
        num_commits: Number of versions created.
    """

    version: int
    num_files: int
    num_commits: int


@reported("ingest", "target")
def ingest(
    spark: SparkSession,
    source: str,
    target: str,
    *,
    format: SourceFormat = "parquet",
    schema: str | None = None,
    transform: str | None = None,
    mode: Mode = "append",
    schema_mode: Literal["merge"] | None = None,
    job: str | None = None,
    files_per_commit: int | None = None,
    journal: str | None = None,
    options: Mapping[str, str] | None = None,
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = None,
    memory_limit: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> IngestResult:
    """Ingest files into a table.

    Args:
        spark: The session.
        source: A file, a folder or a glob pattern, as in Spark. Folders named `key=value` become
            columns.
        target: Location of the table.
        format: "parquet", "orc", "csv" (with a header), "json" (a row per line), or "files": each
            file is a row with the columns path, modificationTime, length, and content as a blob.
        schema: Columns of the files as DDL. Give it for CSV and JSON; otherwise Spark infers it.
        transform: A query of Spark over the table `{source}`, such as
            "SELECT id, lower(name) AS name FROM {source} WHERE id IS NOT NULL".
        mode: As in `pilum.spark.write`; a named job appends.
        schema_mode: "merge" adds the columns that the table lacks; existing rows get nulls.
        job: Name of the job: each of its runs ingests the files that are not in the table yet.
        files_per_commit: Number of files per commit, in the order of their paths, so that a later
            failure loses little; None for one commit. Requires a `job`.
        journal: Where the journal of a named job is; None for `_jobs` in the table.
        options: Options of Spark's reader. By default a row that does not parse is an error.
        max_rows_per_file: As in `pilum.spark.write`, like the next two.
        max_bytes_per_file: Number of bytes after which a task starts a new file.
        memory_limit: Approximate limit, in bytes, of the rows that a Python worker holds.
        storage_options: Settings of the table's store.

    Raises:
        SchemaMismatchError: If the columns do not fit the table.
        DatasetAlreadyExistsError: If mode is "create" and there is a table.
        InvalidInputError: If an argument is invalid, the job name belongs to a different job, or a
            file changed after it was ingested.
        pyspark.errors.PySparkException: If Spark cannot read the files.
    """
    if job is None and (files_per_commit is not None or journal is not None):
        raise InvalidInputError("job: needed with files_per_commit and journal")
    if schema_mode not in {None, "merge"}:
        raise InvalidInputError(f"schema_mode: expected merge or None, found {schema_mode!r}")
    if job is not None and mode != "append":
        raise InvalidInputError(f"mode: a named job appends, found {mode!r}")
    reading = _Reading(source, format, schema, transform, dict(options or {}))
    writing = Options(
        path=table_uri(target),
        case_sensitive=is_case_sensitive(spark),
        schema_mode=schema_mode,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        memory_limit=memory_limit,
        storage_options=dict(storage_options or {}),
    )
    if job is None:
        paths = [file.path for file in reading.files(spark)]
        frame = reading.frame(spark, paths)
        version = write_frame(frame, plan_write(frame.schema, writing, mode))
        return IngestResult(version, len(paths), 1)
    optional_count("files_per_commit", files_per_commit, 1)
    location = journal and table_uri(journal)
    place = Journal(writing.path, job, location, writing.storage_options)
    return _Portions(reading, writing, place).run(spark, files_per_commit)


def read_files(
    spark: SparkSession,
    source: str,
    *,
    format: SourceFormat = "parquet",
    schema: str | None = None,
    transform: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the rows that `ingest` would write; the arguments and errors are the same."""
    reading = _Reading(source, format, schema, transform, dict(options or {}))
    return reading.frame(spark, [file.path for file in reading.files(spark)])


def require_query(transform: str | None) -> None:
    """Check that a query reads from the source."""
    if transform is not None and "{source}" not in transform:
        raise InvalidInputError(f"transform: expected a query over {{source}}, found {transform!r}")


def transformed(spark: SparkSession, frame: DataFrame, query: str | None) -> DataFrame:
    """Return the result of a query over a frame; the frame itself without a query."""
    return frame if query is None else spark.sql(query, source=frame)


@dataclass(frozen=True, order=True)
class _File:
    """A file of the source, with its state when it was listed."""

    path: str
    size: int
    modified: str


@dataclass(frozen=True)
class _Reading:
    """Settings for reading the source; they identify a job."""

    source: str
    format: str
    schema: str | None
    transform: str | None
    options: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            known = list(FORMATS)
            raise InvalidInputError(f"format: expected one of {known}, found {self.format!r}")
        require_query(self.transform)

    def files(self, spark: SparkSession) -> list[_File]:
        """Return the files in the order of their paths, without reading their contents."""
        found = (
            self._reader(spark, "binaryFile")
            .load(self.source)
            .select("path", "length", sf.col("modificationTime").cast("string").alias("modified"))
            .collect()
        )
        return sorted(_File(row.path, row.length, row.modified) for row in found)

    def frame(self, spark: SparkSession, paths: Sequence[str]) -> DataFrame:
        """Return the rows of some of the files."""
        if not paths:
            raise InvalidInputError(f"{self.source}: no files")
        reader = self._reader(spark, "binaryFile" if self.format == "files" else self.format)
        if self.schema is not None:
            reader = reader.schema(self.schema)
        if self.format != "files" and (folder := _folder(self.source, paths)):
            reader = reader.option("basePath", folder)
        frame = reader.load([_GLOB.sub(r"\\\1", path) for path in paths])
        if self.format == "files":
            frame = frame.withMetadata("content", _BLOB)
        return transformed(spark, frame, self.transform)

    def _reader(self, spark: SparkSession, format: str) -> Any:
        given = {**FORMATS[self.format], **self.options}
        return spark.read.format(format).options(**given)


def _folder(source: str, paths: Sequence[str]) -> str | None:
    """Return the source if it is a folder above all paths, whose subfolders may be columns."""
    name = source.rstrip("/")
    plain = name.split("://")[-1].removeprefix("file:")
    return name if not _GLOB.search(name) and all(f"{plain}/" in path for path in paths) else None


@dataclass(frozen=True)
class _Portions:
    """A named job: portions of files, numbered from 0 in the order of ingestion."""

    reading: _Reading
    writing: Options
    journal: Journal

    def run(self, spark: SparkSession, size: int | None) -> IngestResult:
        """Ingest the files that are not in the table yet."""
        files = self.reading.files(spark)
        self.journal.begin(asdict(self.reading), {})
        version, num_done = self._state()
        known: dict[str, _File] = {}
        num_files = num_commits = 0
        for number in count():
            portion = self._portion(number, files, known, size, is_done=number < num_done)
            if not portion and number >= num_done:
                return IngestResult(version, num_files, num_commits)
            known.update({file.path: file for file in portion})
            if number >= num_done:
                frame = self.reading.frame(spark, [file.path for file in portion])
                job = plan_write(frame.schema, self.writing, "append")
                version = write_frame(frame, job, (self._app, number))
                num_files += len(portion)
                num_commits += 1
        raise AssertionError("unreachable")

    @property
    def _app(self) -> str:
        return f"ingest {self.journal.job}"

    def _state(self) -> tuple[int, int]:
        """Return the version of the table and the number of portions in it."""
        try:
            latest = pilum.dataset(self.writing.path, storage_options=self.writing.storage_options)
        except DatasetNotFoundError:
            return 0, 0
        last = latest.last_commit(self._app)
        return latest.version, 0 if last is None else last.app_version + 1

    def _portion(
        self,
        number: int,
        files: Sequence[_File],
        known: Mapping[str, _File],
        size: int | None,
        *,
        is_done: bool,
    ) -> list[_File]:
        """Return the files of a portion: those noted by an earlier run, or the next new files."""
        note = self.journal.note(f"portion-{number}")
        if note is None:
            if is_done:
                raise CorruptFileError(
                    f"job {self.journal.job!r}: the note of portion {number}, which is in the "
                    "table, is missing, so it is unknown which files are in; begin another job"
                )
            _require_unchanged(files, known)
            new = [file for file in files if file.path not in known][:size]
            if not new:
                return []
            note = self.journal.keep_note(f"portion-{number}", _plain(new))
        noted = [_File(*entry) for entry in note]
        return noted if is_done else self._renewed(number, noted, files)

    def _renewed(self, number: int, noted: list[_File], files: Sequence[_File]) -> list[_File]:
        """Return the current files of a portion begun earlier: some may be repaired or removed."""
        now = {file.path: file for file in files}
        found = [now[file.path] for file in noted if file.path in now]
        if found != noted:
            self.journal.put_note(f"portion-{number}", _plain(found))
        return found


def _plain(files: Iterable[_File]) -> list[list[object]]:
    return [[file.path, file.size, file.modified] for file in files]


def _require_unchanged(files: Iterable[_File], known: Mapping[str, _File]) -> None:
    changed = [file.path for file in files if known.get(file.path, file) != file]
    if changed:
        raise InvalidInputError(
            f"files changed after they were taken in: {changed[:10]}; a job takes each file once, "
            "so write new rows to new files"
        )
