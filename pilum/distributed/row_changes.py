"""Row deletes and updates: tasks search the fragments, and one commit marks the rows.

driver    pin a version, draw a uuid            one commit with the uuid, or all files are deleted
                 │                                    ▲
tasks            └──▶ write files whose names ──▶ results, pickled
                      contain the uuid
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from pilum.arguments import require_count
from pilum.dataset.base import Retries, commit_once, publish
from pilum.dataset.lance_dataset import LanceDataset, dataset
from pilum.dataset.projection import bind_values
from pilum.dataset.rows import DeleteResult, UpdateResult
from pilum.distributed.jobs import Attempt, WriteJob, job_on
from pilum.distributed.tasks import Tasks, fragment_groups, run_for_job, stored_bytes
from pilum.distributed.versions import TableVersion, branch_uri
from pilum.distributed.writing import abort_parts
from pilum.errors import CommitStatusUnknownError, InvalidInputError
from pilum.expressions import BoundFilter, BoundProjection, bind
from pilum.table.changes.row_changes import (
    Rewritten,
    delete_rows,
    finish_update,
    matching_rows,
    rewrite_matching,
)
from pilum.table.commit.jobs import JobKey
from pilum.table.commit.operations.base import Operation
from pilum.table.commit.transaction import Transaction
from pilum.table.model.deletion_vector import DeletionVector
from pilum.table.model.fragment import FragmentId
from pilum.table.read.scan import ScanOptions
from pilum.table.read.snapshot import Snapshot

__all__ = [
    "DeleteResult",
    "RowChange",
    "UpdateResult",
    "delete",
    "found_rows",
    "fragments_with",
    "update",
]

T = TypeVar("T")


@dataclass(frozen=True)
class RowChange:
    """The target of a row change, a table or branch, and how often it is retried after conflicts.

    `key` is the idempotency key of the job, if any.
    """

    uri: str
    storage_options: dict[str, str]
    retries: Retries
    key: JobKey | None

    @classmethod
    def of(
        cls,
        uri: str,
        branch: str | None = None,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(minutes=10),
        idempotency_key: JobKey | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> RowChange:
        """Combine and check the arguments that all row changes have; find the branch."""
        retries = Retries(conflict_retries, retry_timeout)
        access = dict(storage_options or {})
        return cls(branch_uri(uri, branch, access), access, retries, idempotency_key)

    @property
    def keywords(self) -> dict[str, Any]:
        """The retry settings and the key, as methods of `LanceDataset` take them."""
        return {
            "conflict_retries": self.retries.conflict_retries,
            "retry_timeout": self.retries.retry_timeout,
            "idempotency_key": self.key,
        }

    def opened(self) -> LanceDataset:
        """Return the table at its latest version."""
        return dataset(self.uri, storage_options=self.storage_options)

    def commit_once(
        self,
        table: LanceDataset,
        attempt: Callable[[WriteJob], tuple[Operation, T]],
        nothing: T,
    ) -> T:
        """Change the table, unless it already contains the job; the errors are those of the commit.

        `attempt` does the work of a job on the version `job.base`, and returns the operation to
        commit and the result. If it fails, its files are deleted. `nothing` is the result if the
        table already contains the job.
        """

        def run(properties: Mapping[str, str]) -> tuple[Snapshot, T]:
            return self.retries.run(table.snapshot, partial(self._once, attempt, properties))

        return commit_once(table, self.key, run, nothing)

    def _once(
        self,
        attempt: Callable[[WriteJob], tuple[Operation, T]],
        properties: Mapping[str, str],
        snapshot: Snapshot,
    ) -> tuple[Snapshot, T]:
        job = job_on(TableVersion.opened(self.uri, snapshot, self.storage_options))
        try:
            operation, result = attempt(job)
            transaction = Transaction(job.read_version, operation, job.uuid, properties)
            return publish(snapshot.store, transaction), result
        except CommitStatusUnknownError:  # the commit may succeed: keep its files
            raise
        except BaseException:
            abort_parts(job)
            raise


def delete(tasks: Tasks, change: RowChange, where: str, *, local_bytes: int = 0) -> DeleteResult:
    """Delete rows for which a condition is true with one commit, as `LanceDataset.delete` does.

    Tasks search the fragments and report matching rows. The driver needs 4 bytes per row. A table
    with at most `local_bytes` of data files is changed without tasks.
    """
    table = change.opened()
    bind(where, table.snapshot.schema.arrow)  # report errors here, before any task runs
    if _is_local(table, local_bytes):
        return table.delete(where, **change.keywords)

    def attempt(job: WriteJob) -> tuple[Operation, int]:
        rows = found_rows(tasks, job, where)
        return delete_rows(job.base.snapshot, rows, where), sum(map(len, rows.values()))

    return DeleteResult(num_deleted_rows=change.commit_once(table, attempt, 0))


def found_rows(tasks: Tasks, job: WriteJob, where: str) -> dict[FragmentId, DeletionVector]:
    """Return the rows of each fragment for which a condition is true, as tasks find them."""
    work = partial(_matching, job.base, bind(where, job.base.schema))
    found = run_for_job(tasks, fragment_groups(job.base), work, job)
    return {number: vector for part in found for number, vector in part.items()}


def fragments_with(tasks: Tasks, version: TableVersion, where: str) -> frozenset[FragmentId]:
    """Return the fragments that have rows for which a condition is true, as tasks find them."""
    work = partial(_fragments_of, version, bind(where, version.schema))
    return frozenset().union(*tasks.run(fragment_groups(version), work))


def update(
    tasks: Tasks,
    change: RowChange,
    values: Mapping[str, str],
    where: str | None = None,
    *,
    local_bytes: int = 0,
) -> UpdateResult:
    """Update values with one commit, as `LanceDataset.update` does.

    Tasks write the changed rows to new files and report their old addresses. The driver needs 8
    bytes per row. `local_bytes` is as in `delete`.
    """
    if not isinstance(values, Mapping) or not values:
        raise InvalidInputError(f"set: expected a dict of columns and SQL, found {values!r}")
    table = change.opened()
    _bound(table.snapshot, values, where)
    if _is_local(table, local_bytes):
        return table.update(values, where, **change.keywords)

    def attempt(job: WriteJob) -> tuple[Operation, int]:
        snapshot = job.base.snapshot
        bound, filter = _bound(snapshot, values, where)
        work = partial(_rewrite, job, filter, bound)
        parts = run_for_job(tasks, fragment_groups(job.base), work, job)
        return finish_update(snapshot, parts, bound), sum(len(part.addresses) for part in parts)

    return UpdateResult(num_rows_updated=change.commit_once(table, attempt, 0))


def _is_local(table: LanceDataset, local_bytes: int) -> bool:
    num_bytes = stored_bytes(table.snapshot.manifest.fragments)
    return num_bytes <= require_count("local_bytes", local_bytes)


def _matching(
    version: TableVersion, filter: BoundFilter, group: tuple[int, ...], _: Attempt
) -> dict[FragmentId, DeletionVector]:
    return matching_rows(version.snapshot, filter, group)


def _fragments_of(
    version: TableVersion, filter: BoundFilter, group: tuple[int, ...], attempt: Attempt
) -> frozenset[FragmentId]:
    return frozenset(_matching(version, filter, group, attempt))


def _rewrite(
    job: WriteJob,
    filter: BoundFilter | None,
    values: Mapping[str, BoundProjection],
    group: tuple[int, ...],
    attempt: Attempt,
) -> Rewritten:
    rows = ScanOptions(filter=filter, fragment_ids=group)
    options = replace(job.options, file_name_prefix=attempt.prefix(job.uuid))
    return rewrite_matching(job.base.snapshot, rows, values, options)


def _bound(
    snapshot: Snapshot, values: Mapping[str, str], where: str | None
) -> tuple[dict[str, BoundProjection], BoundFilter | None]:
    schema = snapshot.schema
    bound = bind_values(values, schema, snapshot.described.arrow, with_blobs=True)
    return bound, None if where is None else bind(where, schema.arrow)
