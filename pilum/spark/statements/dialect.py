"""The SQL of Spark 4 for sqlglot."""

from __future__ import annotations

from sqlglot.dialects.databricks import Databricks

__all__ = ["Spark4"]


class Spark4(Databricks):
    """Where Spark 4 is not as its forerunners: casts fail, a doubled quote is one quote."""

    class Tokenizer(Databricks.Tokenizer):
        """Quotes within strings."""

        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012 - how sqlglot wants its tables
