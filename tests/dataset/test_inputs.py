"""Data as people have it: frames, other Arrow forms, generators, matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError, SchemaMismatchError

VECTORS = pa.list_(pa.float32(), 2)
ROWS: list[dict[str, Any]] = [
    {"s": "a", "b": b"x", "v": [1.0, 2.0], "d": "red", "l": ["p", None], "p": {"x": "q", "n": 1}},
    {"s": None, "b": None, "v": None, "d": None, "l": None, "p": None},
    {"s": "c", "b": b"", "v": [3.0, 4.0], "d": "blue", "l": [], "p": {"x": None, "n": None}},
]
SCHEMA = pa.schema(
    [
        ("s", pa.string()),
        ("b", pa.binary()),
        ("v", VECTORS),
        ("d", pa.dictionary(pa.int8(), pa.string())),
        ("l", pa.list_(pa.string())),
        ("p", pa.struct([("x", pa.string()), ("n", pa.int64())])),
    ]
)
LARGE = {
    "s": pa.large_string(),
    "b": pa.large_binary(),
    "v": pa.large_list(pa.float32()),
    "d": pa.dictionary(pa.int32(), pa.large_string()),
    "l": pa.large_list(pa.large_string()),
    "p": pa.struct([("x", pa.large_string()), ("n", pa.int64())]),
}
VIEWS = {
    "s": pa.string_view(),
    "b": pa.binary_view(),
    "v": pa.list_view(pa.float32()),
    "d": pa.string_view(),
    "l": pa.list_view(pa.string_view()),
    "p": pa.struct([("x", pa.string_view()), ("n", pa.int64())]),
}
DICTIONARIES = {
    "s": pa.dictionary(pa.int16(), pa.string()),
    "b": pa.dictionary(pa.int64(), pa.binary()),
    "v": pa.list_(pa.float32()),
    "d": pa.string(),
    "l": pa.list_(pa.dictionary(pa.int8(), pa.string())),
    "p": pa.struct([("x", pa.dictionary(pa.int8(), pa.large_string())), ("n", pa.int64())]),
}
FORMS = {"large": LARGE, "views": VIEWS, "dictionaries": DICTIONARIES}


def dataset(path: Path, version: str = "2.1") -> Any:
    table = pa.table({"id": pa.array([1, 2, 3])})
    rows = pa.Table.from_pylist(ROWS, schema=SCHEMA)
    for field, column in zip(SCHEMA, rows.columns, strict=True):
        table = table.append_column(field, column)
    if version == "2.0":
        table = table.drop_columns(["p"])
    return pilum.write_dataset(table, path, data_storage_version=version)


def in_form(form: str, names: list[str]) -> pa.Table:
    """The rows in another form; the first one of each column is none of the table's."""
    columns = {name: [row[name] for row in ROWS] for name in names if name != "id"}
    arrays = {name: _built(FORMS[form][name], values) for name, values in columns.items()}
    return pa.table({"id": pa.array([3, 4, 5]), **arrays}).slice(1)


def _built(kind: pa.DataType, values: list[Any]) -> pa.Array:
    whole = pa.array(values, kind)
    return pa.concat_arrays([whole]) if pa.types.is_list(kind) else whole


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("form", FORMS)
def test_other_forms_are_appended_and_merged(tmp_path: Path, form: str, version: str) -> None:
    ds = dataset(tmp_path / "t", version)
    names = ds.schema.names
    before = ds.to_table().to_pylist()
    data = in_form(form, names)
    ds.insert(data)
    assert ds.schema.equals(pilum.dataset(ds.uri).schema)
    expected = [
        {"id": row, **{k: one[k] for k in names[1:]}}
        for row, one in zip((4, 5), ROWS[1:], strict=True)
    ]
    assert ds.to_table().to_pylist() == before + expected
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(data.set_column(0, "id", pa.array([2, 9])))
    found = {row["id"]: row for row in ds.to_table().to_pylist()}
    assert found[2] == {**expected[0], "id": 2}
    assert found[9] == {**expected[1], "id": 9}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("key", ["s", "d"])
def test_other_forms_are_keys(tmp_path: Path, form: str, key: str) -> None:
    ds = dataset(tmp_path / "t")
    kind = FORMS[form][key]
    source = pa.table({key: _built(kind, [ROWS[2][key], "new"]), "id": pa.array([30, 40])})
    ds.merge_insert(key).when_matched_update_all().when_not_matched_insert_all().execute(source)
    found = sorted((row["id"], row[key]) for row in ds.to_table(["id", key]).to_pylist())
    assert found == [(1, ROWS[0][key]), (2, None), (30, ROWS[2][key]), (40, "new")]
    ds.merge(source.rename_columns([key, "more"]), key)
    more = {row["id"]: row["more"] for row in ds.to_table(["id", "more"]).to_pylist()}
    assert more == {1: None, 2: None, 30: 30, 40: 40}


def test_what_does_not_fit_the_form_is_named_and_changes_nothing(tmp_path: Path) -> None:
    ds = dataset(tmp_path / "t")
    many = pa.array([str(number) for number in range(200)])
    lists = pa.array([[1.0]], pa.list_(pa.float32()))
    for data, name in ((pa.table({"d": many}), "d"), (pa.table({"v": lists}), "v")):
        with pytest.raises(SchemaMismatchError, match=f"column '{name}'"):
            ds.insert(data)
    assert pilum.dataset(ds.uri).version == 1


def test_columns_without_values_are_null(tmp_path: Path) -> None:
    ds = dataset(tmp_path / "t")
    ds.insert(pa.table({name: pa.nulls(1) for name in ds.schema.names}))
    assert ds.to_table().to_pylist()[-1] == dict.fromkeys(ds.schema.names)


@pytest.mark.parametrize("text", ["string", "object"])
def test_frames_of_pandas_are_written_back(tmp_path: Path, text: str) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    table = pa.table(
        {"id": [1, 2], "s": ["a", None], "d": pa.array(["x", "y"]).dictionary_encode()}
    )
    ds = pilum.write_dataset(table, tmp_path / "t")
    frame = ds.to_table().to_pandas()
    if text == "object":
        frame["s"] = frame["s"].astype(object).where(frame["s"].notna(), None)
    else:
        frame["s"] = frame["s"].astype("string")
    ds.insert(frame)
    assert ds.to_table().to_pylist() == table.to_pylist() * 2
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(frame.iloc[1:].assign(id=3))
    assert ds.to_table(filter="id = 3").to_pylist() == [{"id": 3, "s": None, "d": "y"}]


@pytest.mark.parametrize("form", ["frame", "lazy", "list"])
def test_python_objects_in_frames_of_polars_are_refused(tmp_path: Path, form: str) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    values = polars.Series([object()], dtype=polars.Object)
    frame = polars.DataFrame({"id": [1], "thing": values})
    data = {"frame": frame, "lazy": frame.lazy(), "list": [frame]}[form]
    with pytest.raises(InvalidInputError, match=r"columns \['thing'\] hold Python objects"):
        pilum.write_dataset(data, tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_frames_of_polars_are_written_back(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    ds = dataset(tmp_path / "t")
    before = ds.to_table().to_pylist()
    frame = polars.from_arrow(ds.to_table())
    ds.insert(frame)
    assert ds.to_table().to_pylist() == before * 2
    ds.add_columns(lambda batch: polars.DataFrame({"t": ["x"] * len(batch)}), read_columns=["id"])
    assert ds.to_table(["t"])["t"].to_pylist() == ["x"] * 6


class Frame:
    """A data frame as polars has it: a stream whose texts are views."""

    def __init__(self, **columns: list[Any]) -> None:
        self._table = pa.table(columns)
        for place, field in enumerate(self._table.schema):
            if field.type == pa.string():
                view = self._table.column(place).cast(pa.string_view())
                self._table = self._table.set_column(place, field.name, view)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def _pandas_frames() -> Iterator[Any]:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    yield pandas.DataFrame({"n": [1, 2], "s": ["a", "b"]})
    yield pandas.DataFrame({"n": [3], "s": ["c"]})


def _dicts() -> Iterator[dict[str, Any]]:
    yield {"n": 1, "s": "a"}
    yield {"s": "b", "n": 2}
    yield {"n": 3, "s": "c"}


def _frames() -> Iterator[Any]:
    yield Frame(n=[1, 2], s=["a", "b"])
    yield pa.table({"n": [3], "s": pa.array(["c"], pa.large_string())})


@pytest.mark.parametrize("make", [_pandas_frames, _dicts, _frames])
def test_generators_of_frames_and_dicts(tmp_path: Path, make: Callable[[], Iterator[Any]]) -> None:
    expected = [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}, {"n": 3, "s": "c"}]
    ds = pilum.write_dataset(make(), tmp_path / "t")
    assert ds.to_table().to_pylist() == expected
    ds.insert(make())
    assert ds.to_table().to_pylist() == expected * 2
    schema = pa.schema([("n", pa.int64()), ("s", pa.string())])
    again = pilum.write_dataset(make(), tmp_path / "u", schema)
    assert again.to_table().to_pylist() == expected


def test_a_batch_without_rows_within_a_stream(tmp_path: Path) -> None:
    words = pa.array(["a word", "another"] * 350).dictionary_encode()
    rows = pa.record_batch({"x": [1.5, None] * 350, "d": words})
    batches = [rows, rows.slice(500, 0), rows.slice(2, 2)]
    reader = pa.RecordBatchReader.from_batches(rows.schema, batches)
    written = pilum.write_dataset(reader, tmp_path / "t").to_table()
    assert written.to_pylist() == [*rows.to_pylist(), *rows.slice(2, 2).to_pylist()]


def test_many_dicts_of_a_generator(tmp_path: Path) -> None:
    rows = ({"n": row} for row in range(20_001))
    assert pilum.write_dataset(rows, tmp_path / "t").to_table()["n"].to_pylist() == [*range(20_001)]


def test_no_key_of_a_dict_is_lost(tmp_path: Path) -> None:
    ds = pilum.write_dataset([{"a": 1}, {"b": "x", "a": 2}], tmp_path / "t")
    assert ds.to_table().to_pylist() == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]
    schema = pa.schema([("a", pa.int64())])
    for data in ([{"a": 1, "b": 2}], {"a": [1], "b": [2]}, iter([{"a": 1, "b": 2}])):
        with pytest.raises(SchemaMismatchError, match="b"):
            pilum.write_dataset(data, tmp_path / "u", schema)
    late = ({"a": row} if row < 9000 else {"a": row, "b": 1} for row in range(9001))
    with pytest.raises(SchemaMismatchError, match=r"keys \['b'\]"):
        pilum.write_dataset(late, tmp_path / "u")
    assert not [path for path in (tmp_path / "u").rglob("*") if path.is_file()]


def test_matrices_become_vectors(tmp_path: Path) -> None:
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    images = np.arange(24, dtype=np.uint8).reshape(3, 2, 4)
    data: dict[str, Any] = {"v": matrix, "turned": matrix.reshape(4, 3).T, "i": images}
    ds = pilum.write_dataset(data, tmp_path / "t")
    kinds = {
        "v": pa.list_(pa.float32(), 4),
        "turned": pa.list_(pa.float32(), 4),
        "i": pa.list_(pa.list_(pa.uint8(), 4), 2),
    }
    assert dict(zip(ds.schema.names, ds.schema.types, strict=True)) == kinds
    ds.insert({"v": -matrix[:1]})
    found = ds.to_table().to_pydict()
    assert found["v"] == [*matrix.tolist(), (-matrix[0]).tolist()]
    assert found["turned"][:3] == data["turned"].tolist()
    assert found["i"] == [*images.tolist(), None]
    with pytest.raises(InvalidInputError, match=r"'v'.*without items"):
        pilum.write_dataset({"v": matrix[:, :0]}, tmp_path / "u")


def test_functions_give_frames_of_any_kind(tmp_path: Path) -> None:
    ds = dataset(tmp_path / "t")
    ds.add_columns(lambda batch: Frame(t=["x"] * len(batch)), read_columns=["id"])
    ds.add_columns(lambda batch: pa.table({"u": batch["id"]}), read_columns=["id"])
    large = pilum.batch_udf(pa.schema([("w", pa.large_string())]))
    ds.add_columns(large(lambda batch: Frame(w=["y"] * len(batch))), read_columns=["id"])
    assert ds.schema.field("t").type == pa.string()
    assert ds.schema.field("w").type == pa.large_string()
    found = ds.to_table(["t", "u", "w"]).to_pylist()
    assert found == [{"t": "x", "u": number, "w": "y"} for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("data", "schema"),
    [
        (pa.table({"a": [1]}), pa.schema([("b", pa.int64())])),
        (pa.table({"a": [1]}), pa.schema([("a", pa.binary())])),
        (pa.table({"a": ["x"]}), pa.schema([("a", pa.int64())])),
        (pa.table({"a": [1], "b": [2]}), pa.schema([("a", pa.int64())])),
        ({"a": [1]}, pa.schema([("b", pa.int64())])),
        ([{"a": "x"}], pa.schema([("a", pa.int64())])),
        (iter([pa.table({"a": [1]})]), pa.schema([("a", pa.binary())])),
    ],
)
def test_a_schema_that_the_data_does_not_fit(tmp_path: Path, data: Any, schema: pa.Schema) -> None:
    with pytest.raises(SchemaMismatchError, match="a"):
        pilum.write_dataset(data, tmp_path / "t", schema)
    assert not (tmp_path / "t").exists()


def test_a_schema_that_a_frame_does_not_fit(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    schema = pa.schema({"b": pa.int8()})
    with pytest.raises(SchemaMismatchError, match="'b'"):
        pilum.write_dataset(pandas.DataFrame({"a": [1]}), tmp_path / "t", schema)
