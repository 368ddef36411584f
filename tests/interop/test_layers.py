"""Every combination of structs and lists to a depth of three, of nulls and empty lists in them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from interop.comparison import assert_same

import pilum

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

ROWS = 12
STRUCTS = ("struct", "struct with nulls")
LISTS = tuple(f"list{nulls}{empties}" for nulls in ("", " nulls") for empties in ("", " empties"))
LEAVES = ("leaf", "leaf with nulls", "leaf of nulls")


def nested(layers: tuple[str, ...], random: np.random.Generator, size: int) -> pa.Array:
    """An array of these layers, outer-most first."""
    kind, *inner = layers
    mask = pa.array(random.random(size) < (0.3 if "nulls" in kind else 0.0))
    if not inner:
        values = random.integers(0, 1000, size)
        return (
            pa.nulls(size, pa.int64())
            if "of" in kind
            else pa.array(values, mask=mask.to_numpy(False))
        )
    if kind in STRUCTS:
        return pa.StructArray.from_arrays([nested(tuple(inner), random, size)], ["x"], mask=mask)
    lengths = random.integers(0 if "empties" in kind else 1, 4, size)
    offsets = pa.array(np.append(0, np.cumsum(lengths)).astype(np.int32))
    items = nested(tuple(inner), random, offsets[-1].as_py())
    return pa.ListArray.from_arrays(offsets, items, mask=mask)


@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.checklist("S4.5")
def test_every_combination(tmp_path: Path, depth: int, leaf: str) -> None:
    random = np.random.default_rng(depth)
    columns = {
        " / ".join(layers): nested((*layers, leaf), random, ROWS)
        for layers in product((*STRUCTS, *LISTS), repeat=depth)
    }
    table = pa.table(columns)
    pilum.write_dataset(table, tmp_path / "ours")
    lance.write_dataset(table, str(tmp_path / "theirs"), data_storage_version="2.1")
    for found in (lance.dataset(str(tmp_path / "ours")), pilum.dataset(tmp_path / "theirs")):
        unreadable = [name for name in columns if not reads_as(found, table, name)]
        assert not unreadable
    rows = [ROWS - 1, 3, 0, 3]
    for found in (pilum.dataset(tmp_path / "ours"), pilum.dataset(tmp_path / "theirs")):
        assert_same(found.to_table(), table)
        assert_same(found.take(rows), table.take(rows))


def reads_as(dataset: pilum.LanceDataset, table: pa.Table, name: str) -> bool:
    try:
        assert_same(dataset.to_table(columns=[name]), table.select([name]))
    except (AssertionError, OSError, ValueError):
        return False
    return True
