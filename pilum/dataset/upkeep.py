"""Upkeep of tables: compaction, verification, cleanup, and the list of files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

import pyarrow as pa

from pilum.arguments import optional_count, require_count, with_keywords
from pilum.dataset.base import DatasetBase, commit_operation
from pilum.dataset.cleanup import (
    CLEANUP_DEFAULTS,
    CleanupExplanation,
    CleanupKeywords,
    CleanupStats,
    explained_cleanup,
    planned_cleanup,
)
from pilum.dataset.files import all_files, tracked_files
from pilum.errors import CorruptFileError, DatasetNotFoundError, InvalidInputError, PilumError
from pilum.storage.open import Location
from pilum.table.commit.operations.update_config import MapUpdate, UpdateConfig
from pilum.table.model.base_paths import own_store
from pilum.table.read.snapshot import Snapshot
from pilum.table.upkeep.auto_cleanup import AUTO_CLEANUP_PREFIX, auto_cleanup_config
from pilum.table.versions.commit_handler import open_table

# The implementations are imported with the first use: most processes never need them.
if TYPE_CHECKING:
    from pilum.dataset.compaction import CompactionMetrics
    from pilum.table.upkeep.faults import VerifyReport

__all__ = [
    "AutoCleanupConfig",
    "CompactionOptions",
    "DatasetOptimizer",
    "Upkeep",
    "auto_cleanup_settings",
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

    def __repr__(self) -> str:
        return f"DatasetOptimizer({self._dataset!r}): compact_files, optimize_indices"

    def optimize_indices(
        self,
        *,
        num_indices_to_merge: int | None = None,
        index_names: Collection[str] | None = None,
        retrain: bool = False,
    ) -> None:
        """Add rows that are not indexed to the indices, and merge segments.

        The dataset moves to the new version; if nothing is to be done, nothing is committed. By
        default, the newest segment of each index is replaced by one that also contains the rows of
        all fragments that the index does not cover.

        Args:
            num_indices_to_merge: Number of segments of each index to merge, from the newest on,
                also if all rows are covered. 0 adds the rows as a new segment, which costs least.
            index_names: Names of the indices; by default all that this library can read.
            retrain: Whether to build the indices again from all rows, with the same parameters.

        Raises:
            IndexNotFoundError: If an index does not exist.
            UnsupportedFeatureError: If an index is named that this library cannot read.
            CommitConflictError: If a concurrent commit conflicts with this one.
            CorruptFileError: If a file is damaged.
            InvalidInputError: If an argument is invalid.
        """
        from pilum.dataset.index_optimization import optimize

        optimize(self._dataset, index_names, num_indices_to_merge, retrain=retrain)

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
            defer_index_remap: True leaves the files of indices unchanged and records the moves of
                rows, which every use of an index then follows. False requires that all indices on
                the fragments are rewritten. By default those are rewritten that can be, and moves
                are recorded if there are others.
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
        values = dict(auto_cleanup_settings(auto_cleanup_config))
        self._configure(self._dataset.snapshot, values)

    def disable_auto_cleanup(self) -> None:
        """Disable automatic cleanup by removing its settings.

        Raises:
            CommitConflictError: If a concurrent commit changed the same settings.
        """
        snapshot = self._dataset.snapshot
        config = snapshot.manifest.config
        removed = {key: None for key in config if key.startswith(AUTO_CLEANUP_PREFIX)}
        self._configure(snapshot, removed)

    def _configure(self, snapshot: Snapshot, values: Mapping[str, str | None]) -> None:
        commit_operation(self._dataset, snapshot, UpdateConfig(config=MapUpdate(values)))


class Upkeep(DatasetBase):
    """Methods of `LanceDataset` for upkeep: optimization, verification, cleanup and files."""

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
        from pilum.progress_display import progress
        from pilum.table.upkeep.verify import verify

        snapshot = self._snapshot
        num_rows = 0
        if deep:
            with suppress(PilumError, OSError):  # the check reports it
                num_rows = sum(one.physical_rows for one in snapshot.manifest.fragments)
        with progress("Verifying", num_rows) as on_rows:
            return verify(snapshot, deep=deep, all_versions=True, on_rows=on_rows)

    def validate(self) -> None:
        """Check the structure of the pinned version.

        Raises:
            CorruptFileError: If a file is missing or damaged. The message lists all of them.
        """
        from pilum.table.upkeep.verify import verify

        snapshot = self._snapshot
        report = verify(snapshot, deep=False, all_versions=False)
        if not report.is_valid:
            lines = (fault.line for fault in (*report.missing, *report.damaged))
            where = f"{self._uri}, version {snapshot.manifest.version}"
            raise CorruptFileError("the table is not whole:\n" + "\n".join(lines), where)

    @overload
    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_concurrency: int | None = None,
        dry_run: Literal[False] = False,
        **more: Unpack[CleanupKeywords],
    ) -> CleanupStats: ...

    @overload
    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_concurrency: int | None = None,
        dry_run: Literal[True],
        **more: Unpack[CleanupKeywords],
    ) -> CleanupExplanation: ...

    @with_keywords(CleanupKeywords, CLEANUP_DEFAULTS)
    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_concurrency: int | None = None,
        dry_run: bool = False,
        **more: Unpack[CleanupKeywords],
    ) -> CleanupStats | CleanupExplanation:
        """Remove old versions, and the files that no other version needs.

        The pinned version and all newer ones are retained, as are tagged versions and versions at
        which branches start. A version is removed if it meets all given conditions; without any
        condition, it must be two weeks old. Files that no version refers to, such as those of
        failed writers, are removed once they are seven days old. Only files whose names follow the
        table format are considered. Shallow clones elsewhere are unknown to the table: tag the
        versions that they need.

        Opening or reading a removed version raises an error. After an interrupted cleanup, each
        version is either complete or removed, and the next call continues.

        Args:
            older_than: Remove only versions that were committed longer ago than this.
            retain_versions: Number of newest versions to retain.
            delete_unverified: Whether to remove unreferenced files at any age. Safe only if there
                are no concurrent writers.
            error_if_tagged_old_versions: Whether to raise, and remove nothing, if a version to be
                removed is tagged.
            delete_rate_limit: Maximum number of files deleted per second.
            versions: Remove only these versions.
            delete_concurrency: Number of concurrent requests; 8 by default.
            dry_run: Whether to remove nothing and report what would be removed.

        Returns:
            What was removed; with `dry_run`, all files that would be removed.

        Raises:
            CorruptFileError: If any manifest, tag or branch cannot be read. Nothing is removed
                then.
            UnsupportedFeatureError: If the table uses unknown features that may refer to files.
            InvalidInputError: If a version to be removed is tagged, or an argument is invalid.
        """
        from pilum.progress_display import progress
        from pilum.table.upkeep.cleanup import run_cleanup

        plan = planned_cleanup(self._snapshot, older_than, retain_versions, more)
        per_second = more.get("delete_rate_limit")
        concurrency = optional_count("delete_concurrency", delete_concurrency, 1)
        num_files = sum(1 for _ in plan.files())
        if dry_run:
            return explained_cleanup(plan, num_files)
        with progress("Removing files", num_files) as on_file:
            store = self._snapshot.store
            removed, num_failed = run_cleanup(
                store, plan, per_second=per_second, concurrency=concurrency, on_file=on_file
            )
        return CleanupStats.of(removed, num_failed)

    @with_keywords(CleanupKeywords, CLEANUP_DEFAULTS)
    def explain_cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        include_files: bool = False,
        max_files: int = 1000,
        **more: Unpack[CleanupKeywords],
    ) -> CleanupExplanation:
        """Report what `cleanup_old_versions` would do.

        Args:
            older_than: As in `cleanup_old_versions`, like the other arguments.
            retain_versions: As in `cleanup_old_versions`.
            include_files: Whether to list files.
            max_files: Maximum number of files to list.

        Raises:
            As `cleanup_old_versions`.
        """
        plan = planned_cleanup(self._snapshot, older_than, retain_versions, more)
        return explained_cleanup(
            plan, require_count("max_files", max_files) if include_files else 0
        )

    def all_files(self) -> pa.RecordBatchReader:
        """List all files below the root of the table, except in base paths.

        Returns:
            A stream of `base_uri`, `path` below it, `size_bytes` and `last_modified`.
        """
        return all_files(own_store(self._snapshot.store), self._uri)

    def tracked_files(
        self,
        *,
        min_version: int | None = None,
        progress: Callable[[int, int | None], object] | None = None,
    ) -> pa.RecordBatchReader:
        """List the files that versions of the table need, version by version, newest first.

        Args:
            min_version: The oldest version to include.
            progress: Called after each version with the number of versions done and the total.

        Returns:
            A stream of `version`, `base_uri`, `path` below it, and `type`: "manifest", "data file",
            "deletion file", "transaction file" or "index file". A file is listed for each version
            that needs it.
        """
        least = 0 if min_version is None else require_count("min_version", min_version)
        return tracked_files(own_store(self._snapshot.store), self._uri, least, progress)

    @staticmethod
    def drop(
        base_uri: Location,
        storage_options: Mapping[str, str] | None = None,
        ignore_not_found: bool | None = None,
    ) -> None:
        """Delete a table with all versions, branches and tags, and anything else in its folder.

        Files in base paths are not deleted.

        Args:
            base_uri: Location of the table.
            storage_options: Options of the object store.
            ignore_not_found: Whether to do nothing if no table exists.

        Raises:
            DatasetNotFoundError: If no table exists there. Other folders are never deleted.
            InvalidInputError: If the location is a branch of a table.
            UnsupportedFeatureError: If an external manifest store holds the versions of the table.
        """
        from pilum.table.upkeep.cleanup import drop_table

        try:
            drop_table(open_table(base_uri, storage_options))
        except DatasetNotFoundError:
            if not ignore_not_found:
                raise


def auto_cleanup_settings(options: Any) -> dict[str, str]:
    """Return the table settings for the requested automatic cleanup."""
    names = list(AutoCleanupConfig.__annotations__)
    if not isinstance(options, Mapping) or set(options) != set(names):
        raise InvalidInputError(f"auto cleanup: expected a dict of {names}, found {options!r}")
    return auto_cleanup_config(
        require_count("interval", options["interval"]),
        require_count("older_than_seconds", options["older_than_seconds"]),
    )
