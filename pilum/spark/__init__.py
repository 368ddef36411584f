"""Lance tables in Apache Spark, without a jar: `format("pilum")` and a few helpers.

>>> import pilum.spark
>>> pilum.spark.configure(session)                       # filters may reach the scan
>>> frame = session.createDataFrame([(1, "a")], "id int, name string")
>>> pilum.spark.write(frame, "/tmp/t", mode="create")    # one commit; returns the version
1
>>> pilum.spark.read(session, "/tmp/t", columns=["name"], filter="id > 0").show()
>>> session.read.format("pilum").load("/tmp/t")          # the same by Spark's own door
"""

from __future__ import annotations

from pilum.spark.frames import configure, count, read, register, write
from pilum.spark.jobs.columns import add_columns, update_columns
from pilum.spark.jobs.ingest import IngestResult, export, ingest
from pilum.spark.jobs.upkeep import cleanup, compact, verify
from pilum.spark.merging import SparkMerge, merge_into
from pilum.spark.rows import delete, update
from pilum.spark.statements.door import sql
from pilum.spark.upsert import upsert

__all__ = [
    "IngestResult",
    "SparkMerge",
    "add_columns",
    "cleanup",
    "compact",
    "configure",
    "count",
    "delete",
    "export",
    "ingest",
    "merge_into",
    "read",
    "register",
    "sql",
    "update",
    "update_columns",
    "upsert",
    "verify",
    "write",
]
