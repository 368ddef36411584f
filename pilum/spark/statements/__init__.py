"""SQL statements on tables, parsed here and not by Spark; the public API is `pilum.spark.sql`.

references   which tables a text names, and where
needs        which columns of them it reads, and what their rows must fulfil
conditions   what of Spark's SQL means the same in a filter of pilum
merges       MERGE INTO
statements   all others
"""
