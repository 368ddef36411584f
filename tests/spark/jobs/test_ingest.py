from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import pilum
import pilum.spark
from pilum.errors import (
    CorruptFileError,
    DatasetAlreadyExistsError,
    InvalidInputError,
    SchemaMismatchError,
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three Parquet files in folders that are named after a column; one name is like a pattern."""
    folder = tmp_path / "in put"
    for number, name in enumerate(["day=1/a.parquet", "day=1/b[1].parquet", "day=2/c.parquet"]):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"a": [2 * number, 2 * number + 1]}), path)
    return folder


def rows(uri: str) -> list[dict[str, Any]]:
    found = pilum.dataset(uri).to_table().to_pylist()
    return sorted(found, key=lambda row: json.dumps(row, default=str))


@pytest.mark.reference
def test_a_named_job_takes_each_file_once(spark: SparkSession, source: Path, uri: str) -> None:
    import lance

    def run() -> pilum.spark.IngestResult:
        return pilum.spark.ingest(spark, str(source), uri, job="days", files_per_commit=2)

    assert run() == pilum.spark.IngestResult(version=2, num_files=3, num_commits=2)
    wanted = [{"a": a, "day": 1 + (a > 3)} for a in range(6)]
    assert sorted(lance.dataset(uri).to_table().to_pylist(), key=lambda row: row["a"]) == wanted
    assert run() == pilum.spark.IngestResult(version=2, num_files=0, num_commits=0)
    pq.write_table(pa.table({"a": [6]}), source / "day=2/d.parquet")
    assert run() == pilum.spark.IngestResult(version=3, num_files=1, num_commits=1)
    assert len(rows(uri)) == 7
    with pytest.raises(InvalidInputError, match="was begun with"):
        pilum.spark.ingest(spark, str(source / "day=1"), uri, job="days")
    pq.write_table(pa.table({"a": [7, 8]}), source / "day=2/d.parquet")
    with pytest.raises(InvalidInputError, match="changed after"):
        run()
    Path(uri, "_jobs/days/portion-0.json").unlink()
    with pytest.raises(CorruptFileError, match="portion 0"):
        run()
    assert len(rows(uri)) == 7


def test_files_end_at_a_size(spark: SparkSession, tmp_path: Path, uri: str) -> None:
    numbers = np.random.default_rng(3).integers(0, 2**62, 40_000)
    pq.write_table(pa.table({"a": numbers}), tmp_path / "one.parquet")
    path = str(tmp_path / "one.parquet")
    pilum.spark.ingest(spark, path, uri, max_bytes_per_file=50_000, memory_limit=200_000_000)
    table = pilum.dataset(uri)
    assert len(table.get_fragments()) == 4  # of batches of 10,000 rows
    assert sorted(table.to_table()["a"].to_pylist()) == sorted(numbers.tolist())


def test_a_job_goes_on_behind_a_bad_file_once_it_is_mended(
    spark: SparkSession, source: Path, uri: str
) -> None:
    good = (source / "day=2/c.parquet").read_bytes()
    (source / "day=2/c.parquet").write_bytes(b"no parquet at all")
    for _ in range(2):
        # Spark wraps some of its errors and others not.
        with pytest.raises(Exception, match=r"c\.parquet"):
            pilum.spark.ingest(
                spark, str(source), uri, schema="a long, day int", job="j", files_per_commit=2
            )
    assert pilum.dataset(uri).version == 1
    (source / "day=2/c.parquet").write_bytes(good)
    result = pilum.spark.ingest(
        spark, str(source), uri, schema="a long, day int", job="j", files_per_commit=2
    )
    assert (result.num_files, result.version) == (1, 2)
    assert pilum.spark.ingest(
        spark, str(source), uri, schema="a long, day int", job="j", files_per_commit=2
    ) == pilum.spark.IngestResult(version=2, num_files=0, num_commits=0)
    assert len(rows(uri)) == 6


def test_text_files_are_checked(spark: SparkSession, tmp_path: Path, uri: str) -> None:
    folder = tmp_path / "text"
    folder.mkdir()
    (folder / "a.csv").write_text("id,name\n1,One\n2,Two\n")
    query = "SELECT id, lower(name) AS name FROM {source} WHERE id > 1"
    schema = "id long, name string"
    pilum.spark.ingest(spark, str(folder), uri, format="csv", schema=schema, transform=query)
    assert rows(uri) == [{"id": 2, "name": "two"}]
    (folder / "a.csv").write_text("id,name\none,One\n")
    with pytest.raises(Exception, match=r"MALFORMED_RECORD|For input string"):
        pilum.spark.ingest(spark, str(folder), uri, format="csv", schema=schema)
    (folder / "a.csv").write_text("id,other\n1,One\n")
    with pytest.raises(Exception, match="CSV header does not conform"):
        pilum.spark.ingest(spark, str(folder), uri, format="csv", schema=schema)
    (tmp_path / "b.json").write_text('{"id": 1, "more": true}\n')
    with pytest.raises(SchemaMismatchError, match="no column 'more'"):
        pilum.spark.ingest(spark, str(tmp_path / "b.json"), uri, format="json")
    pilum.spark.ingest(
        spark, str(tmp_path / "b.json"), uri, format="json", schema_mode="merge", job="grown"
    )
    assert rows(uri)[0] == {"id": 1, "name": None, "more": True}
    with pytest.raises(InvalidInputError, match=r"over \{source\}"):
        pilum.spark.ingest(
            spark, str(tmp_path / "b.json"), uri, format="json", transform="SELECT 1"
        )
    assert pilum.dataset(uri).version == 2


def test_files_become_blobs_and_tables_files(spark: SparkSession, tmp_path: Path, uri: str) -> None:
    for name in ("one.bin", "below/two.bin"):
        path = tmp_path / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    query = "SELECT substring_index(path, '/', -1) AS name, length, content FROM {source}"
    pilum.spark.ingest(spark, str(tmp_path / "files"), uri, format="files", transform=query)
    table = pilum.dataset(uri).to_table(blob_handling="all_binary").sort_by("name")
    assert table["content"].to_pylist() == [b"one.bin", b"below/two.bin"]
    blobs = pilum.dataset(uri).take_blobs("content", indices=[0, 1])
    assert sorted(blob.read() for blob in blobs if blob) == [b"below/two.bin", b"one.bin"]
    target = tmp_path / "out"
    pilum.spark.export(spark, uri, str(target), columns=["name", "length"], partition_by=["name"])
    found = pq.read_table(target).sort_by("length")
    assert found.select(["length", "name"]).to_pylist() == [
        {"length": 7, "name": "one.bin"},
        {"length": 13, "name": "two.bin"},
    ]
    with pytest.raises(PySparkException, match="already exists"):
        pilum.spark.export(spark, uri, str(target))


def test_files_come_back_as_they_were(spark: SparkSession, tmp_path: Path, uri: str) -> None:
    for name in ("one.bin", "below/two.bin"):
        path = tmp_path / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    pilum.spark.ingest(spark, str(tmp_path / "files"), uri, format="files")
    back = tmp_path / "back"

    def export(**how: Any) -> None:
        pilum.spark.export(spark, uri, str(back), format="files", **how)

    export(filter="length > 0")
    found = {str(path.relative_to(back)): path.read_bytes() for path in back.rglob("*.bin")}
    assert found == {"one.bin": b"one.bin", "below/two.bin": b"below/two.bin"}
    with pytest.raises(DatasetAlreadyExistsError):
        export()
    query = "SELECT {} AS path, content FROM {{source}}"
    refused: dict[str, dict[str, Any]] = {
        "path below the target": {"transform": query.format("'../' || path")},
        "comes twice": {"transform": query.format("'same'")},
        r"\['content'\] are missing": {"transform": "SELECT path FROM {source}"},
        "no partition_by": {"partition_by": ["path"]},
    }
    for message, how in refused.items():
        with pytest.raises(InvalidInputError, match=message):
            export(mode="append", **how)
    pilum.spark.export(spark, uri, str(tmp_path / "parquet"), columns=["content"])
    contents = pq.read_table(tmp_path / "parquet")["content"].to_pylist()
    assert sorted(contents) == sorted(found.values())
