"""Reading and writing one table from many processes: the interface for Spark and similar engines.

    driver     plan_splits ──▶ Split, …                start_job ──▶ WriteJob
                  │                                       │
    workers    read_split ──▶ batches         batches ──▶ write_part ──▶ PartMessage
                                                          │
    driver                                             commit_parts  or  abort_parts

The values that are passed between processes are small, frozen and plain. The driver pins a version,
which is never looked up again. The names of all files of a job contain its uuid, and its one commit
has the same uuid. Therefore a commit whose response was lost can be found again, and an abort can
check whether the files that it would delete are part of the table. An aborted job leaves a
tombstone for tasks that are still running. Source: docs/spark.md, "Commits".

Jobs whose tasks get no rows from the engine run on any engine that offers `Tasks`:

    versions, splits       pin a version, plan a scan, read a part
    jobs, writing          plan a write, write a part, commit
    tasks                  what an engine has to offer
    row_changes, merging   delete, update and merge rows
    columns, indices       compute columns, build indices
    journal                resume after a failure
    upkeep, clustering     compact, cluster, verify, summarize
    following, changes     follow a table from version to version
    conditions, files      SQL conditions; rows as files
"""

from __future__ import annotations

from pilum.distributed.jobs import Attempt, Mode, PartMessage, WriteJob, start_job
from pilum.distributed.splits import (
    DEFAULT_SPLIT_BYTES,
    Split,
    group_splits,
    plan_splits,
    read_split,
    split_fragment,
)
from pilum.distributed.tasks import Tasks
from pilum.distributed.versions import TableVersion, find_version
from pilum.distributed.writing import abort_parts, commit_parts, write_part

__all__ = [
    "DEFAULT_SPLIT_BYTES",
    "Attempt",
    "Mode",
    "PartMessage",
    "Split",
    "TableVersion",
    "Tasks",
    "WriteJob",
    "abort_parts",
    "commit_parts",
    "find_version",
    "group_splits",
    "plan_splits",
    "read_split",
    "split_fragment",
    "start_job",
    "write_part",
]
