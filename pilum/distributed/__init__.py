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
"""

from __future__ import annotations

from pilum.distributed.ending import abort_parts, commit_parts
from pilum.distributed.job import Mode, PartMessage, WriteJob
from pilum.distributed.parts import write_part
from pilum.distributed.splits import (
    DEFAULT_SPLIT_BYTES,
    Split,
    group_splits,
    plan_splits,
    read_split,
    split_fragment,
)
from pilum.distributed.starting import start_job

__all__ = [
    "DEFAULT_SPLIT_BYTES",
    "Mode",
    "PartMessage",
    "Split",
    "WriteJob",
    "abort_parts",
    "commit_parts",
    "group_splits",
    "plan_splits",
    "read_split",
    "split_fragment",
    "start_job",
    "write_part",
]
