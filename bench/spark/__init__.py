"""pilum beside Spark's own Parquet, in one session: `python -m bench --spark`."""

from bench.spark.page import section
from bench.spark.questions import QUESTIONS
from bench.spark.run import MEMORY, Answer, measure, table_of

__all__ = ["MEMORY", "QUESTIONS", "Answer", "measure", "section", "table_of"]
