"""Small adjacent fragments: read as one, with the rows and the batches of each on its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pilum
from pilum.errors import CorruptFileError

ROWS = 240


def rows() -> pa.Table:
    """Return columns of all kinds of pages; some are joined, others are not."""
    members = [None if i % 11 == 0 else {"a": i, "b": f"b{i}"} for i in range(ROWS)]
    vectors = pa.array(np.arange(4 * ROWS, dtype=np.float32))
    return pa.table(
        {
            "id": pa.array(range(ROWS)),
            "text": [None if i % 7 == 0 else "word" * (i % 5) for i in range(ROWS)],
            "city": ["Bern" if i % 2 else "Oslo" for i in range(ROWS)],
            "struct": pa.array(members, pa.struct({"a": pa.int32(), "b": pa.string()})),
            "list": [None if i % 5 == 0 else [i] * (i % 3) for i in range(ROWS)],
            "vector": pa.FixedSizeListArray.from_arrays(vectors, 4),
            "flag": [i % 3 == 0 for i in range(ROWS)],
            "nothing": pa.nulls(ROWS, pa.string()),
            "same": ["x"] * ROWS,
            "long": [f"{i}" * 200 for i in range(ROWS)],
        }
    )


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def location(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> str:
    """Small fragments, a large one, one with deleted rows, and some with another file each."""
    uri = str(tmp_path_factory.mktemp("runs") / "t")
    version = {"data_storage_version": request.param}
    table = rows()
    pilum.write_dataset(table.slice(0, 80), uri, max_rows_per_file=9, **version)
    big = table.slice(80, 40).set_column(9, "long", pa.array([f"{i}" * 3000 for i in range(40)]))
    pilum.write_dataset(big, uri, mode="append")
    dataset = pilum.write_dataset(table.slice(120), uri, max_rows_per_file=11, mode="append")
    dataset.delete("id = 33 or id = 150")
    dataset.add_columns({"twice": "id * 2"})
    dataset.add_columns(pa.field("later", pa.int64()))
    dataset.drop_columns(["flag"])
    return uri


@pytest.fixture
def dataset(location: str) -> pilum.LanceDataset:
    """Open the table with caches of its own."""
    return pilum.dataset(location, session=pilum.Session())


def test_all_rows(dataset: pilum.LanceDataset, location: str) -> None:
    table = dataset.to_table()
    table.validate(full=True)
    assert table.equals(lance.dataset(location).to_table())
    assert dataset.to_table().equals(table)  # from open files


def test_batches_end_where_fragments_do(dataset: pilum.LanceDataset, location: str) -> None:
    for wanted in ({}, {"batch_size": 4}, {"columns": ["id"]}, {"filter": "id % 3 = 1"}):
        found = list(dataset.to_batches(with_row_address=True, **wanted))
        for batch in found:
            batch.validate(full=True)
            assert len(set((batch["_rowaddr"].to_numpy() >> 32).tolist())) == 1
        assert max(batch.num_rows for batch in found) <= wanted.get("batch_size", 100)
    sizes = [batch.num_rows for batch in dataset.to_batches(batch_size=4)]
    expected = lance.dataset(location).to_batches(batch_size=4)
    assert sum(sizes) == sum(batch.num_rows for batch in expected)


@pytest.mark.parametrize(
    "names", [["_rowid", "struct.b", "id"], ["_rowoffset", "twice"], ["same", "later"]]
)
def test_columns_that_no_file_has(dataset: pilum.LanceDataset, names: list[str]) -> None:
    whole = [fragment.to_table(columns=names) for fragment in dataset.get_fragments()]
    expected = pa.concat_tables(whole)
    found = dataset.to_table(columns=names)
    if "_rowoffset" in names:
        assert found["_rowoffset"].to_pylist() == list(range(dataset.count_rows()))
        found, expected = found.drop_columns("_rowoffset"), expected.drop_columns("_rowoffset")
    assert found.equals(expected)


CONDITIONS = {
    "id % 3 = 1": lambda table: np.array(table["id"]) % 3 == 1,
    "text = 'word'": lambda table: pc.equal(table["text"], "word").fill_null(False),
    "city = 'Bern' and twice > 100": lambda table: pc.and_(
        pc.equal(table["city"], "Bern"), pc.greater(table["twice"], 100)
    ),
    "id < 0": lambda table: pc.less(table["id"], 0),
}


@pytest.fixture(scope="module")
def whole(location: str) -> pa.Table:
    """Return all rows, as the reference reads them."""
    return lance.dataset(location).to_table(with_row_address=True)


@given(
    st.sampled_from(sorted(CONDITIONS)),
    st.integers(0, 50) | st.none(),
    st.integers(0, 50),
    st.sampled_from([["id"], ["long", "city"], ["vector", "struct", "_rowaddr"]]),
)
def test_filters_and_limits(
    location: str, whole: pa.Table, condition: str, limit: int | None, offset: int, names: list[str]
) -> None:
    dataset = pilum.dataset(location, session=pilum.Session())
    every = whole.filter(pa.array(CONDITIONS[condition](whole))).select(names)
    part: dict[str, Any] = {"columns": names, "limit": limit, "offset": offset}
    found = dataset.to_table(filter=condition, **part)
    assert found.equals(every.slice(offset, limit))
    assert dataset.count_rows(condition) == every.num_rows
    batches = dataset.to_batches(filter=condition, **part)
    assert pa.Table.from_batches(batches, found.schema).equals(found)
    assert dataset.to_table(**part).equals(whole.select(names).slice(offset, limit))


@pytest.mark.parametrize("form", ["views", "dictionaries"])
def test_forms_of_strings(dataset: pilum.LanceDataset, form: Any) -> None:
    plain = dataset.to_table(columns=["text", "city"])
    found = dataset.to_table(columns=["text", "city"], strings_as=form)
    found.validate(full=True)
    assert found["city"].type != pa.string()
    assert found.to_pydict() == plain.to_pydict()
    batches = dataset.to_batches(columns=["text", "city"], strings_as=form)
    assert [value for batch in batches for value in batch["city"].to_pylist()] == (
        plain["city"].to_pylist()
    )


def test_dictionaries_of_fragments_stay_apart(tmp_path: Path) -> None:
    narrow = pa.dictionary(pa.int8(), pa.string())
    for first in range(0, 300, 100):
        codes = pa.array(range(100), pa.int8())
        words = pa.array([f"word {number}" for number in range(first, first + 100)])
        column = pa.DictionaryArray.from_arrays(codes, words).cast(narrow)
        pilum.write_dataset(pa.table({"d": column}), tmp_path / "t", mode="append")
    found = [value for batch in pilum.dataset(tmp_path / "t").to_batches() for value in batch["d"]]
    assert [value.as_py() for value in found] == [f"word {number}" for number in range(300)]


def test_few_rows_open_few_files(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(rows(), tmp_path / "t", max_rows_per_file=10)
    dataset = pilum.dataset(tmp_path / "t", session=pilum.Session())
    dataset.io_stats_incremental()
    assert dataset.to_table(limit=15).num_rows == 15
    assert dataset.io_stats_incremental().read_iops == 2
    assert next(iter(dataset.to_batches(offset=45))).num_rows == 5


def test_a_first_batch_opens_some_files_only(tmp_path: Path) -> None:
    table = pa.table({"id": range(300)})
    pilum.write_dataset(table, tmp_path / "t", max_rows_per_file=1)
    dataset = pilum.dataset(tmp_path / "t", session=pilum.Session())
    dataset.io_stats_incremental()
    batches = iter(dataset.to_batches())
    assert next(batches)["id"].to_pylist() == [0]
    assert dataset.io_stats_incremental().read_iops < 150
    assert sum(batch.num_rows for batch in batches) == 299


@pytest.mark.parametrize("condition", [None, "id >= 0"])
def test_the_damaged_file_is_named(tmp_path: Path, condition: str | None) -> None:
    dataset = pilum.write_dataset(rows(), tmp_path / "t", max_rows_per_file=10)
    file = tmp_path / "t" / "data" / dataset.get_fragments()[17].data_files()[0].path
    data = bytearray(file.read_bytes())
    data[64:96] = b"\xff" * 32
    file.write_bytes(data)
    dataset = pilum.dataset(tmp_path / "t", session=pilum.Session())
    with pytest.raises(CorruptFileError, match=file.name):
        dataset.to_table(columns=["id"], filter=condition)
    others = [one for one in dataset.get_fragments() if one.fragment_id != 17]
    found = dataset.scanner(columns=["id"], fragments=others).to_table()["id"]
    assert found.to_pylist() == [row for row in range(ROWS) if not 170 <= row < 180]


def test_a_file_with_other_rows_than_recorded_is_refused(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(rows(), tmp_path / "t", max_rows_per_file=10)
    files = [fragment.data_files()[0].path for fragment in dataset.get_fragments()]
    shorter = pilum.write_dataset(rows().slice(0, 9), tmp_path / "u").get_fragments()[0]
    source = tmp_path / "u" / "data" / shorter.data_files()[0].path
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    (tmp_path / "t" / "data" / files[9]).write_bytes(source.read_bytes())
    assert len(fragments) == 24
    with pytest.raises(CorruptFileError, match=f"(?s)(rows|bytes).*{files[9]}"):
        pilum.dataset(tmp_path / "t", session=pilum.Session()).to_table()


def test_rows_that_are_joined_have_the_values_of_pages_on_their_own(tmp_path: Path) -> None:
    """Pages of one value are joined where they have the same value."""
    table = pa.table({"a": ["x"] * 20 + ["y"] * 20 + ["x"] * 20, "b": [None] * 60, "c": range(60)})
    pilum.write_dataset(table, tmp_path / "t", max_rows_per_file=10, data_storage_version="2.2")
    found = pilum.dataset(tmp_path / "t", session=pilum.Session()).to_table()
    assert found["a"].to_pylist() == table["a"].to_pylist()
    assert found["b"].null_count == 60
    assert pc.all(pc.equal(found["c"], table["c"])).as_py()
