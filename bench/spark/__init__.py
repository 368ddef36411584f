"""pilum beside Spark's own Parquet, in one session: `python -m bench --spark`."""

from bench.spark.questions import QUESTIONS
from bench.spark.run import Answer, measure, table_of

__all__ = ["QUESTIONS", "Answer", "measure", "table_of"]
