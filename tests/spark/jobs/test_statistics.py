from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from spark.helpers import write_table

import pilum.spark
from pilum.errors import ColumnNotFoundError
from pilum.spark import ColumnStatistics


def test_columns_are_summed_up_over_all_fragments(spark: SparkSession, uri: str) -> None:
    for start in (0, 10):
        ids = list(range(start, start + 10))
        names = [f"n{i % 3}" if i % 5 else None for i in ids]
        write_table(uri, pa.table({"id": ids, "name": names}), "append")
    pilum.dataset(uri).delete("id = 0")
    assert pilum.spark.analyze(spark, uri) == [
        ColumnStatistics("id", 19, 0, 1, 19, 19),
        ColumnStatistics("name", 19, 3, "n0", "n2", 3),
    ]
    (one,) = pilum.spark.analyze(spark, uri, ["name"], version=1)
    assert (one.num_rows, one.null_count) == (10, 2)
    with pytest.raises(ColumnNotFoundError, match="nope"):
        pilum.spark.analyze(spark, uri, ["nope"])
