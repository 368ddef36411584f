"""Cutting batches into files, and leaving nothing behind when that fails."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError
from pilum.storage.local import LocalStore
from pilum.table.write.align import new_schema
from pilum.table.write.write import WriteOptions, write_fragments

ARROW = pa.schema([("a", pa.int64()), ("s", pa.string())])
SCHEMA = new_schema(ARROW)


def batch(start: int, stop: int) -> pa.RecordBatch:
    numbers = range(start, stop)
    return pa.RecordBatch.from_pydict(
        {"a": list(numbers), "s": [str(number) for number in numbers]}, schema=ARROW
    )


def data_files(store: LocalStore) -> list[str]:
    folder = Path(store.root, "data")
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("cuts", [[0, 25], [0, 3, 4, 4, 14, 25], [0, 10, 20, 25]])
def test_files_end_at_the_exact_row(empty_store: LocalStore, cuts: list[int]) -> None:
    batches = [batch(*pair) for pair in pairwise(cuts)]
    options = WriteOptions(max_rows_per_file=10)
    fragments = write_fragments(empty_store, SCHEMA, batches, options)
    assert [fragment.physical_rows for fragment in fragments] == [10, 10, 5]
    assert {fragment.id for fragment in fragments} == {0}
    files = [fragment.files[0] for fragment in fragments]
    assert sorted(file.path for file in files) == data_files(empty_store)
    for file in files:
        assert (file.fields, file.column_indices) == ((0, 1), (0, 1))
        assert (file.major, file.minor) == (2, 2)
        assert file.size_bytes == Path(empty_store.root, "data", file.path).stat().st_size


def test_a_large_file_gets_no_further_batch(empty_store: LocalStore) -> None:
    batches = [batch(start, start + 4) for start in range(0, 12, 4)]
    options = WriteOptions(max_bytes_per_file=1)
    fragments = write_fragments(empty_store, SCHEMA, batches, options)
    assert [fragment.physical_rows for fragment in fragments] == [4, 4, 4]


@pytest.mark.parametrize("batches", [[], [batch(0, 0), batch(0, 0)]])
def test_no_rows_make_no_file(empty_store: LocalStore, batches: list[pa.RecordBatch]) -> None:
    assert write_fragments(empty_store, SCHEMA, batches) == ()
    assert data_files(empty_store) == []


def test_a_prefix_tells_whose_the_files_are(empty_store: LocalStore) -> None:
    options = WriteOptions(file_name_prefix="job-1-2")
    write_fragments(empty_store, SCHEMA, [batch(0, 3)], options)
    assert [name[:8] for name in data_files(empty_store)] == ["job-1-2-"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("after", [0, 5, 25])
def test_nothing_is_left_when_the_data_ends_in_failure(
    empty_store: LocalStore, failure: type[BaseException], after: int
) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield batch(0, after)
        raise failure

    with pytest.raises(failure):
        write_fragments(empty_store, SCHEMA, batches(), WriteOptions(max_rows_per_file=10))
    assert data_files(empty_store) == []


@pytest.mark.parametrize(
    "options",
    [
        {"max_rows_per_file": 0},
        {"max_bytes_per_file": -1},
        {"file_name_prefix": ""},
        {"file_name_prefix": "a/b"},
        {"file_name_prefix": ".."},
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        WriteOptions(**options)


def test_rewritten_rows_fill_files_of_the_target_size_of_the_table(tmp_path: Path) -> None:
    table = pilum.write_dataset(pa.table({"k": range(1000)}), tmp_path / "t")
    table.update_config({"lance.compaction.target_rows_per_fragment": "300"})
    table.update({"k": "k + 1"})
    table.merge_insert("k").when_not_matched_insert_all().execute(pa.table({"k": range(2000)}))
    rows = [one.count_rows() for one in table.get_fragments()]
    assert rows == [300, 300, 300, 100, 300, 300, 300, 100]
    for wrong in ("many", "9" * 5000, "0", "+5"):
        table.update_config({"lance.compaction.target_rows_per_fragment": wrong})
        with pytest.raises(InvalidInputError, match=r"setting lance\.compaction\."):
            table.update({"k": "k + 1"})
    table.update_config({"lance.compaction.target_rows_per_fragment": str(2**64 - 1)})
    assert table.update({"k": "k + 1"})["num_rows_updated"] == 2000
