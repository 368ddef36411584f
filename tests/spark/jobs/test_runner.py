"""What job files say, in the session that all tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from spark.helpers import write_table

import pilum
from pilum.cli.jobs import carry_out, read_job


def test_each_kind_of_job_does_what_its_section_says(
    spark: SparkSession, tmp_path: Path, uri: str
) -> None:
    for number in range(2):
        write_table(uri, pa.table({"id": [2 * number, 2 * number + 1], "x": [0, 0]}), "append")
    pq.write_table(pa.table({"id": [3, 4], "x": [7, 8]}), tmp_path / "changes.parquet")
    path = tmp_path / "job.toml"
    path.write_text(f"""
[merge]
source = "{tmp_path}/changes.parquet"
target = "{uri}"
on = ["id"]

[add-columns]
target = "{uri}"
values = {{ y = "x + 1" }}

[update-columns]
target = "{uri}"
values = {{ y = "0" }}
where = "id < 2"
job = "zero"

[create-index]
target = "{uri}"
column = "id"
index_type = "zonemap"
parameters = {{ rows_per_zone = 16 }}
job = "zones"

[optimize-indices]
target = "{uri}"
index_names = ["id_idx"]
retrain = true

[compact]
target = "{uri}"

[cluster]
target = "{uri}"
sort_by = ["x", "id"]
num_partitions = 1

[verify]
target = "{uri}"
deep = true

[cleanup]
target = "{uri}"
older_than_days = 0

[export]
source = "{uri}"
target = "{tmp_path}/out"
filter = "id >= 3"
""")

    def run(kind: str) -> dict[str, Any]:
        return carry_out(spark, read_job(str(path), kind))

    merged = run("merge")
    assert (merged["num_updated_rows"], merged["num_inserted_rows"]) == (1, 1)
    assert run("add-columns")["version"] == 4
    assert run("update-columns")["version"] == run("update-columns")["version"] == 5
    assert run("create-index")["version"] == run("create-index")["version"] == 6
    assert pilum.dataset(uri).stats.index_stats("id_idx")["indices"][0]["rows_per_zone"] == 16
    assert run("optimize-indices")["version"] == 7
    assert run("compact")["fragments_added"] == 1
    pilum.dataset(uri).drop_index("id_idx")
    assert run("cluster")["fragments_removed"] == 1
    assert pilum.dataset(uri).to_table()["id"].to_pylist() == [0, 1, 2, 3, 4]
    assert run("verify") == {
        **dict.fromkeys(("missing", "damaged", "orphaned", "misread"), 0),
        "is_valid": True,
    }
    assert run("cleanup")["old_versions"] > 0
    run("export")
    assert sorted(pq.read_table(tmp_path / "out")["id"].to_pylist()) == [3, 4]
    rows = sorted(pilum.dataset(uri).to_table().to_pylist(), key=lambda row: row["id"])
    assert [tuple(row.values()) for row in rows] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, 0, 1),
        (3, 7, 8),
        (4, 8, 9),
    ]
