"""Optimization of tables: compaction into fewer and larger files, and automatic cleanup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypedDict

from pilum.arguments import require_count
from pilum.dataset.base import DatasetBase
from pilum.dataset.commits import commit_operation
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.table.commit.operations.update_config import MapUpdate, UpdateConfig
from pilum.table.upkeep.auto_cleanup import AUTO_CLEANUP_PREFIX, auto_cleanup_config

# The implementation is imported with the first compaction: most processes never need it.
if TYPE_CHECKING:
    from pilum.dataset.compaction_tasks import CompactionMetrics

__all__ = ["AutoCleanupConfig", "DatasetOptimizer", "Optimizing", "auto_cleanup_settings"]


class AutoCleanupConfig(TypedDict):
    """Settings of the automatic cleanup of old versions.

    Attributes:
        interval: Number of versions between two cleanups.
        older_than_seconds: Only versions older than this are removed.
    """

    interval: int
    older_than_seconds: int


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

    def compact_files(
        self,
        *,
        target_rows_per_fragment: int | None = None,
        max_rows_per_group: int | None = None,
        max_bytes_per_file: int | None = None,
        materialize_deletions: bool | None = None,
        materialize_deletions_threshold: float | None = None,
        defer_index_remap: bool | None = None,
        num_threads: int | None = None,
        batch_size: int | None = None,
        compaction_mode: Literal["reencode", "try_binary_copy", "force_binary_copy"] | None = None,
        binary_copy_read_batch_bytes: int | None = None,
        max_source_fragments: int | None = None,
        max_source_rows: int | None = None,
        max_source_bytes: int | None = None,
        excluded_fragment_ids: list[int] | None = None,
        data_storage_version: str | None = None,
        target_bytes_per_fragment: int | None = None,
        memory_limit: int | None = None,
    ) -> CompactionMetrics:
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
        options = {name: value for name, value in locals().items() if name != "self"}
        from pilum.dataset.compacting import Compaction

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


class Optimizing(DatasetBase):
    """Methods of `LanceDataset` for optimization."""

    @property
    def optimize(self) -> DatasetOptimizer:
        """The optimizer of the table."""
        return DatasetOptimizer(self)
