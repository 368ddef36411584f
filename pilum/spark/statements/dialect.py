"""The SQL dialect of Spark 4 for sqlglot."""

from __future__ import annotations

from sqlglot.dialects.databricks import Databricks

__all__ = ["Spark4"]


class Spark4(Databricks):
    """Differences of Spark 4 from its predecessors: casts fail, a doubled quote is one quote."""

    class Tokenizer(Databricks.Tokenizer):
        """Tokenizer settings for quotes within strings."""

        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012 - sqlglot requires this form
