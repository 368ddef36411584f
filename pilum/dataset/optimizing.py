"""Upkeep that makes tables faster: fewer and fuller files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypedDict

from pilum.dataset.base import DatasetBase
from pilum.dataset.options import require_count
from pilum.dataset.transactions import publish
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.table.commit.operations.update_config import MapUpdate, UpdateConfig
from pilum.table.commit.transaction import Transaction
from pilum.table.upkeep.auto_cleanup import AUTO_CLEANUP_PREFIX, auto_cleanup_config

# What does the work is imported with the first compaction: most processes never need it.
if TYPE_CHECKING:
    from pilum.dataset.compaction_tasks import CompactionMetrics

__all__ = ["AutoCleanupConfig", "DatasetOptimizer", "Optimizing", "auto_cleanup_settings"]


class AutoCleanupConfig(TypedDict):
    """When old versions are removed.

    Attributes:
        interval: After every so many versions.
        older_than_seconds: If they were committed longer ago.
    """

    interval: int
    older_than_seconds: int


class DatasetOptimizer:
    """Upkeep of a table; see `LanceDataset.optimize`."""

    def __init__(self, dataset: DatasetBase) -> None:
        self._dataset = dataset

    def optimize_indices(self, **_: Any) -> NoReturn:
        """Indices cannot be made or changed yet.

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
        """Write small fragments together, without deleted rows and dropped columns.

        The dataset moves to the new version; older ones keep their files. Rows keep their order
        where they are written together, and new fragments stand behind all others. What is not
        given is a setting `lance.compaction.*` of the table, or the default. Rows are streamed. If
        others change some of the fragments meanwhile, the rest is committed. An interrupted
        compaction leaves nothing behind.

        Args:
            target_rows_per_fragment: Fragments with fewer rows are small, and new ones have as many
                or more, but fewer than twice as many; 1,048,576 by default.
            max_rows_per_group: Rows per row group in files of version 0.1; 1,024 by default.
            max_bytes_per_file: A new file that has this size gets no further rows; 90 GiB by
                default. It does not change which fragments are small.
            materialize_deletions: Whether fragments are written anew because of deleted rows
                alone; they are by default.
            materialize_deletions_threshold: If more than this share of rows is deleted; 0.1 by
                default.
            defer_index_remap: True records where rows went even if no index needs it yet. False
                demands indices that are written anew, which is not supported where one covers the
                fragments. By default moves are recorded where an index needs it.
            num_threads: Tasks at a time; as many as there are processors by default.
            batch_size: Rows that are read at a time.
            compaction_mode: Rows are always encoded anew; "force_binary_copy" is refused.
            binary_copy_read_batch_bytes: Only for binary copies; without effect.
            max_source_fragments: No more fragments are written anew in this call.
            max_source_rows: No more rows, deleted ones not counted.
            max_source_bytes: No more bytes of data files.
            excluded_fragment_ids: These fragments stay, and none is written together with others
                from their other side.
            data_storage_version: File version of the new files; that of the table by default.
            target_bytes_per_fragment: Fragments whose data files have this size are not small,
                however few their rows are, and new ones get no further rows from there on; 90 GiB
                by default. Files beside data files, which hold blobs, do not count.
            memory_limit: Bytes that all tasks at a time may take; 1 GiB by default, and a task
                takes up to 320 MiB. One task always runs.

        Raises:
            CommitConflictError: If others changed all of the fragments, or overwrote the table.
            CommitContentionError: If every attempt lost to a concurrent commit.
            UnsupportedFeatureError: If the table, or an index, has what cannot be compacted.
            CorruptFileError: If a file is damaged.
            InvalidInputError: If an argument or setting is invalid.
        """
        options = {name: value for name, value in locals().items() if name != "self"}
        from pilum.dataset.compacting import Compaction

        return Compaction.execute(self._dataset, options)

    def enable_auto_cleanup(self, auto_cleanup_config: AutoCleanupConfig) -> None:
        """Has every writer remove old versions now and then; one commit of settings.

        A cleanup that fails is logged and never fails a commit.

        Args:
            auto_cleanup_config: A dict with `interval`, a number of versions, and
                `older_than_seconds`.

        Raises:
            InvalidInputError: If one is missing or no number.
            CommitConflictError: If a concurrent commit changed the same settings.
        """
        self._configure(dict(auto_cleanup_settings(auto_cleanup_config)))

    def disable_auto_cleanup(self) -> None:
        """Remove the settings again.

        Raises:
            CommitConflictError: If a concurrent commit changed the same settings.
        """
        config = self._dataset.snapshot.manifest.config
        self._configure({key: None for key in config if key.startswith(AUTO_CLEANUP_PREFIX)})

    def _configure(self, values: Mapping[str, str | None]) -> None:
        before = self._dataset.snapshot
        operation = UpdateConfig(config=MapUpdate(values))
        found = publish(before.store, Transaction(before.manifest.version, operation))
        self._dataset.advance(found)


def auto_cleanup_settings(options: Any) -> dict[str, str]:
    """The settings that a user asks for.

    Raises:
        InvalidInputError: If a member is missing or no number.
    """
    names = list(AutoCleanupConfig.__annotations__)
    if not isinstance(options, Mapping) or set(options) != set(names):
        raise InvalidInputError(f"auto cleanup: expected a dict of {names}, found {options!r}")
    return auto_cleanup_config(
        require_count("interval", options["interval"]),
        require_count("older_than_seconds", options["older_than_seconds"]),
    )


class Optimizing(DatasetBase):
    """Methods of `LanceDataset` for upkeep."""

    @property
    def optimize(self) -> DatasetOptimizer:
        """Upkeep of the table."""
        return DatasetOptimizer(self)
