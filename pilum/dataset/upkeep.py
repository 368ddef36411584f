"""Upkeep of tables: compaction, automatic cleanup, and verification."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, Unpack

from pilum.arguments import require_count, with_keywords
from pilum.dataset.base import DatasetBase
from pilum.dataset.commits import commit_operation
from pilum.errors import CorruptFileError, InvalidInputError, PilumError, UnsupportedFeatureError
from pilum.table.commit.operations.update_config import MapUpdate, UpdateConfig
from pilum.table.upkeep.auto_cleanup import AUTO_CLEANUP_PREFIX, auto_cleanup_config

# The implementations are imported with the first use: most processes never need them.
if TYPE_CHECKING:
    from pilum.dataset.compaction import CompactionMetrics
    from pilum.table.upkeep.verify import Findings

__all__ = [
    "AutoCleanupConfig",
    "CompactionOptions",
    "DatasetOptimizer",
    "Fault",
    "Upkeep",
    "VerifyReport",
    "auto_cleanup_settings",
    "report_of",
]


class AutoCleanupConfig(TypedDict):
    """Settings of the automatic cleanup of old versions.

    Attributes:
        interval: Number of versions between two cleanups.
        older_than_seconds: Only versions older than this are removed.
    """

    interval: int
    older_than_seconds: int


class CompactionOptions(TypedDict, total=False):
    """The keyword arguments of `DatasetOptimizer.compact_files`, which explains them."""

    target_rows_per_fragment: int | None
    target_bytes_per_fragment: int | None
    max_rows_per_group: int | None
    max_bytes_per_file: int | None
    materialize_deletions: bool | None
    materialize_deletions_threshold: float | None
    defer_index_remap: bool | None
    num_threads: int | None
    batch_size: int | None
    memory_limit: int | None
    compaction_mode: str | None
    binary_copy_read_batch_bytes: int | None
    max_source_fragments: int | None
    max_source_rows: int | None
    max_source_bytes: int | None
    excluded_fragment_ids: list[int] | None
    data_storage_version: str | None


class DatasetOptimizer:
    """Optimizes a table; see `LanceDataset.optimize`."""

    def __init__(self, dataset: DatasetBase) -> None:
        self._dataset = dataset

    def optimize_indices(self, **_: Any) -> NoReturn:
        """Raise UnsupportedFeatureError: indices are not supported yet.

        Raises:
            UnsupportedFeatureError: Always.
        """
        raise UnsupportedFeatureError("indices cannot be changed yet; those that exist are kept")

    @with_keywords(CompactionOptions)
    def compact_files(self, **options: Unpack[CompactionOptions]) -> CompactionMetrics:
        """Compact small fragments into larger ones, without deleted rows and dropped columns.

        The dataset moves to the new version; older versions keep their files. Rows that are
        compacted together keep their order, and new fragments come after all others. Arguments that
        are not given are taken from settings `lance.compaction.*` of the table, or have the default
        value. Rows are streamed. If some of the fragments are changed concurrently, the rest is
        committed. An interrupted compaction leaves no files.

        Args:
            target_rows_per_fragment: Fragments with fewer rows are small. New fragments have at
                least this number of rows, but fewer than twice as many; 1,048,576 by default.
            max_rows_per_group: Rows per row group in files of version 0.1; 1,024 by default.
            max_bytes_per_file: A new file that has reached this size receives no further rows; 90
                GiB by default. It does not affect which fragments are small.
            materialize_deletions: Whether to rewrite fragments because of deleted rows alone; True
                by default.
            materialize_deletions_threshold: Share of deleted rows above which a fragment is
                rewritten; 0.1 by default.
            defer_index_remap: True records row moves even if no index needs them yet. False
                requires indices to be rewritten, which is not supported if an index covers the
                fragments. By default moves are recorded if an index needs them.
            num_threads: Number of concurrent tasks; the number of processors by default.
            batch_size: Number of rows that are read at a time.
            compaction_mode: Rows are always re-encoded; "force_binary_copy" is rejected.
            binary_copy_read_batch_bytes: Applies to binary copies only; has no effect.
            max_source_fragments: Maximum number of fragments that this call rewrites.
            max_source_rows: Maximum number of rows that this call rewrites, without deleted rows.
            max_source_bytes: Maximum number of bytes of data files that this call rewrites.
            excluded_fragment_ids: Fragments to leave unchanged; fragments on both sides of one are
                not compacted together.
            data_storage_version: File version of the new files; that of the table by default.
            target_bytes_per_fragment: Fragments whose data files have this size are not small,
                however few rows they have, and new fragments of this size receive no further rows;
                90 GiB by default. Separate blob files do not count.
            memory_limit: Maximum memory of all concurrent tasks, in bytes; 1 GiB by default. A task
                uses up to 320 MiB, and one task always runs.

        Raises:
            CommitConflictError: If concurrent commits changed all of the fragments, or overwrote
                the table.
            CommitContentionError: If every attempt lost to a concurrent commit.
            UnsupportedFeatureError: If the table or an index uses a feature that cannot be
                compacted.
            CorruptFileError: If a file is damaged.
            InvalidInputError: If an argument or setting is invalid.
        """
        from pilum.dataset.compaction import Compaction

        return Compaction.execute(self._dataset, options)

    def enable_auto_cleanup(self, auto_cleanup_config: AutoCleanupConfig) -> None:
        """Enable automatic cleanup of old versions by all writers; commits the settings.

        A failed cleanup is logged and never fails a commit.

        Args:
            auto_cleanup_config: A dict with `interval`, a number of versions, and
                `older_than_seconds`.

        Raises:
            InvalidInputError: If a setting is missing or not a number.
            CommitConflictError: If a concurrent commit changed the same settings.
        """
        self._configure(dict(auto_cleanup_settings(auto_cleanup_config)))

    def disable_auto_cleanup(self) -> None:
        """Disable automatic cleanup by removing its settings.

        Raises:
            CommitConflictError: If a concurrent commit changed the same settings.
        """
        config = self._dataset.snapshot.manifest.config
        self._configure({key: None for key in config if key.startswith(AUTO_CLEANUP_PREFIX)})

    def _configure(self, values: Mapping[str, str | None]) -> None:
        commit_operation(self._dataset, UpdateConfig(config=MapUpdate(values)))


@dataclass(frozen=True, slots=True)
class Fault:
    """A file that is missing, damaged, orphaned or misread.

    Attributes:
        kind: "missing", "damaged", "orphaned" or "misread".
        path: Path below the root of the table.
        size_bytes: Actual size of the file; 0 if it is missing.
        version: A version that refers to it; None for orphans, tags and folders.
        what: Description of the fault.
    """

    kind: str
    path: str
    size_bytes: int
    version: int | None
    what: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of a check of a table; prints as a table.

    Attributes:
        num_versions: Number of checked versions.
        num_files: Number of files that they refer to, including manifests.
        size_bytes: Total size of the files that exist.
        is_deep: Whether pages were decoded.
        missing: Files that do not exist.
        damaged: Files that contradict the format or the records about them.
        orphaned: Files named as files of the table that no version refers to; they belong to a
            commit in progress, or to one that failed.
        misread: Files of the pinned version that pilum reads correctly, but not every reader of the
            format; `optimize.compact_files` rewrites their rows.
    """

    num_versions: int
    num_files: int
    size_bytes: int
    is_deep: bool
    missing: list[Fault]
    damaged: list[Fault]
    orphaned: list[Fault]
    misread: list[Fault] = field(default_factory=list)

    @property
    def is_valid(self) -> bool:
        """Return whether nothing is missing or damaged."""
        return not self.missing and not self.damaged

    def __str__(self) -> str:
        faults = [*self.missing, *self.damaged, *self.orphaned, *self.misread]
        lines = [_line(fault) for fault in faults]
        counts = (
            f"{self.num_versions} versions, {self.num_files} files, {self.size_bytes:,} bytes: "
            f"{len(self.missing)} missing, {len(self.damaged)} damaged, "
            f"{len(self.orphaned)} orphaned, {len(self.misread)} misread"
        )
        return "\n".join([*lines, counts])


class Upkeep(DatasetBase):
    """Methods of `LanceDataset` for optimization and verification."""

    @property
    def optimize(self) -> DatasetOptimizer:
        """The optimizer of the table."""
        return DatasetOptimizer(self)

    def verify(self, *, deep: bool = False) -> VerifyReport:
        """Check the structure of the table; change nothing, and report damage without raising.

        All versions are checked, including those of branches: manifests, transactions, footers and
        column metadata of data files, deletion files, sizes and numbers of rows where recorded, and
        files of indices, tags and branches. For the pinned version, the check also covers whether
        all readers see which structs are null.

        Args:
            deep: Whether to also decode all pages of the pinned version and read all payloads of
                blobs, except those outside the table. This takes as much memory as a scan.

        Raises:
            OSError: If the store cannot be listed.
        """
        from pilum.progress import progress
        from pilum.table.upkeep.verify import verify

        snapshot = self._snapshot
        num_rows = 0
        if deep:
            with suppress(PilumError, OSError):  # the check reports it
                num_rows = sum(one.physical_rows for one in snapshot.manifest.fragments)
        with progress("Verifying", num_rows) as on_rows:
            return report_of(verify(snapshot, deep=deep, all_versions=True, on_rows=on_rows), deep)

    def validate(self) -> None:
        """Check the structure of the pinned version.

        Raises:
            CorruptFileError: If a file is missing or damaged. The message lists all of them.
        """
        from pilum.table.upkeep.verify import verify

        report = report_of(verify(self._snapshot, deep=False, all_versions=False), False)
        if not report.is_valid:
            lines = [_line(fault) for fault in (*report.missing, *report.damaged)]
            where = f"{self._uri}, version {self._snapshot.manifest.version}"
            raise CorruptFileError("the table is not whole:\n" + "\n".join(lines), where)


def auto_cleanup_settings(options: Any) -> dict[str, str]:
    """Return the table settings for the requested automatic cleanup.

    Raises:
        InvalidInputError: If a member is missing or not a number.
    """
    names = list(AutoCleanupConfig.__annotations__)
    if not isinstance(options, Mapping) or set(options) != set(names):
        raise InvalidInputError(f"auto cleanup: expected a dict of {names}, found {options!r}")
    return auto_cleanup_config(
        require_count("interval", options["interval"]),
        require_count("older_than_seconds", options["older_than_seconds"]),
    )


def report_of(found: Findings, deep: bool) -> VerifyReport:
    """Convert findings to the public report."""
    by_kind: dict[str, list[Fault]] = {"missing": [], "damaged": [], "orphaned": [], "misread": []}
    for one in found.faults:
        fault = Fault(one.kind.value, one.path, one.size, one.version, one.what)
        by_kind[fault.kind].append(fault)
    return VerifyReport(found.versions, found.files, found.size, deep, **by_kind)


def _line(fault: Fault) -> str:
    version = "" if fault.version is None else f"version {fault.version}: "
    what = fault.what.splitlines()[0]
    return f"{fault.kind:9}{fault.size_bytes:>15,}  {fault.path}  {version}{what}"
