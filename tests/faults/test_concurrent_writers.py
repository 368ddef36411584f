"""Several processes append to one table through the public API, one of them the reference."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from faults.helpers import exit_codes, listing, start_python
from guard import GUARD_SECONDS

import pilum

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

OURS = """
import sys
import pyarrow as pa
import pilum

path, writer, commits = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for number in range(commits):
    rows = pa.table({"writer": [writer] * 3, "number": [number] * 3, "row": [0, 1, 2]})
    while True:
        try:
            pilum.write_dataset(rows, path, mode="append")
            break
        except OSError as error:  # how often others are first is up to the machine
            if "oo many" not in str(error):
                raise
"""
FIRST = """
import sys
import pyarrow as pa
import pilum

sys.stdin.readline()
pilum.write_dataset({"writer": [int(sys.argv[2])]}, sys.argv[1], mode="append")
"""
THEIRS = OURS.replace("pilum", "lance")
COMMITS = 50
THEIR_COMMITS = 8


@pytest.mark.checklist("S2.8")
def test_no_append_is_lost(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    empty = pa.table({name: pa.array([], pa.int64()) for name in ("writer", "number", "row")})
    pilum.write_dataset(empty, path)
    writers = [
        start_python(OURS, path, 1, COMMITS),
        start_python(OURS, path, 2, COMMITS),
        start_python(THEIRS, path, 3, THEIR_COMMITS),
    ]
    assert exit_codes(writers) == [0, 0, 0]
    expected = {(writer, number) for writer in (1, 2) for number in range(COMMITS)}
    expected |= {(3, number) for number in range(THEIR_COMMITS)}
    num_versions = 1 + len(expected)
    for dataset in (pilum.dataset(path), lance.dataset(path)):
        assert dataset.version == num_versions
        rows = dataset.to_table().to_pydict()
        triples = list(zip(rows["writer"], rows["number"], rows["row"], strict=True))
        assert len(triples) == 3 * len(expected)
        assert set(triples) == {(*pair, row) for pair in expected for row in range(3)}
    lance.dataset(path).validate()
    versions = pilum.dataset(path).versions()
    assert [version["version"] for version in versions] == list(range(1, num_versions + 1))
    for number, version in enumerate(versions):
        assert version["metadata"]["total_rows"] == str(3 * number)
    assert not [name for name in listing(tmp_path) if "tmp" in name]


def test_the_rows_of_one_writer_stay_in_order(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    pilum.write_dataset(pa.table({"writer": [0], "number": [0], "row": [0]}), path)
    writers = [start_python(OURS, path, writer, 10) for writer in (1, 2)]
    assert exit_codes(writers) == [0, 0]
    rows = pilum.dataset(path).to_table().to_pydict()
    for writer in (1, 2):
        numbers = [
            number
            for number, by in zip(rows["number"], rows["writer"], strict=True)
            if by == writer
        ]
        assert numbers == sorted(numbers)


def test_of_many_creators_one_wins(tmp_path: Path) -> None:
    script = """
import sys
import pilum
from pilum.errors import PilumError
try:
    pilum.write_dataset({"writer": [int(sys.argv[2])]}, sys.argv[1])
    print("won")
except PilumError as error:
    print(type(error).__name__)
"""
    path = tmp_path / "t"
    creators = [start_python(script, path, number) for number in range(4)]
    answers = [creator.communicate(timeout=GUARD_SECONDS)[0].strip() for creator in creators]
    assert set(answers) <= {"won", "DatasetAlreadyExistsError", "CommitConflictError"}
    assert answers.count("won") == 1
    winner = answers.index("won")
    assert pilum.dataset(path).version == 1
    assert pilum.dataset(path).to_table().to_pydict() == {"writer": [winner]}
    assert len(list((path / "data").iterdir())) == 1


@pytest.mark.checklist("S2.8")
def test_no_first_append_is_lost(tmp_path: Path) -> None:
    """All begin before there is a table, so that most find it made when they commit."""
    path = str(tmp_path / "t")
    writers = [start_python(FIRST, path, number) for number in range(4)]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    assert exit_codes(writers) == [0, 0, 0, 0]
    for dataset in (pilum.dataset(path), lance.dataset(path)):
        assert dataset.version == 4
        assert sorted(dataset.to_table()["writer"].to_pylist()) == [0, 1, 2, 3]
