"""The steps: each is timed and watched, and after each the table must hold what it should.

    ingest     format("pilum"), one file per partition, one commit
    merge      1 % of the keys: half of them are changed, half are new
    compact    few large fragments in place of many, without the rows that were changed
    cleanup    the versions before: without it the disk would hold the table twice
    verify     every page is decoded
    scan       all columns, through the JVM: the sums over all that the table holds

Between the steps rows are counted, and sums taken over all columns but texts and vectors; that is
not timed.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

import pilum
import pilum.spark
from bench.scale.memory import Watch
from bench.scale.rows import ROW_BYTES, Changes, expected, found, source
from bench.spark.session import session
from pilum.dataset.cleanup import CleanupStats

__all__ = ["Settings", "Step", "measure"]

_ARROW_SAMPLE = 10_000


@dataclass(frozen=True)
class Settings:
    """How much, and with what.

    Attributes:
        gigabytes: Of rows in memory, about.
        fragment_bytes: Of rows in memory that a fragment has after the ingest.
        target_rows: Rows of a fragment after the compaction.
        memory: Of the JVM.
        folder: Where the table and Spark's own files are; None for that of temporary files.
    """

    gigabytes: float = 1
    fragment_bytes: int = 64_000_000
    target_rows: int = 500_000
    memory: str = "2g"
    folder: Path | None = None

    @property
    def num_rows(self) -> int:
        """Rows of the table before the merge."""
        return int(self.gigabytes * 1e9) // ROW_BYTES

    @property
    def partitions(self) -> int:
        """Tasks of the ingest."""
        return max(2, int(self.gigabytes * 1e9) // self.fragment_bytes)


@dataclass(frozen=True)
class Step:
    """What one step took.

    Attributes:
        name: As in the report.
        seconds: Its time.
        gigabytes: Of rows in memory that it went through; None where that is no measure.
        peaks: As `memory.Peaks`, bytes.
        fragments: Of the table afterwards.
        file_bytes: Of the files of the latest version afterwards.
        disk_bytes: Of all files of the table afterwards.
        note: What else is to be said.
    """

    name: str
    seconds: float
    gigabytes: float | None
    peaks: dict[str, int]
    fragments: int
    file_bytes: int
    disk_bytes: int
    note: str = ""


class WrongAnswerError(Exception):
    """A table does not hold what it should."""


def measure(settings: Settings) -> Iterator[Step]:
    """Carries out the steps, one after the other.

    Raises:
        WrongAnswerError: If rows or sums are not what they should be.
    """
    folder = Path(tempfile.mkdtemp(prefix="bench-scale-", dir=settings.folder))
    try:
        local = {"spark.local.dir": str(folder / "spark")}
        with session(settings.memory, local) as spark:
            yield from _Run(spark, settings, folder / "table").steps()
    finally:
        shutil.rmtree(folder)


class _Run:
    """The steps on one table."""

    def __init__(self, spark: SparkSession, settings: Settings, path: Path) -> None:
        self._spark = spark
        self._settings = settings
        self._path = path
        self._changes = Changes(settings.num_rows)
        self._row_bytes = float(ROW_BYTES)

    def steps(self) -> Iterator[Step]:
        """Carries them out."""
        yield self._step("ingest", self._ingest)
        self._check(self._expected(0))
        yield self._step("merge", self._merge, is_whole=False)
        merged = self._expected(self._changes.num_new)
        self._check(merged)
        yield self._step("compact", self._compact)
        self._check(merged)
        yield self._step("cleanup", self._cleanup, is_whole=False)
        yield self._step("verify", self._verify)
        everything = self._expected(self._changes.num_new, wide=True)
        yield self._step("scan", lambda: self._check(everything, wide=True))

    def _step(self, name: str, work: Callable[[], str], is_whole: bool = True) -> Step:
        with Watch() as watch:
            start = time.perf_counter()
            note = work()
            seconds = time.perf_counter() - start
        if name == "ingest":
            self._row_bytes = self._bytes_of_a_row()
        gigabytes = self._settings.num_rows * self._row_bytes / 1e9 if is_whole else None
        peaks = asdict(watch.peaks)
        return Step(name, seconds, gigabytes, peaks, *self._sizes(), note)

    def _sizes(self) -> tuple[int, int, int]:
        if not self._path.exists():
            return 0, 0, 0
        fragments = pilum.dataset(self._path).get_fragments()
        of_version = sum(
            file.file_size_bytes or 0 for one in fragments for file in one.metadata.files
        )
        on_disk = sum(file.stat().st_size for file in self._path.rglob("*") if file.is_file())
        return len(fragments), of_version, on_disk

    def _bytes_of_a_row(self) -> float:
        sample = pilum.dataset(self._path).head(_ARROW_SAMPLE)
        return float(sample.nbytes / sample.num_rows)

    def _ingest(self) -> str:
        settings = self._settings
        rows = source(self._spark, settings.num_rows, settings.partitions)
        rows.write.format("pilum").mode("append").save(str(self._path))
        return f"{settings.num_rows:,} rows in {settings.partitions} tasks"

    def _merge(self) -> str:
        rows = self._changes.frame(self._spark, self._settings.partitions)
        merge = pilum.spark.merge_into(self._spark, str(self._path), rows, on="id")
        done = merge.when_matched_update_all().when_not_matched_insert_all().execute()
        return f"{done['num_updated_rows']:,} rows changed, {done['num_inserted_rows']:,} new"

    def _compact(self) -> str:
        done = pilum.spark.compact(
            self._spark,
            str(self._path),
            target_rows_per_fragment=self._settings.target_rows,
            materialize_deletions_threshold=0.0,
        )
        return f"{done.fragments_removed} fragments become {done.fragments_added}"

    def _cleanup(self) -> str:
        done = pilum.spark.cleanup(self._spark, str(self._path), older_than=timedelta(0))
        assert isinstance(done, CleanupStats)
        return f"{done.old_versions} versions, {done.bytes_removed / 1e9:.2f} GB"

    def _verify(self) -> str:
        report = pilum.spark.verify(self._spark, str(self._path), deep=True)
        if not report.is_valid:
            raise WrongAnswerError(str(report))
        return "nothing missing, damaged or left over"

    def _expected(self, num_new: int, *, wide: bool = False) -> dict[str, int]:
        num_rows, partitions = self._settings.num_rows + num_new, self._settings.partitions
        generation = self._changes.generation if num_new else "0"
        return expected(self._spark, num_rows, partitions, generation, wide=wide)

    def _check(self, wanted: dict[str, int], *, wide: bool = False) -> str:
        totals = found(self._spark, str(self._path), wide=wide)
        if totals != wanted:
            raise WrongAnswerError(f"expected {wanted}, found {totals}")
        return f"{totals['num_rows']:,} rows, sums as computed"
