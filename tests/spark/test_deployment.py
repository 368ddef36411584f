"""The job of the page about clusters runs, in the session of the tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark.helpers import ROOT

import pilum

PAGE = ROOT / "docs" / "guide" / "spark-deployment.md"


def test_the_job_of_the_page(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = PAGE.read_text().partition("```python\n")[2].partition("```")[0]
    table = str(tmp_path / "orders.lance")
    monkeypatch.setattr(sys, "argv", ["app.py", table])
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)  # other tests use the session
    exec(compile(job, str(PAGE), "exec"), {"__name__": "__main__"})
    assert "21 rows cost nothing" in capsys.readouterr().out
    assert sorted(pilum.dataset(table).to_table()["id"].to_pylist()) == [*range(10_010)]
