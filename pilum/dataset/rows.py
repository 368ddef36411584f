"""Changes of rows: delete, update and merge, each in one commit that is retried after conflicts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Literal, NoReturn, TypedDict

import pyarrow as pa

from pilum.arguments import require_choice
from pilum.dataset.base import DatasetBase, Retries, commit_change, commit_once
from pilum.dataset.forms import Transaction
from pilum.dataset.inputs import to_reader
from pilum.dataset.merge_plan import MergeClauses, explained_merge
from pilum.dataset.projection import bind_values
from pilum.dataset.scan import Filter
from pilum.dataset.write import require_version
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.expressions import bind
from pilum.table.changes.join import Spool
from pilum.table.changes.merge_rows import MergeCounts, merge_rows
from pilum.table.changes.row_changes import (
    delete_all_rows,
    delete_rows,
    matching_rows,
    update_rows,
)
from pilum.table.commit import transaction
from pilum.table.commit.jobs import JobKey
from pilum.table.commit.operations.base import Operation
from pilum.table.read.snapshot import Snapshot
from pilum.table.write.blob_inputs import with_all_members, with_blobs_v2
from pilum.table.write.sidecars import discard_file

__all__ = [
    "DeleteResult",
    "MergeInsertBuilder",
    "MergeResult",
    "RowChanges",
    "UpdateResult",
    "merge_result",
]

_NOTHING = MergeCounts(0, 0, 0)


class DeleteResult(TypedDict):
    """The result of a delete."""

    num_deleted_rows: int


class UpdateResult(TypedDict):
    """The result of an update."""

    num_rows_updated: int


class MergeResult(TypedDict):
    """The result of a merge."""

    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int


class RowChanges(DatasetBase):
    """Methods of `LanceDataset` that change rows."""

    def delete(
        self,
        predicate: Filter,
        *,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
        idempotency_key: JobKey | None = None,
    ) -> DeleteResult:
        """Delete rows and move this dataset to the new version.

        The rows are marked as deleted. Data files do not change, and older versions keep all their
        rows. A delete that matches no row also creates a version.

        Args:
            predicate: SQL, or a `pyarrow.compute` expression. Rows for which it is true are
                deleted; rows for which it is null are kept.
            conflict_retries: Number of retries when a concurrent commit changed or moved the same
                rows. Each retry selects the rows again.
            retry_timeout: No retry starts later than this after the call.
            idempotency_key: Identifies this job. If the table already contains the job, nothing
                changes and the count is 0. See `pilum.write_dataset`.

        Returns:
            A dict with `num_deleted_rows`.

        Raises:
            FilterError: If the predicate cannot be parsed, bound or evaluated.
            CommitConflictError: If a concurrent commit conflicts with the delete.
            CommitContentionError: If every attempt conflicted with a concurrent commit.
            InvalidInputError: If any other argument is invalid.
        """
        retries = Retries(conflict_retries, retry_timeout)

        def change(snapshot: Snapshot) -> tuple[Operation, int]:
            rows = matching_rows(snapshot, bind(predicate, snapshot.schema.arrow))
            return delete_rows(snapshot, rows, str(predicate)), sum(map(len, rows.values()))

        return DeleteResult(num_deleted_rows=self._commit(change, retries, idempotency_key))

    def truncate_table(self) -> None:
        """Delete all rows and move this dataset to the new version; no data file is read.

        Raises:
            CommitConflictError: If a concurrent commit conflicts with it.
            CommitContentionError: If every attempt conflicted with a concurrent commit.
        """

        def change(snapshot: Snapshot) -> tuple[Operation, int]:
            return delete_all_rows(snapshot), snapshot.num_rows

        self._commit(change, Retries(), None)

    def update(
        self,
        updates: Mapping[str, str],
        where: Filter | None = None,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
        data_storage_version: str | None = None,
        *,
        idempotency_key: JobKey | None = None,
    ) -> UpdateResult:
        """Update values and move this dataset to the new version.

        Rows do not change in place: the new rows are written after all others, and the old ones are
        marked as deleted. An update that matches no row also creates a version.

        Args:
            updates: SQL expressions by column, which compute the new values. All expressions see
                the values before the update, so that two columns can be swapped. Results are cast
                to the type of the column.
            where: SQL, or a `pyarrow.compute` expression. Rows for which it is true are updated;
                all rows if None.
            conflict_retries: Number of retries when a concurrent commit changed or moved the same
                rows. Each retry selects the rows again.
            retry_timeout: No retry starts later than this after the call.
            data_storage_version: File version of the written files, which must be that of the
                table.
            idempotency_key: Identifies this job. If the table already contains the job, nothing
                changes and the count is 0. See `pilum.write_dataset`.

        Returns:
            A dict with `num_rows_updated`.

        Raises:
            ColumnNotFoundError: If a column does not exist.
            FilterError: If SQL cannot be parsed or bound, a value does not fit the type of the
                column, or a computation fails.
            SchemaMismatchError: If a value of a non-nullable column is null.
            CommitConflictError: If a concurrent commit conflicts with the update.
            CommitContentionError: If every attempt conflicted with a concurrent commit.
            UnsupportedFeatureError: If a column is a struct member or a blob of version 2.
            InvalidInputError: If any other argument is invalid.
        """
        if not isinstance(updates, Mapping) or not updates:
            raise InvalidInputError(f"updates: expected a dict of columns and SQL, found {updates}")
        retries = Retries(conflict_retries, retry_timeout)
        require_version(self._snapshot, data_storage_version)

        def change(snapshot: Snapshot) -> tuple[Operation, int]:
            schema, scope = snapshot.schema, snapshot.described.arrow
            values = bind_values(updates, schema, scope, with_blobs=True)
            return update_rows(
                snapshot, None if where is None else bind(where, schema.arrow), values
            )

        return UpdateResult(num_rows_updated=self._commit(change, retries, idempotency_key))

    def merge_insert(self, on: str | Iterable[str] | None = None) -> MergeInsertBuilder:
        """Start a merge, which joins source rows with rows of the table by key.

        Args:
            on: The key column or columns; None for the primary key of the table.

        Returns:
            A builder. Configure what happens to the rows, then call `execute`.

        Raises:
            ColumnNotFoundError: If a column does not exist.
            InvalidInputError: If no key is given and the table has no primary key.
        """
        return MergeInsertBuilder(self, on)

    def _commit(
        self,
        change: Callable[[Snapshot], tuple[Operation, int]],
        retries: Retries,
        idempotency_key: JobKey | None,
    ) -> int:
        """Commit a change and return the number of rows; 0 if the table contains its job."""

        def attempts(properties: Mapping[str, str]) -> tuple[Snapshot, int]:
            return retries.run(
                self._snapshot, partial(commit_change, change=change, properties=properties)
            )

        return commit_once(self, idempotency_key, attempts, 0)


class MergeInsertBuilder(MergeClauses):
    """A builder that configures and runs a merge; created by `LanceDataset.merge_insert`.

    Rows that match, source rows that do not match, and rows that exist only in the table are left
    unchanged unless a method says otherwise. Among methods for the same rows, the last call
    applies.
    """

    def __init__(self, dataset: DatasetBase, on: str | Iterable[str] | None = None) -> None:
        super().__init__(dataset.snapshot.schema, on)
        self._dataset = dataset
        self._uses_index = True

    def use_index(self, use_index: bool) -> MergeInsertBuilder:
        """Set whether an index on the key may be used, which is the default."""
        if not isinstance(use_index, bool):
            raise InvalidInputError(f"use_index: expected a bool, found {use_index!r}")
        self._uses_index = use_index
        return self

    def data_storage_version(self, version: str) -> MergeInsertBuilder:
        """Set the file version of written files, which must be that of the table."""
        require_version(self._dataset.snapshot, version)
        return self

    def write_mode(
        self, mode: Literal["auto", "rewrite_rows", "rewrite_columns"]
    ) -> MergeInsertBuilder:
        """Set how rows are written, which is always as whole rows ("rewrite_rows").

        Raises:
            UnsupportedFeatureError: If the mode is "rewrite_columns".
        """
        if mode == "rewrite_columns":
            raise UnsupportedFeatureError("write_mode='rewrite_columns': rows are written whole")
        require_choice("write_mode", mode, "auto", "rewrite_rows")
        return self

    def execute(self, data_obj: Any, *, schema: pa.Schema | None = None) -> MergeResult:
        """Merge rows and move the dataset to the new version.

        A null key matches nothing. Floats match if their bits are equal: a NaN matches a NaN of the
        same sign and payload, and -0.0 does not match 0.0. The data is read once; large data is
        spilled to a temporary file during the merge.

        Args:
            data_obj: The source rows; see `pilum.write_dataset`.
            schema: Schema that the data is cast to. Required for an iterable that may be empty.

        Returns:
            A dict with `num_inserted_rows`, `num_updated_rows` and `num_deleted_rows`.

        Raises:
            SchemaMismatchError: If the source does not fit the table.
            ColumnNotFoundError: If a condition or expression names a column that neither side has.
            FilterError: If a condition or expression cannot be parsed, bound or evaluated.
            CommitConflictError: If a concurrent commit conflicts with the merge.
            CommitContentionError: If every attempt conflicted with a concurrent commit.
            UnsupportedFeatureError: If the source has nested columns that contain blobs.
            InvalidInputError: If several source rows match one row that they would change, a match
                is refused, no action is configured, or if another argument is invalid.
        """

        def change(properties: Mapping[str, str]) -> tuple[Snapshot, MergeCounts]:
            with self._opened(data_obj, schema) as spool:
                change = partial(self._merge, spool=spool)
                merge = partial(commit_change, change=change, properties=properties)
                return self._retries.run(self._dataset.snapshot, merge)

        return merge_result(commit_once(self._dataset, self._idempotency_key, change, _NOTHING))

    def execute_uncommitted(
        self, data_obj: Any, *, schema: pa.Schema | None = None
    ) -> tuple[Transaction, MergeResult]:
        """Write the files of a merge without committing them; see `execute`.

        `LanceDataset.commit` publishes the result. Such a commit no longer records which rows it
        changed, so it conflicts with any concurrent change of rows in the same fragments.

        Returns:
            The transaction to commit, and the result of the merge.
        """
        snapshot = self._dataset.snapshot
        with self._opened(data_obj, schema) as spool:
            operation, counts = self._merge(snapshot, spool)
        found = transaction.Transaction(snapshot.manifest.version, operation)
        return Transaction.from_table(found), merge_result(counts)

    execute_batches = execute
    execute_uncommitted_batches = execute_uncommitted

    def explain_plan(self, schema: pa.Schema | None = None, verbose: bool = False) -> str:
        """Describe what `execute` would do: one line per step, the last step first.

        Args:
            schema: Schema of the source; None for that of the table.
            verbose: Whether to also list the data files of the table.

        Raises:
            As `execute` for sources that do not fit.
        """
        snapshot = self._dataset.snapshot
        source = snapshot.schema.arrow if schema is None else schema
        self._require_something()
        self._plan.bound(snapshot, source)
        return explained_merge(
            snapshot, self._plan, source, uses_index=self._uses_index, verbose=verbose
        )

    def analyze_plan(self, data_obj: Any, *, schema: pa.Schema | None = None) -> str:
        """Run the merge without a commit, remove the written files, and report its costs.

        Args:
            data_obj: The source rows.
            schema: Schema that the data is cast to.

        Returns:
            A line with counts, time and files, followed by the steps of `explain_plan`.
        """
        snapshot = self._dataset.snapshot
        start = time.perf_counter()
        with self._opened(data_obj, schema) as spool:
            operation, counts = self._merge(snapshot, spool)
        elapsed_ms = (time.perf_counter() - start) * 1000
        files = operation.new_files()
        for path in files:
            discard_file(snapshot.store, path)
        steps = explained_merge(
            snapshot, self._plan, spool.schema, uses_index=self._uses_index, verbose=False
        ).splitlines()
        head = (
            f"Analyzed: num_inserted_rows={counts.inserted}, num_updated_rows={counts.updated}, "
            f"num_deleted_rows={counts.deleted}, num_files_written={len(files)}, "
            f"elapsed={elapsed_ms:.3f}ms"
        )
        return "\n".join([head, *(f"  {step}" for step in steps)])

    analyze_plan_batches = analyze_plan

    def target_bases(self, bases: Iterable[str]) -> NoReturn:
        """Raise UnsupportedFeatureError: merges write to the table's own folder.

        Raises:
            UnsupportedFeatureError: Always.
        """
        raise UnsupportedFeatureError(
            f"target_bases={bases!r}: merges write to the table's own folder; "
            "write_dataset and insert write to base paths"
        )

    def target_all_bases(self, include_primary: bool = True) -> NoReturn:
        """Raise UnsupportedFeatureError: merges write to the table's own folder.

        Raises:
            UnsupportedFeatureError: Always.
        """
        self.target_bases(["all", *(["primary"] if include_primary else [])])

    def mark_sstables_as_compacted(self, sstables: Any) -> NoReturn:
        """Raise UnsupportedFeatureError: the MemWAL is not supported.

        Raises:
            UnsupportedFeatureError: Always.
        """
        raise UnsupportedFeatureError(f"MemWAL is not supported: {sstables!r:.80}")

    def _require_something(self) -> None:
        if not self._plan.does_something:
            raise InvalidInputError("nothing to merge: call one of the when_ methods first")

    def _opened(self, data_obj: Any, schema: pa.Schema | None) -> Spool:
        self._require_something()
        reader = to_reader(data_obj, schema)
        table = self._dataset.snapshot
        if table.schema.has_marks and table.manifest.data_version.has_blobs_v2:
            reader = with_all_members(with_blobs_v2(reader))
        self._plan.bound(table, reader.schema)  # before it is read
        return Spool(reader)

    def _merge(self, snapshot: Snapshot, spool: Spool) -> tuple[Operation, MergeCounts]:
        clauses = self._plan.bound(snapshot, spool.schema)
        return merge_rows(snapshot, spool, replace(clauses, uses_index=self._uses_index))


def merge_result(counts: MergeCounts) -> MergeResult:
    """Convert counts to the public result."""
    return MergeResult(
        num_inserted_rows=counts.inserted,
        num_updated_rows=counts.updated,
        num_deleted_rows=counts.deleted,
    )
