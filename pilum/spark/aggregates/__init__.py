"""Aggregates that tasks compute with Arrow, so that few rows cross to Spark's JVM.

    tasks    scan ─▶ count, sum, min, max of each batch, group by group ─▶ a row or a few
    Spark    the same of these: `sum(partial)`, `min(partial)` …

Spark hands no aggregates to Python sources, so they are asked for by `pilum.spark.aggregate`, or
found in the text that `pilum.spark.sql` is given.
"""
