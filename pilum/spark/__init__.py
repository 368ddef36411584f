"""Lance tables in Apache Spark without a jar: `format("pilum")` and helper functions.

>>> import pilum.spark
>>> frame = session.createDataFrame([(1, "a")], "id int, name string")
>>> pilum.spark.write(frame, "/tmp/t", mode="create")    # one commit; returns the version
1
>>> pilum.spark.read(session, "/tmp/t", columns=["name"], filter="id > 0").show()
>>> pilum.spark.table(session, "/tmp/t").where("id > 0").select("name").show()  # the same
>>> session.read.format("pilum").load("/tmp/t")          # all columns, by Spark's own door
"""

from __future__ import annotations

from pilum.distributed.upkeep import ColumnStatistics
from pilum.spark.aggregates.source import aggregate
from pilum.spark.catalog import NameFile, attach, detach
from pilum.spark.feeds import changes
from pilum.spark.frames import configure, count, read, register, write
from pilum.spark.job_reports import reports
from pilum.spark.jobs.clustering import cluster
from pilum.spark.jobs.columns import add_columns, replace_columns, update_columns
from pilum.spark.jobs.doctor import doctor
from pilum.spark.jobs.export import export
from pilum.spark.jobs.indices import create_index, optimize_indices
from pilum.spark.jobs.ingest import IngestResult, ingest
from pilum.spark.jobs.upkeep import analyze, cleanup, compact, verify
from pilum.spark.magic import load_ipython_extension
from pilum.spark.merging import SparkMerge, merge_into
from pilum.spark.narrowing.leaves import Reads
from pilum.spark.narrowing.tables import narrow, reads, table
from pilum.spark.replacing import replace_where
from pilum.spark.rows import delete, update
from pilum.spark.statements import sql
from pilum.spark.stream_progress import SourceProgress, StreamProgress, stream_progress
from pilum.spark.upsert import upsert

__all__ = [
    "ColumnStatistics",
    "IngestResult",
    "NameFile",
    "Reads",
    "SourceProgress",
    "SparkMerge",
    "StreamProgress",
    "add_columns",
    "aggregate",
    "analyze",
    "attach",
    "changes",
    "cleanup",
    "cluster",
    "compact",
    "configure",
    "count",
    "create_index",
    "delete",
    "detach",
    "doctor",
    "export",
    "ingest",
    "load_ipython_extension",
    "merge_into",
    "narrow",
    "optimize_indices",
    "read",
    "reads",
    "register",
    "replace_columns",
    "replace_where",
    "reports",
    "sql",
    "stream_progress",
    "table",
    "update",
    "update_columns",
    "upsert",
    "verify",
    "write",
]
