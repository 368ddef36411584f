"""Long pages of numbers that nothing makes smaller: stored as they are in memory, since 2.1."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from interop.comparison import assert_same

import pilum
from pilum.container.raw import RawReader
from pilum.storage.local import LocalStore

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

ROWS = 300_000
"""Of 8 bytes: more than 2 MiB."""


def numbers(rows: int = ROWS) -> pa.Table:
    random = np.random.default_rng(5)
    whole = random.integers(-(2**62), 2**62, rows)
    return pa.table(
        {
            "float": random.standard_normal(rows),
            "whole": whole,
            "when": pa.array(whole, pa.timestamp("us")),
            "row": pa.StructArray.from_arrays([pa.array(whole)], ["number"]),
            "narrow": random.standard_normal(rows).astype(np.float32),
            "gaps": pa.array(whole, mask=whole % 3 == 0),
            "small": whole % 1000,
            "plain": pa.array(whole),
        },
        schema=pa.schema(
            [
                ("float", pa.float64()),
                ("whole", pa.int64()),
                ("when", pa.timestamp("us")),
                ("row", pa.struct([("number", pa.int64())])),
                ("narrow", pa.float32()),
                ("gaps", pa.int64()),
                ("small", pa.int64()),
                pa.field(
                    "plain",
                    pa.int64(),
                    metadata={"lance-encoding:structural-encoding": "miniblock"},
                ),
            ]
        ),
    )


def layouts(folder: Path) -> list[str]:
    """Returns the layout of the first page of each column of the only file."""
    [fragment] = pilum.dataset(folder).get_fragments()
    path = folder / "data" / fragment.data_files()[0].path
    with closing(LocalStore(str(path.parent)).source(path.name)) as source:
        columns = RawReader(source).columns()
        return [column.pages[0].encoding.message().WhichOneof("layout") for column in columns]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_both_libraries_read_contiguous_numbers(tmp_path: Path, version: str) -> None:
    table = numbers()
    pilum.write_dataset(table, tmp_path / "a", data_storage_version=version)
    found = layouts(tmp_path / "a")
    assert found == ["full_zip_layout"] * 4 + ["mini_block_layout"] * 4
    random = np.random.default_rng(6)
    some = np.sort(random.choice(ROWS, 2000, replace=False)).tolist()
    for library in (pilum, lance):
        dataset = library.dataset(str(tmp_path / "a"))
        assert_same(dataset.to_table(), table)
        assert_same(dataset.to_table(offset=ROWS - 10, limit=5), table.slice(ROWS - 10, 5))
        for rows in ([0, 1, 2, ROWS - 1], [5], some, some[:20], [*range(100, 5000), 9000]):
            assert_same(dataset.take(rows), table.take(rows))
        kept = table.filter(pa.compute.greater(table["float"], 2.5))
        assert_same(dataset.to_table(filter="float > 2.5"), kept)
        assert dataset.count_rows(filter="float > 2.5") == len(kept)


def test_shorter_pages_stay_in_chunks(tmp_path: Path) -> None:
    pilum.write_dataset(numbers(1000), tmp_path / "a")
    assert set(layouts(tmp_path / "a")) == {"mini_block_layout"}
