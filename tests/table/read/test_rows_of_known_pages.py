"""Few rows of large files are read with few steps: the same rows as in any other way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pilum
from pilum.encodings.structural import known_pages
from pilum.errors import CorruptFileError
from pilum.format.rows import addresses_of_rows
from pilum.table.read.columns import MetaColumns
from pilum.table.read.few_rows import FEW_ADDRESSES, FEW_ROWS, few_rows, few_rows_of
from pilum.table.read.take import _columns, parts_at, take_addresses

SIZE = 60_000
COLUMNS = ["id", "small", "text", "noise", "flag", "when", "list", "word", "half", "few", "float"]
COLUMNS += ["pair", "held", "vector", "place", "bytes", "story", "long", "digest"]
COLUMNS += ["year", "none", "title", "essay"]
OTHERS = {"list", "held", "essay"}
"""Columns not read this way: lists, structs that are null, and one long text for all rows."""


def rows() -> pa.Table:
    """Return columns of several types, some with nulls, some in no form for this way."""
    random = np.random.default_rng(3)
    holes = random.random(SIZE) < 0.2
    table = pa.table(
        {
            "id": random.permutation(SIZE),
            "small": pa.array(random.integers(0, 100, SIZE).astype(np.int16), mask=holes),
            "text": [f"{'long ' * (row % 5)}text {row * 7919 % SIZE}" for row in range(SIZE)],
            "noise": random.random(SIZE),
            "flag": pa.array(random.random(SIZE) < 0.5, mask=holes),
            "when": pa.array(random.integers(0, 2**40, SIZE), pa.timestamp("us")),
            "list": [[row, row + 1] for row in range(SIZE)],
            "word": [f"word {row % 7}" for row in range(SIZE)],
            "half": random.random(SIZE).astype(np.float16),
            "few": pa.array(random.choice(random.integers(0, 2**60, 300), SIZE), mask=holes),
            "float": random.random(SIZE).astype(np.float32),
        }
    )
    vectors = [random.random(SIZE * items).astype(np.float32) for items in (8, 2)]
    wide = {
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors[0]), 8),
        "place": pa.FixedSizeListArray.from_arrays(pa.array(vectors[1]), 2, mask=pa.array(holes)),
        "bytes": pa.array([random.bytes(row % 9) for row in range(SIZE)], mask=holes),
        "story": pa.array([f"{row} and {row % 77} " * (row % 5) for row in range(SIZE)]),
        "long": pa.array([f"{row}" * 9 for row in range(SIZE)], pa.large_string()),
        "digest": pa.array([random.bytes(20) for _ in range(SIZE)], pa.binary(20)),
    }
    equal = {
        "year": pa.array(np.full(SIZE, 2026)),
        "none": pa.nulls(SIZE, pa.int32()),
        "title": pa.array(["one text that all rows have, and longer than numbers"] * SIZE),
        "essay": pa.array(["one text " * 999]).take(pa.array(np.zeros(SIZE, np.int64))),
    }
    for name, values in {**wide, **equal}.items():
        table = table.append_column(name, values)
    full_zip = {"lance-encoding:structural-encoding": "fullzip"}  # which stores values as they are
    values = pa.array(random.random(SIZE)), table["small"].chunk(0), table["text"].chunk(0)
    members = [
        pa.field(name, value.type, metadata=full_zip if name == "x" else None)
        for name, value in zip("xyz", values, strict=True)
    ]
    pair = pa.StructArray.from_arrays(values, fields=members)
    held = pa.StructArray.from_arrays(values, fields=members, mask=pa.array(holes))
    table = table.append_column("pair", pair).append_column("held", held)
    fields = [
        field.with_metadata(full_zip if field.name in ("noise", "float", *wide) else {})
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Return the rows."""
    return rows()


@pytest.fixture(scope="module")
def dataset(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> pilum.LanceDataset:
    """Return three fragments; the second part of the columns is in files of their own."""
    path = str(tmp_path_factory.mktemp("known") / "t")
    made = pilum.write_dataset(table.select(COLUMNS[:5]), path, max_rows_per_file=SIZE // 3)
    more = iter(table.select(COLUMNS[5:]).to_batches(max_chunksize=SIZE // 3))
    made.add_columns(lambda batch: next(more), read_columns=["id"], batch_size=SIZE // 3)
    found = pilum.dataset(path, session=pilum.Session())
    found.take(list(range(0, SIZE, 999)))  # so that the chunks of pages are known
    return found


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=FEW_ADDRESSES),
    st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True),
)
def test_rows_are_those_of_the_table(
    dataset: pilum.LanceDataset, table: pa.Table, places: list[int], names: list[str]
) -> None:
    wanted = np.array(places)
    addresses = addresses_of_rows(wanted // (SIZE // 3), wanted % (SIZE // 3))
    expected = table.select(names).take(pa.array(places))
    assert take_addresses(dataset.snapshot, addresses, names).equals(expected)
    own = [name for name in names if name not in OTHERS]
    if own:
        found = few_rows(dataset.snapshot, addresses, _columns(dataset.snapshot, own))
        assert found is not None
        assert pa.table(found, expected.select(own).schema).equals(expected.select(own))


@pytest.mark.seeds(20)
def test_hundreds_of_rows_are_those_of_the_table(
    dataset: pilum.LanceDataset, table: pa.Table, seed: int
) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(2, FEW_ROWS + 1))
    places = np.sort(random.choice(SIZE, count, replace=False))
    names = [name for name in COLUMNS if name not in OTHERS]
    parts = parts_at(
        dataset.snapshot, addresses_of_rows(places // (SIZE // 3), places % (SIZE // 3))
    )
    columns = _columns(dataset.snapshot, names)
    found = few_rows_of(parts, columns, MetaColumns(dataset.snapshot))
    assert found is not None
    assert found.equals(table.select(names).take(pa.array(places)))


def test_other_columns_are_read_another_way(dataset: pilum.LanceDataset) -> None:
    snapshot, addresses = dataset.snapshot, np.arange(FEW_ADDRESSES, 0, -1, dtype=np.uint64)
    for names in (["list"], ["id", "held"], ["held"], ["id", "_rowid"], ["_rowaddr"]):
        assert few_rows(snapshot, addresses, _columns(snapshot, names)) is None
    for missing in (SIZE, 9 << 32):
        wrong = np.array([1, missing], np.uint64)
        assert few_rows(snapshot, wrong, _columns(snapshot, ["id"])) is None
    fresh = pilum.dataset(dataset.uri, session=pilum.Session()).snapshot
    found = few_rows(fresh, addresses, _columns(fresh, ["id"]))  # chunks are not known yet
    assert found == take_addresses(snapshot, addresses, ["id"])["id"].chunks


def test_long_indices_are_not_kept(
    dataset: pilum.LanceDataset, table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_pages, "MOST_INDEX_BYTES", 4 * SIZE // 3)  # of `long`, with its end
    fresh = pilum.dataset(dataset.uri, session=pilum.Session())
    places = np.array([7, 9, 19], np.uint64)
    assert few_rows(fresh.snapshot, places, _columns(fresh.snapshot, ["long"])) is None
    fresh.io_stats_incremental()
    assert fresh.take([7, 9, 19], columns=["long"]) == table.select(["long"]).take([7, 9, 19])
    assert fresh.io_stats_incremental().read_bytes < SIZE


def test_damage_is_located(table: pa.Table, tmp_path: Path) -> None:
    made = pilum.write_dataset(table.select(["text"]), str(tmp_path / "t"))
    found = pilum.dataset(made.uri, session=pilum.Session())
    found.take([0, 9], columns=["text"])
    [file] = (tmp_path / "t" / "data").iterdir()
    data = bytearray(file.read_bytes())
    data[: len(data) // 2] = b"\xff" * (len(data) // 2)
    with file.open("r+b") as open_file:
        open_file.write(data)
    places = np.array([0, 9], np.uint64)
    assert few_rows(found.snapshot, places, _columns(found.snapshot, ["text"])) is None
    with pytest.raises(CorruptFileError, match="column 0"):
        take_addresses(found.snapshot, places, ["text"])
