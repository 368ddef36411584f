"""Updating rows: what they hold afterwards, others at the same time, and what is refused."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pilum
from pilum.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    CommitContentionError,
    FilterError,
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)

TABLE = pa.table(
    {
        "a": pa.array(range(10), pa.int32()),
        "f": [row + 0.75 for row in range(10)],
        "s": [None if row % 3 == 0 else f"text {row}" for row in range(10)],
        "d": pa.array([f"d{row % 2}" for row in range(10)]).dictionary_encode(),
        "p": [{"x": row, "y": str(row)} for row in range(10)],
        "when": pa.array([datetime(2020, 1, 1 + row) for row in range(10)], pa.timestamp("us")),
    }
)


@pytest.fixture
def dataset(tmp_path: Path) -> pilum.LanceDataset:
    """Ten rows in fragments of 4, 4 and 2."""
    return pilum.write_dataset(TABLE, tmp_path / "t", max_rows_per_file=4)


def files(dataset: pilum.LanceDataset) -> set[str]:
    root = Path(dataset.uri)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def column(dataset: pilum.LanceDataset, name: str) -> list[Any]:
    values: list[Any] = dataset.to_table([name])[name].to_pylist()
    return values


def test_changed_rows_are_behind_the_others(dataset: pilum.LanceDataset) -> None:
    assert dataset.update({"a": "a + 100"}, where="a % 4 = 1 OR a >= 8") == {"num_rows_updated": 4}
    assert dataset.version == 2
    assert column(dataset, "a") == [0, 2, 3, 4, 6, 7, 101, 105, 108, 109]
    fragments = [(one.fragment_id, one.count_rows()) for one in dataset.get_fragments()]
    assert fragments == [(0, 3), (1, 3), (3, 4)]
    order = pc.sort_indices(pc.bit_wise_and(dataset.to_table()["a"], 15))
    left = dataset.to_table(["f", "s", "d", "p", "when"])
    moved = [0, 2, 3, 4, 6, 7, 1, 5, 8, 9]
    assert left.equals(TABLE.take(pa.array(moved)).select(left.column_names))
    assert len(order) == 10
    assert dataset.checkout_version(1).to_table().equals(TABLE)
    assert dataset.take([6, 0], ["a"])["a"].to_pylist() == [101, 0]


def test_all_rows(dataset: pilum.LanceDataset) -> None:
    assert dataset.update({"f": "f * 2"})["num_rows_updated"] == 10
    assert column(dataset, "f") == [2 * (row + 0.75) for row in range(10)]
    assert [one.fragment_id for one in dataset.get_fragments()] == [3]
    assert not any("_deletions" in name for name in files(dataset))


def test_nothing_matches(dataset: pilum.LanceDataset) -> None:
    """A version all the same, as of the reference."""
    before = files(dataset)
    assert dataset.update({"a": "0"}, where=pc.field("a") > 100) == {"num_rows_updated": 0}
    assert dataset.version == 2
    assert not any("data/" in name for name in files(dataset) - before)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a", "f", list(range(10))),
        ("a", "'7'", [7] * 10),
        ("a", "p.x + 1", list(range(1, 11))),
        ("f", "a", [float(row) for row in range(10)]),
        ("s", "a", [str(row) for row in range(10)]),
        ("s", "NULL", [None] * 10),
        ("s", "d", [f"d{row % 2}" for row in range(10)]),
        ("d", "p.y", [str(row) for row in range(10)]),
        ("d", "'one'", ["one"] * 10),
        ("d", "NULL", [None] * 10),
        ("p", "NULL", [None] * 10),
        ("p", "p", TABLE["p"].to_pylist()),
        ("when", "'2021-02-03'", [datetime(2021, 2, 3)] * 10),
        ("when", "timestamp '2021-02-03 04:05:06'", [datetime(2021, 2, 3, 4, 5, 6)] * 10),
        (
            "when",
            "to_timestamp('2021-02-03T04:05:06.000000009')",
            [datetime(2021, 2, 3, 4, 5, 6)] * 10,
        ),
    ],
)
def test_values_take_the_type_of_the_column(
    dataset: pilum.LanceDataset, name: str, text: str, expected: list[Any]
) -> None:
    dataset.update({name: text})
    assert column(dataset, name) == expected
    assert dataset.schema.equals(TABLE.schema)


def test_all_expressions_see_the_old_values(dataset: pilum.LanceDataset) -> None:
    dataset.update({"a": "a + 1", "f": "a", "s": "d"}, where="a < 2")
    assert dataset.to_table(["a", "f", "s"])[-2:].to_pylist() == [
        {"a": 1, "f": 0.0, "s": "d0"},
        {"a": 2, "f": 1.0, "s": "d1"},
    ]


def test_rows_by_their_ids(dataset: pilum.LanceDataset) -> None:
    second = (1 << 32) + 1
    assert dataset.update({"a": "-1"}, where=f"_rowid IN (3, {second})")["num_rows_updated"] == 2
    assert dataset.delete(f"_rowaddr = {second + 1}") == {"num_deleted_rows": 1}
    assert column(dataset, "a") == [0, 1, 2, 4, 7, 8, 9, -1, -1]


@pytest.mark.checklist("S2.7", "S2.9")
def test_two_writers_change_other_rows_of_a_fragment(dataset: pilum.LanceDataset) -> None:
    other = pilum.dataset(dataset.uri)
    third = pilum.dataset(dataset.uri)
    dataset.update({"a": "100"}, where="a = 1")
    other.update({"a": "200"}, where="a = 2 or a = 5")
    assert third.delete("a = 3") == {"num_deleted_rows": 1}
    assert column(third, "a") == [0, 4, 6, 7, 8, 9, 100, 200, 200]
    # Merged, not done again: three commits and three new data files would do, and did.
    assert [one.fragment_id for one in third.get_fragments()] == [0, 1, 2, 3, 4]
    assert third.version == 4


def test_two_writers_change_the_same_rows(dataset: pilum.LanceDataset) -> None:
    other = pilum.dataset(dataset.uri)
    dataset.update({"a": "a + 100"}, where="a < 3")
    assert other.update({"a": "a + 1000"}, where="a % 2 = 0")["num_rows_updated"] == 5
    assert column(other, "a") == [3, 5, 7, 9, 101, 1004, 1006, 1008, 1100, 1102]
    assert not [name for name in files(other) if name.startswith("data/")][5:]


def test_a_column_goes_meanwhile(dataset: pilum.LanceDataset) -> None:
    other = pilum.dataset(dataset.uri)
    dataset.drop_columns(["f"])
    other.update({"a": "0"}, where="a = 1")
    assert "f" not in other.schema.names
    assert column(other, "a") == [0, *range(2, 10), 0]


def test_others_that_cannot_be_followed(dataset: pilum.LanceDataset) -> None:
    other = pilum.dataset(dataset.uri)
    stale = pilum.dataset(dataset.uri)
    dataset.update({"a": "100"}, where="a = 1")
    before = files(dataset)
    with pytest.raises(
        CommitContentionError, match="concurrent commits changed the same rows, 1 times"
    ):
        other.update({"a": "1"}, where="a = 1", conflict_retries=0)
    assert files(dataset) == before
    with pytest.raises(CommitContentionError):
        other.update({"a": "1"}, where="a = 1", retry_timeout=timedelta(0))
    pilum.write_dataset(TABLE, dataset.uri, mode="overwrite")
    before = files(dataset)
    with pytest.raises(CommitConflictError):
        stale.update({"a": "1"}, where="a = 1")
    assert files(dataset) == before


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (({},), InvalidInputError, "updates"),
        ((["a"],), InvalidInputError, "updates"),
        (({"a": 5},), InvalidInputError, "expected a column and SQL"),
        (({"A": "5"},), ColumnNotFoundError, "no column 'A'"),
        (({"_rowid": "5"},), ColumnNotFoundError, "no column '_rowid'"),
        (({"p.x": "5"},), UnsupportedFeatureError, "members of structs"),
        (({"a": "zz"},), ColumnNotFoundError, "no column 'zz'"),
        (({"a": "a +"},), FilterError, "parse"),
        (({"a": "'x'"},), FilterError, "'x'"),
        (({"a": "3000000000"},), FilterError, "not in range"),
        (({"a": "a + 3000000000"},), FilterError, "not in range"),
        (({"a": "a / (a - 9)"},), FilterError, "divide by zero"),
        (({"p": "a"},), FilterError, "cannot cast"),
        (({"a": "0"}, "a"), FilterError, "not boolean"),
        (({"a": "0"}, "zz = 1"), ColumnNotFoundError, "zz"),
        (({"a": "0"}, "a = 1", -1), InvalidInputError, "conflict_retries"),
        (({"a": "0"}, "a = 1", 1, 30), InvalidInputError, "retry_timeout"),
        (({"a": "0"}, None, 1, timedelta(1), "2.0"), InvalidInputError, "data_storage_version"),
    ],
)
def test_misuse_changes_nothing(
    dataset: pilum.LanceDataset, arguments: Any, error: type[Exception], match: str
) -> None:
    before = files(dataset)
    with pytest.raises(error, match=match):
        dataset.update(*arguments)
    assert files(dataset) == before
    assert dataset.version == 1


def test_nulls_where_none_may_be(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    dataset = pilum.write_dataset(pa.table({"a": [1, 2]}, schema), tmp_path / "t")
    before = files(dataset)
    with pytest.raises(SchemaMismatchError, match="'a' must not be null"):
        dataset.update({"a": "NULL"})
    assert files(dataset) == before


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_blobs_move_with_their_rows(tmp_path: Path, version: str) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([("a", pa.int64()), field, ("s", pa.string())])
    blobs = [None if row == 3 else b"blob %d" % row * (1 + 20_000 * (row % 2)) for row in range(8)]
    table = pa.table({"a": range(8), "b": blobs, "s": ["x"] * 8}, schema)
    dataset = pilum.write_dataset(
        table, tmp_path / "t", data_storage_version=version, max_rows_per_file=3
    )
    assert dataset.update({"s": "'y'"}, "a % 2 = 1") == {"num_rows_updated": 4}
    source = pa.table({"a": [4, 1, 9], "s": ["z"] * 3})
    dataset.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(
        source
    )
    found = dataset.to_table(blob_handling="all_binary")
    assert found["a"].to_pylist() == [0, 2, 6, 3, 5, 7, 4, 1, 9]
    assert found["b"].to_pylist() == [*(blobs[n] for n in (0, 2, 6, 3, 5, 7, 4, 1)), None]
    assert found["s"].to_pylist() == [*"xxxyyyzzz"]
    if version == "2.2":  # where they are blobs of version 2
        before = files(dataset)
        with pytest.raises(UnsupportedFeatureError, match="blobs cannot be set"):
            dataset.update({"b": "NULL"})
        assert files(dataset) == before


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_blobs_of_version_1_are_set(tmp_path: Path, version: str) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([("a", pa.int64()), field, field.with_name("kept")])
    blobs = [None if row == 3 else b"blob %d" % row for row in range(8)]
    table = pa.table({"a": range(8), "b": blobs, "kept": blobs}, schema)
    path = tmp_path / "t"
    dataset = pilum.write_dataset(table, path, data_storage_version=version, max_rows_per_file=3)
    dataset.update({"b": "CAST(concat('now ', CAST(a AS STRING)) AS BINARY)"}, "a IN (1, 3, 6)")
    dataset.update({"b": "NULL"}, "a = 2")
    dataset.update({"b": "X''"}, "a = 7")
    merge = dataset.merge_insert("a").when_matched_update({"b": "source.new"})
    merge.execute(pa.table({"a": [0, 5], "new": pa.array([b"zero", None], pa.large_binary())}))
    found = dataset.to_table(blob_handling="all_binary").sort_by("a")
    new = {0: b"zero", 1: b"now 1", 2: None, 3: b"now 3", 5: None, 6: b"now 6", 7: b""}
    assert found["b"].to_pylist() == [new.get(row, blobs[row]) for row in range(8)]
    assert found["kept"].to_pylist() == blobs
    with pytest.raises(FilterError):
        dataset.update({"b": "kept"})


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_merges_set_and_insert_blobs(tmp_path: Path, version: str) -> None:
    old = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([("a", pa.int64()), old, ("s", pa.string())])
    table = pa.table({"a": range(4), "b": [b"x", None, b"y" * 70_000, b""], "s": ["x"] * 4}, schema)
    dataset = pilum.write_dataset(
        table, tmp_path / "t", data_storage_version=version, max_rows_per_file=3
    )
    new = [b"new" * 40_000, None, b"nine"]
    made = [
        pa.array(new, pa.large_binary()),
        *([pilum.blob_array(new)] if version == "2.2" else []),
    ]
    for blobs in made:
        source = pa.table({"b": blobs, "a": [1, 2, 9]})
        if not isinstance(blobs.type, pa.BaseExtensionType):
            source = source.cast(pa.schema([old, ("a", pa.int64())]))
        builder = dataset.merge_insert("a").when_matched_update_all("target.a < 3")
        result = builder.when_not_matched_insert_all().execute(source)
        assert result["num_updated_rows"] == 2
        found = dataset.to_table(blob_handling="all_binary").sort_by("a")
        assert found["b"].to_pylist() == [b"x", new[0], None, b"", b"nine"]
        assert found["s"].to_pylist() == ["x", "x", "x", "x", None]
    dataset.merge_insert("a").when_matched_update({"s": "'z'"}).execute(pa.table({"a": [1]}))
    found = dataset.to_table(blob_handling="all_binary", filter="a = 1")
    assert found.select(["b", "s"]).to_pylist() == [{"b": new[0], "s": "z"}]
    assert dataset.verify(deep=True).is_valid
    with pytest.raises(InvalidInputError, match=r"be keys|cannot be a key"):
        dataset.merge_insert("b").when_matched_update_all().execute(source)


def test_what_merges_cannot_do_with_blobs(tmp_path: Path) -> None:
    inner = pa.struct([pilum.blob_field("b")])
    blobs = pa.StructArray.from_arrays([pilum.blob_array([b"x"])], fields=list(inner))
    table = pa.table({"a": [1], "s": blobs, "b": pilum.blob_array([b"y"])})
    dataset = pilum.write_dataset(table, tmp_path / "t", data_storage_version="2.2")
    before = files(dataset)
    builder = dataset.merge_insert("a").when_matched_update_all()
    with pytest.raises(UnsupportedFeatureError, match="blobs inside"):
        builder.execute(table.select(["a", "s"]))
    uri = pilum.blob_array([pilum.Blob.from_uri("file:///etc/hostname")])
    with pytest.raises(InvalidInputError, match="not by URI"):
        builder.execute(pa.table({"a": [1], "b": uri}))
    assert files(dataset) == before


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_every_file_version(tmp_path: Path, version: str) -> None:
    table = TABLE.drop_columns(["p", "d"])
    dataset = pilum.write_dataset(table, tmp_path / "t", data_storage_version=version)
    dataset.update({"f": "a"}, where="a >= 5")
    assert column(dataset, "f") == [*(row + 0.75 for row in range(5)), 5.0, 6.0, 7.0, 8.0, 9.0]
    assert dataset.data_storage_version == version


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_conditions_on_ids_read_only_these_rows(tmp_path: Path, stable: bool) -> None:
    """Fragments without them are not even opened."""
    table = pa.table({"a": range(1000)})
    dataset = pilum.write_dataset(
        table, tmp_path / "t", max_rows_per_file=100, enable_stable_row_ids=stable
    )
    ids = dataset.to_table(["_rowid", "_rowaddr"])
    for name in ids.column_names:
        values = ids[name].to_pylist()
        wanted = {
            f"{name} = {values[250]}": ([250], 1),
            f"{name} IN ({values[3]}, {values[7]}, {values[999]})": ([3, 7, 999], 2),
            f"{name} >= {values[198]} AND {name} < {values[203]}": ([198, 199, 200, 201, 202], 2),
            f"NOT ({name} > {values[1]})": ([0, 1], 1),
            f"{name} IN ({', '.join(map(str, values[600:900]))})": (list(range(600, 900)), 3),
            f"{name} = {values[250]} AND a = 7": ([], 1),
            f"{name} = {values[999] + 1}": ([], 0),
        }
        for condition, (expected, num_fragments) in wanted.items():
            fresh = pilum.dataset(dataset.uri, session=pilum.Session())
            fresh.io_stats_incremental()
            assert fresh.to_table(filter=condition)["a"].to_pylist() == expected
            assert fresh.io_stats_incremental().read_iops <= 3 * num_fragments
    ten = ids["_rowid"].to_pylist()[500:510]
    where = f"_rowid BETWEEN {ten[0]} AND {ten[-1]}"
    assert dataset.update({"a": "-1"}, where)["num_rows_updated"] == 10
    # Only ids that are stable stay with the rows.
    assert dataset.delete(where) == {"num_deleted_rows": 10 if stable else 0}


def test_json_is_set_as_text(tmp_path: Path) -> None:
    table = pa.table(
        {
            "a": [1, 2, 3],
            "j": pa.array(['{"x":1}', "[1,2]", None], pa.json_()),
            "s": ['"text"', None, "5"],
        }
    )
    dataset = pilum.write_dataset(table, tmp_path / "t", data_storage_version="2.2")
    dataset.update({"j": "'{\"z\": 2}'"}, "a = 1")
    dataset.update({"j": "s"}, "a = 3")
    dataset.update({"j": "j", "s": "'same'"}, "a <> 3")
    assert column(dataset, "j") == ["5", "[1,2]", '{"z":2}']
    dataset.update({"j": "NULL"}, "a = 3")
    source = pa.table({"a": [1, 4], "j": pa.array(['{"y":1}', "[4]"], pa.json_())})
    dataset.merge_insert("a").when_matched_update({"j": "source.j"}).execute(source)
    dataset.merge_insert("a").when_not_matched_insert_all().execute(source)
    assert column(dataset, "j") == ["[1,2]", None, '{"y":1}', "[4]"]
    before = files(dataset)
    with pytest.raises(InvalidInputError, match="JSON"):
        dataset.update({"j": "'{bad'"})
    assert files(dataset) == before


_LISTS = [
    pa.list_(pa.float32(), 2),
    pa.list_(pa.float64(), 2),
    pa.list_(pa.float16(), 2),
    pa.list_(pa.uint8(), 2),
    pa.list_(pa.int64()),
    pa.large_list(pa.float32()),
]


def _lists(kind: pa.DataType) -> pa.Table:
    items = pa.array([1, 2, 3, 4, 5, 6]).cast(pa.float64()).cast(kind.value_type)
    lists = pa.FixedSizeListArray.from_arrays(items, 2)
    others = pa.array([[9, 9.5], None, [7, 7]], pa.list_(pa.float32(), 2))
    column = lists.cast(kind) if not pa.types.is_fixed_size_list(kind) else lists
    return pa.table({"id": [0, 1, 2], "v": column, "w": others})


@pytest.mark.parametrize("kind", _LISTS, ids=str)
@pytest.mark.parametrize("text", ["[1.5, 2.5]", "[4, 8]", "make_array(1.0, 2.0)", "w", "null"])
def test_lists_are_assigned_as_in_the_reference(
    tmp_path: Path, kind: pa.DataType, text: str
) -> None:
    found = []
    for name, library in (("own", pilum), ("peer", lance)):
        dataset: Any = library.write_dataset(_lists(kind), str(tmp_path / name))
        dataset.update({"v": text}, where="id <> 1")
        assert dataset.schema.field("v").type == dataset.to_table()["v"].type == kind
        found.append(dataset.to_table().sort_by("id")["v"].to_pylist())
    assert found[0] == found[1]


def test_lists_of_other_lengths_are_not_assigned(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(_lists(_LISTS[0]), str(tmp_path / "t"))
    for text in ("[1]", "[1, 2, 3]", "[]", "make_array(id)"):
        with pytest.raises(FilterError, match="items, where the type has 2"):
            dataset.update({"v": text})
    with pytest.raises(FilterError, match="cannot cast"):
        dataset.update({"v": "3"})
    dataset.update({"v": "[id, 2.5]", "w": "v"}, where="id > 0")
    rows = dataset.to_table().sort_by("id")
    assert rows["v"].to_pylist() == [[1, 2], [1, 2.5], [2, 2.5]]
    assert rows["w"].to_pylist() == [[9, 9.5], [3, 4], [5, 6]]


def test_dictionaries_of_numbers_are_updated(tmp_path: Path) -> None:
    numbers = pa.array([7, 8, None]).dictionary_encode()
    dataset = pilum.write_dataset(pa.table({"k": [1, 2, 3], "n": numbers}), tmp_path / "t")
    for value, key, expected in (("NULL", 1, None), ("9", 2, 9), ("k + 1", 3, 4)):
        dataset.update({"n": value}, where=f"k = {key}")
        found = dataset.to_table(filter=f"k = {key}")["n"]
        assert found.type == numbers.type
        assert found.to_pylist() == [expected]
