"""SQL statements on tables, parsed here and not by Spark; the public API is `pilum.spark.sql`.

references   the tables that a text names, and their positions
needs        the columns that it reads of them, and the conditions on their rows
conditions   translation of Spark's SQL to pilum's filters where both mean the same
merges       MERGE INTO
statements   all others
"""
