"""Files with zone maps: the reference reads, filters, changes and compacts them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from interop.comparison import assert_same

import pilum
from pilum.encodings.options import EncodingOptions

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

ROWS = 30_000


def has_zones(table: pilum.LanceDataset) -> list[bool]:
    snapshot = table.snapshot
    readers = map(snapshot.reader, snapshot.manifest.fragments)
    return [one.field(snapshot.schema.fields[0]).zones(()) is not None for one in readers]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_the_reference_ignores_zone_maps(tmp_path: Path, version: str) -> None:
    """It drops them when it rewrites the rows; both read the result."""
    number = np.arange(ROWS)
    rows = pa.table(
        {
            "i": number,
            "s": pa.array([f"text {n:06}" for n in number], mask=number % 5 == 0),
            "f": pa.array(number / 7),
        }
    )
    path = str(tmp_path / "t")
    options = EncodingOptions(zones=True)
    pilum.write_dataset(rows, path, data_storage_version=version, encoding_options=options)
    reference = lance.dataset(path)
    assert_same(rows, reference.to_table())
    wanted = reference.to_table(filter="i < 100 AND s > 'text 000050'")
    assert_same(pilum.dataset(path).to_table(filter="i < 100 AND s > 'text 000050'"), wanted)
    reference.delete("i % 2 = 1")
    reference.insert(rows.slice(0, 10))
    table = pilum.dataset(path)
    assert has_zones(table) == [True, False]
    assert table.count_rows("i < 9000") == lance.dataset(path).count_rows("i < 9000") == 4510
    assert table.verify(deep=True).is_valid
    lance.dataset(path).optimize.compact_files()
    table = pilum.dataset(path)
    assert has_zones(table) == [False]
    assert table.count_rows("i < 9000") == 4510
