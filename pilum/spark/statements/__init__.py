"""Statements of SQL on tables: read here, not by Spark; the door is `pilum.spark.sql`.

references   which tables a text names, and where
needs        which columns of them it reads, and what their rows must fulfil
conditions   what of Spark's SQL means the same in a filter of pilum
merges       MERGE INTO
statements   all others
"""
