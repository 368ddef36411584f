"""`%pilum` and `%%pilum`: what IPython calls, without IPython."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from spark.notebooks import Shell

import pilum
import pilum.spark
from pilum.errors import InvalidInputError


def test_cells_of_sql(spark: SparkSession, uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    pilum.write_dataset(pa.table({"id": range(6)}), uri)
    shell = Shell(spark=spark)
    shell.load("pilum.spark")
    magic = shell.magics["pilum"]
    assert magic("", f"SELECT id AS number FROM lance.`{uri}`\nWHERE id = 4") is None
    shown = capsys.readouterr().out.replace(" ", "").split()
    assert [line for line in shown if line.startswith("|")] == ["|number|", "|4|"]
    magic(" large ", f"SELECT id FROM lance.`{uri}` WHERE id > 3")
    assert sorted(row.id for row in shell.user_ns["large"].collect()) == [4, 5]
    counted = magic(f"SELECT count(*) FROM lance.`{uri}`")
    assert counted is not None
    assert counted.collect() == [(6,)]
    with pytest.raises(InvalidInputError, match="the name of a variable"):
        magic("two words", f"DELETE FROM lance.`{uri}`")
    assert pilum.dataset(uri).count_rows() == 6
