"""Aggregates that tasks compute with Arrow, so that few rows cross to Spark's JVM.

    tasks    scan ─▶ count, sum, min, max of each batch, group by group ─▶ one row or a few
    Spark    combines these: `sum(partial)`, `min(partial)` …

Spark does not push aggregates down to Python sources. So they are requested with
`pilum.spark.aggregate`, or found in the text that is passed to `pilum.spark.sql`.
"""
