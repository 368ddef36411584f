"""Errors that say what is wrong, where, and what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.errors import DatasetNotFoundError, FilterError, InvalidInputError

TABLE = pa.table({"id": [1, 2], "s": ["a", "b"], "p": [{"x": 1}, {"x": 2}]})


@pytest.fixture
def dataset(tmp_path: Path) -> Any:
    return pilum.write_dataset(TABLE, tmp_path / "t")


def test_a_keyword_that_scans_do_not_have(dataset: Any) -> None:
    calls = [dataset.to_table, dataset.scanner, lambda **one: next(dataset.to_batches(**one))]
    for call in calls:
        with pytest.raises(TypeError, match=r"no argument 'colums'; did you mean 'columns'\?"):
            call(colums=["id"])
        with pytest.raises(InvalidInputError, match="no argument 'xyz'"):
            call(xyz=1)


def test_a_file_where_a_table_is_expected(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b")
    with pytest.raises(DatasetNotFoundError, match=r"t\.csv is a file, and a Lance table is a fo"):
        pilum.dataset(path)
    with pytest.raises(InvalidInputError, match=r"t\.csv is a file"):
        pilum.write_dataset(TABLE, path)
    with pytest.raises(DatasetNotFoundError, match="no Lance table at "):
        pilum.dataset(tmp_path / "absent")


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on the size of files")
def test_a_disk_that_takes_no_more_is_named(tmp_path: Path) -> None:
    """A limit on the size of files fails as a full disk does: in the middle of a write."""
    code = f"""
import resource, signal
import numpy as np, pyarrow as pa, pilum
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    table = pa.table({{"a": np.random.default_rng(0).random(100_000)}})
    pilum.write_dataset(table, {str(tmp_path / "t")!r})
except OSError as error:
    print(error.filename)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    path = Path(done.stdout.strip())
    assert path.parent == tmp_path / "t" / "data"
    assert path.suffix == ".lance"


def test_an_update_speaks_of_expressions(dataset: Any) -> None:
    for sql in ("id +", "id / 0", ""):
        with pytest.raises(FilterError, match="expression") as caught:
            dataset.update({"id": sql})
        assert "filter" not in str(caught.value)
    with pytest.raises(FilterError, match="cannot parse the filter 'id >': an operand is missing"):
        dataset.update({"id": "1"}, where="id >")
    assert dataset.version == 1


@pytest.mark.parametrize("condition", ["id >", "id = ", "> 3", "id + = 3"])
def test_no_class_of_the_parser_is_named(dataset: Any, condition: str) -> None:
    with pytest.raises(FilterError, match="cannot parse the filter") as caught:
        dataset.to_table(filter=condition)
    assert "sqlglot" not in str(caught.value)


@pytest.mark.parametrize(
    ("condition", "named"),
    [
        ("id = 'abc'", ["int64", "'id'", "'abc'"]),
        ("'abc' < id", ["int64", "'id'", "'abc'"]),
        ("id IN ('abc')", ["int64", "'id'", "'abc'"]),
        ("p.x = 'abc'", ["int64", "'p.x'", "'abc'"]),
        ("id = s", ["int64", "string", "'id'", "'s'"]),
    ],
)
def test_what_does_not_compare_is_named(dataset: Any, condition: str, named: list[str]) -> None:
    with pytest.raises(FilterError, match="does not compare") as caught:
        dataset.to_table(filter=condition)
    assert [text for text in named if text not in str(caught.value)] == []


def test_storage_options_that_no_store_knows(dataset: Any) -> None:
    with pytest.warns(UserWarning, match=r"'snyc' is not known.*did you mean 'sync'\?"):
        pilum.dataset(dataset.uri, storage_options={"snyc": "false"})


@pytest.mark.filterwarnings("error")
def test_storage_options_of_other_stores_may_be_given(dataset: Any) -> None:
    options = {"sync": "false", "aws_region": "eu-west-1", "AWS_ACCESS_KEY_ID": "x"}
    assert pilum.dataset(dataset.uri, storage_options=options).count_rows() == 2
