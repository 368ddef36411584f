"""Reads of no columns: as many rows as any other read gives, for both libraries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pilum

NUM_ROWS = 20
DELETED = (3, 11)


@pytest.fixture(params=["legacy", "2.1"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A table of seven small fragments, with deleted rows."""
    table = pa.table({"id": range(NUM_ROWS), "s": [str(n) for n in range(NUM_ROWS)]})
    dataset = pilum.write_dataset(
        table, tmp_path / "t", max_rows_per_file=3, data_storage_version=request.param
    )
    dataset.delete(f"id IN {DELETED}")
    return tmp_path / "t"


Read = Callable[[Any], pa.Table]

SCANS: dict[str, tuple[Read, int]] = {
    "all": (lambda dataset: dataset.to_table(columns=[]), 18),
    "no computed columns": (lambda dataset: dataset.to_table(columns={}), 18),
    "filter": (lambda dataset: dataset.to_table(columns=[], filter="id >= 10"), 9),
    "filter of rare rows": (lambda dataset: dataset.to_table(columns=[], filter="id = 7"), 1),
    "filter by Arrow": (lambda dataset: dataset.to_table(columns=[], filter=pc.field("id") < 5), 4),
    "constant filter": (lambda dataset: dataset.to_table(columns=[], filter="true"), 18),
    "no match": (lambda dataset: dataset.to_table(columns=[], filter="id < 0"), 0),
    "limit": (lambda dataset: dataset.to_table(columns=[], limit=5), 5),
    "offset": (lambda dataset: dataset.to_table(columns=[], offset=16), 2),
    "limit and offset": (lambda dataset: dataset.to_table(columns=[], limit=5, offset=15), 3),
    "all three": (
        lambda dataset: dataset.to_table(columns=[], filter="id > 5", limit=4, offset=2),
        4,
    ),
    "batches": (
        lambda dataset: pa.Table.from_batches(dataset.to_batches(columns=[]), pa.schema([])),
        18,
    ),
    "filtered batches": (
        lambda dataset: pa.Table.from_batches(
            dataset.to_batches(columns=[], filter="id >= 10", batch_size=2), pa.schema([])
        ),
        9,
    ),
    "reader": (lambda dataset: dataset.scanner(columns=[]).to_reader().read_all(), 18),
    "order": (lambda dataset: dataset.scanner(columns=[], order_by=["s"], limit=7).to_table(), 7),
    "head": (lambda dataset: dataset.head(4, columns=[]), 4),
    "sample": (lambda dataset: dataset.sample(6, columns=[]), 6),
    "fragment": (lambda dataset: dataset.get_fragments()[1].to_table(columns=[]), 2),
    "fragments": (
        lambda dataset: dataset.scanner(
            columns=[], fragments=dataset.get_fragments()[1:3]
        ).to_table(),
        5,
    ),
}


@pytest.mark.reference
@pytest.mark.parametrize("name", list(SCANS))
def test_rows_are_counted_without_columns(path: Path, name: str) -> None:
    lance = pytest.importorskip("lance", reason="the reference implementation is not installed")
    read, expected = SCANS[name]
    ours = pilum.dataset(path)
    # The reference finds no data files for no columns of 0.1.
    peers = [] if ours.data_storage_version == "0.1" else [lance.dataset(str(path))]
    for dataset in (ours, *peers):
        found = read(dataset)
        assert (found.num_rows, found.column_names) == (expected, []), dataset


def test_batches_have_the_sizes_of_other_scans(path: Path) -> None:
    dataset = pilum.dataset(path)

    def sizes(columns: list[str], **more: Any) -> list[int]:
        batches = dataset.to_batches(columns=columns, **more)
        return [batch.num_rows for batch in batches]

    assert sizes([]) == sizes(["id"])
    assert sizes([], batch_size=2) == sizes(["id"], batch_size=2)
    strict = {"batch_size": 4, "strict_batch_size": True}
    assert sizes([], **strict) == sizes(["id"], **strict) == [4, 4, 4, 4, 2]


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda dataset: dataset.take([0, 5, 17], columns=[]), 3),
        (lambda dataset: dataset.take([5, 5, 1], columns=[]), 3),
        (lambda dataset: dataset.take(range(18), columns=[]), 18),
        (lambda dataset: dataset.take([], columns=[]), 0),
        (lambda dataset: dataset.take_rows([0, 1 << 32, 2 << 32], columns=[]), 2),
        (lambda dataset: dataset.take_rows([0, 2 << 32], columns={}), 2),
        (lambda dataset: dataset.get_fragments()[0].take([2, 0], columns=[]), 2),
    ],
)
def test_rows_are_taken_without_columns(path: Path, read: Read, expected: int) -> None:
    found = read(pilum.dataset(path))
    assert (found.num_rows, found.column_names) == (expected, [])


def test_a_stream_for_other_libraries_has_the_rows(path: Path) -> None:
    assert pa.table(pilum.dataset(path).scanner(columns=[])).num_rows == 18


def test_ids_alone_come_with_their_rows(path: Path) -> None:
    dataset = pilum.dataset(path)
    found = dataset.to_table(columns=[], with_row_id=True, filter="id >= 17")
    assert found.to_pydict() == {"_rowid": [(5 << 32) + 2, 6 << 32, (6 << 32) + 1]}
    assert dataset.scanner(columns=[], filter="id >= 17").count_rows() == 3
