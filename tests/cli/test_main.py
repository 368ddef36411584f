from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jvm
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pilum
from pilum.cli.main import main
from pilum.cli.outcome import Exit, exit_code
from pilum.errors import (
    CommitConflictError,
    CommitStatusUnknownError,
    CorruptFileError,
    InvalidInputError,
)


@pytest.fixture
def table(tmp_path: Path) -> str:
    uri = str(tmp_path / "table")
    for start in (0, 5):
        pilum.write_dataset(pa.table({"a": range(start, start + 5)}), uri, mode="append")
    return uri


def job_file(folder: Path, text: str) -> str:
    path = folder / "job.toml"
    path.write_text(text)
    return str(path)


def test_a_table_is_shown_checked_and_kept_up(
    table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", table]) == 0
    assert "rows       10\n" in capsys.readouterr().out
    assert main(["compact", table, "--dry-run"]) == 0
    assert "would rewrite 2 fragments" in capsys.readouterr().out
    assert main(["compact", table, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fragments_removed"] == 2
    assert main(["versions", table]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert main(["cleanup", table, "--older-than-days", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["old_versions"] == 3
    assert main(["verify", table, "--deep"]) == 0
    capsys.readouterr()
    assert main(["doctor", table, "--json"]) in {0, 1}  # 1 on a machine whose disk is full
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [one["check"] for one in findings] == ["versions", "store", "disk"]
    assert all(one["is_ok"] for one in findings[:2])
    assert main(["doctor", f"{table}/data/{next(Path(table, 'data').iterdir()).name}"]) == 1
    assert "FAILED store" in capsys.readouterr().out
    next(Path(table, "data").iterdir()).unlink()
    assert main(["verify", table]) == 1
    assert "missing" in capsys.readouterr().out
    assert main(["info", table + "x"]) == 1
    assert "DatasetNotFoundError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInputError("x"), Exit.FAILED),
        (CorruptFileError("x"), Exit.FAILED),
        (CommitConflictError("x"), Exit.AGAIN),
        (CommitStatusUnknownError("x"), Exit.AGAIN),
        (ConnectionResetError("x"), Exit.AGAIN),
        (RuntimeError("Job aborted: ExecutorLostFailure (executor 3)"), Exit.AGAIN),
        (RuntimeError("any other"), Exit.FAILED),
    ],
)
def test_exit_codes_tell_whether_to_try_again(error: Exception, code: Exit) -> None:
    assert exit_code(error) is code


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[ingest]\nsource = 'a'", "is required"),
        ("[ingest]\nsource = 'a'\ntarget = 'b'\nsorce = 'c'", "unknown"),
        ("[ingest]\nsource = 1\ntarget = 'b'", "expected str"),
        ("[ingset]\nsource = 'a'", "unknown sections"),
        ("[compact]\ntarget = 'a'", "no section"),
        ("ingest = 3", "not a section"),
        ("[ingest", "not valid TOML"),
        ("[ingest]\nsource = 'a'\ntarget = 'b'\noptions = {a = 1}", "names and texts"),
    ],
)
def test_a_job_file_that_makes_no_sense_is_refused(
    tmp_path: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = job_file(tmp_path, text)
    assert main(["job", "ingest", "--check", "--file", path]) == 1
    assert message in capsys.readouterr().err
    assert main(["job", "ingest", "--check", "--file", path + "x"]) == 1


def test_words_of_a_merge_are_checked_without_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    merge = "[merge]\nsource = 'a'\ntarget = 'b'\non = ['id']\nwhen_matched = '{}'"
    path = job_file(tmp_path, merge.format("update"))
    assert main(["job", "merge", "--check", "--file", path]) == 0
    path = job_file(tmp_path, merge.format("upset"))
    assert main(["job", "merge", "--check", "--file", path]) == 1
    assert "expected one of ['update', 'delete', 'fail']" in capsys.readouterr().err


def test_a_process_that_is_asked_to_end_may_be_started_again(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("pilum.cli.tables.summary_of", end)
    assert main(["info", table]) == Exit.AGAIN


@pytest.mark.spark
@pytest.mark.skipif(
    not (os.environ.get("JAVA_HOME") or shutil.which("java")), reason="Spark needs Java"
)
def test_a_job_runs_as_a_command(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2], "name": ["ONE", "TWO"]}), tmp_path / "in.parquet")
    path = job_file(
        tmp_path,
        f"""
[ingest]
source = "{tmp_path}/in.parquet"
target = "{tmp_path}/table"
transform = "SELECT id, lower(name) AS name FROM {{source}}"
job = "once"

[spark]
"spark.driver.memory" = "1g"
"spark.log.level" = "OFF"
""",
    )
    command = [sys.executable, "-m", "pilum.cli", "job", "ingest", "--file", path]
    paths = os.pathsep.join([str(Path(pilum.__file__).parents[1]), *filter(None, sys.path)])
    done = subprocess.run(
        [*command, "--master", "local[1]"],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            **jvm.ENVIRONMENT,
            "PYTHONPATH": paths,
            "PYSPARK_PYTHON": sys.executable,
        },
    )
    assert done.returncode == 0, done.stderr
    wanted = {"job": "ingest", "version": 1, "num_files": 1, "num_commits": 1}
    assert json.loads(done.stdout.splitlines()[-1]) == wanted
    rows = pilum.dataset(tmp_path / "table").to_table().to_pylist()
    assert rows == [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}]
