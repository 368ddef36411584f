"""Reading and writing one table from many processes: the seams for Spark, and for others like it.

    driver     plan_splits ──▶ Split, …                start_job ──▶ WriteJob
                  │                                       │
    workers    read_split ──▶ batches         batches ──▶ write_part ──▶ PartMessage
                                                          │
    driver                                             commit_parts  or  abort_parts

What travels is small, frozen and made of plain values. A version is pinned by the driver and
never looked up again. All files of a job carry its uuid in their names, and its one commit has
that uuid too: so a commit whose answer was lost is found again, and an abort can tell whether
the files that it is about to delete are part of the table. A job that is given up leaves a mark,
for tasks that are still running then. Source: docs/spark.md, "Commits".
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
