"""Strings and bytes as views and as dictionaries: the same values in other types, from any scan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa
import pyarrow.types as pt
import pytest

import pilum
from pilum.dataset import ScannerBuilder
from pilum.errors import InvalidInputError
from pilum.format.text_forms import TextForm

FORMS: tuple[TextForm, ...] = ("views", "dictionaries")
VERSIONS = ("0.1", "2.0", "2.1", "2.2")
ROWS = 5000
CITIES = ["Amsterdam", "Berlin", "", "a city with more than twelve letters", None, "Genoa"]


def rows(version: str) -> pa.Table:
    """Texts of few values and of many, short and long; with nulls, and at some depth.

    Files of version 0.1 do not distinguish empty texts from nulls.
    """
    least = int(version == "0.1")
    city = [CITIES[i * i % 6] or ("-" if least else CITIES[i * i % 6]) for i in range(ROWS)]
    own = [None if i % 11 == 3 else f"row {i} " * max(i % 4, least) for i in range(ROWS)]
    table = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int32()),
            "city": pa.array(city, pa.string()),
            "own": pa.array(own, pa.string()),
            "large": pa.array(own, pa.large_string()),
            "raw": pa.array([text and text.encode() for text in own], pa.binary()),
            "none": pa.array([None] * ROWS, pa.string()),
            "key": pa.array(city).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
        }
    )
    if version in ("0.1", "2.0"):
        return table
    structs = [{"city": city[i], "number": i} for i in range(ROWS)]
    lists = [None if i % 7 == 2 else city[i : i + i % 4] for i in range(ROWS)]
    table = table.append_column("struct", pa.array(structs))
    return table.append_column("list", pa.array(lists, pa.list_(pa.large_string())))


def expected_type(arrow: pa.DataType, form: TextForm) -> pa.DataType:
    """The type of a column in a form, which this test knows by itself."""
    if pt.is_struct(arrow):
        members = [field.with_type(expected_type(field.type, form)) for field in arrow]
        return pa.struct(members)
    if pt.is_list(arrow):
        return pa.list_(arrow.value_field.with_type(expected_type(arrow.value_type, form)))
    if pt.is_string(arrow) or pt.is_large_string(arrow):
        return pa.string_view() if form == "views" else pa.dictionary(pa.int32(), arrow)
    if pt.is_binary(arrow):
        return pa.binary_view() if form == "views" else pa.dictionary(pa.int32(), arrow)
    return arrow


def same(found: pa.Table, plain: pa.Table, form: TextForm) -> None:
    """Fails unless a table has the rows of another one, in the types of a form."""
    found.validate(full=True)
    kinds = [expected_type(kind, form) for kind in plain.schema.types]
    assert found.schema.types == kinds
    assert found.schema.names == plain.schema.names
    assert found.to_pylist() == plain.to_pylist()


@pytest.fixture(scope="module", params=VERSIONS)
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A table of two fragments, of which the second one has deleted rows."""
    made = pilum.write_dataset(
        rows(request.param),
        tmp_path_factory.mktemp("strings"),
        max_rows_per_file=3000,
        data_storage_version=request.param,
    )
    made.delete("id >= 3000 and id % 3 = 1")
    return made


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "scan",
    [
        {},
        {"columns": ["own", "id", "city"]},
        {"limit": 2500, "offset": 1700},
        {"filter": "city = 'Berlin' and id > 100"},
        {"filter": "own is null", "columns": ["city"]},
        {"columns": {"upper": "upper(city)", "id": "id", "raw": "raw"}},
        {"order_by": "city", "limit": 50},
        {"filter": "id < 0"},
        {"with_row_id": True, "include_deleted_rows": True},
    ],
    ids=lambda scan: "+".join(scan) or "whole",
)
def test_every_scan_gives_the_same_rows(dataset: Any, form: TextForm, scan: Any) -> None:
    plain = dataset.to_table(**scan)
    scanner = dataset.scanner(**scan, strings_as=form)
    same(scanner.to_table(), plain, form)
    assert scanner.projected_schema == scanner.to_table().schema
    batches = list(dataset.to_batches(**scan, strings_as=form, batch_size=700))
    same(pa.Table.from_batches(batches, scanner.projected_schema), plain, form)


@pytest.mark.parametrize("form", FORMS)
def test_other_ways_to_a_scan(dataset: Any, form: TextForm) -> None:
    same(dataset.head(9, strings_as=form), dataset.head(9), form)
    fragment = dataset.get_fragments()[1]
    same(fragment.to_table(strings_as=form), fragment.to_table(), form)
    built = ScannerBuilder(dataset).strings_as(form).limit(7).to_scanner()
    same(built.to_table(), dataset.head(7), form)
    by_default = pilum.dataset(dataset.uri, default_scan_options={"strings_as": form})
    same(by_default.to_table(), dataset.to_table(), form)
    strict = dataset.to_batches(strings_as=form, batch_size=999, strict_batch_size=True)
    assert [len(batch) for batch in strict][:-1] == [999] * 4
    cities = dataset.scanner(["city"], strings_as=form).to_reader()
    sql = "select city, count(*) from cities where city is not null group by city"
    counts = duckdb.from_arrow(cities).query("cities", sql)
    plain = dataset.to_table(["city"])["city"].value_counts().to_pylist()
    known = {one["values"]: one["counts"] for one in plain if one["values"] is not None}
    assert counts is not None
    assert dict(counts.fetchall()) == known


def test_views_of_a_stored_dictionary_share_its_strings(tmp_path: Path) -> None:
    words = [f"one of eight words, number {i}" for i in range(8)]
    table = pa.table({"word": [words[i % 8] for i in range(100_000)]})
    dataset = pilum.write_dataset(table, tmp_path / "t", data_storage_version="2.1")
    views = dataset.to_table(strings_as="views")
    assert views["word"].cast(pa.string()) == table["word"]
    num_chunks = views["word"].num_chunks
    assert views.nbytes == 16 * len(table) + num_chunks * len("".join(words))
    keys = dataset.to_table(strings_as="dictionaries")["word"]
    assert [sorted(chunk.dictionary.to_pylist()) for chunk in keys.chunks] == [words] * num_chunks


@pytest.mark.parametrize("form", FORMS)
def test_a_table_of_the_reference(tmp_path: Path, form: TextForm) -> None:
    table = rows("2.1").drop_columns(["key"])
    lance.write_dataset(table, tmp_path / "t", data_storage_version="2.1")
    same(pilum.dataset(tmp_path / "t").to_table(strings_as=form), table, form)


@pytest.mark.parametrize("form", FORMS)
def test_other_types_stay(tmp_path: Path, form: TextForm) -> None:
    table = pa.table(
        {
            "text": ["a", None],
            "json": pa.array(['{"a": 1}', None], pa.json_()),
            "id": pa.array([b"0" * 16, b"1" * 16], pa.binary(16)),
            "empty": pa.array([[], None], pa.list_(pa.string())),
        }
    )
    dataset = pilum.write_dataset(table, tmp_path / "t", data_storage_version="2.1")
    plain = dataset.to_table()
    found = dataset.to_table(strings_as=form)
    assert found["json"].type == plain["json"].type
    assert found["id"].type == plain["id"].type
    assert found["text"].type == expected_type(pa.string(), form)
    assert found.to_pylist() == plain.to_pylist()


def test_a_table_without_rows_has_the_types(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(pa.table({"a": pa.array([], pa.string())}), tmp_path / "t")
    for form in FORMS:
        same(dataset.to_table(strings_as=form), dataset.to_table(), form)


def test_other_forms_are_refused(tmp_path: Path) -> None:
    dataset = pilum.write_dataset({"a": ["x"]}, tmp_path / "t")
    form: Any = "lists"
    with pytest.raises(InvalidInputError, match="strings_as: expected views or dictionaries"):
        dataset.to_table(strings_as=form)


def test_members_of_extension_types_stay_beside_texts(tmp_path: Path) -> None:
    texts = pa.array(["x", None, "a text longer than twelve"])
    json = pa.array(['{"a":1}', None, "[]"], pa.json_())
    flag = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8()))
    inner = pa.StructArray.from_arrays([json, flag, texts], names=["j", "f", "t"])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3, 3], pa.int32()), inner)
    table = pa.table({"s": inner, "l": lists, "j": json})
    dataset = pilum.write_dataset(table, tmp_path / "t", data_storage_version="2.2")
    expected = dataset.to_table().to_pylist()
    for form in FORMS:
        for more in ({}, {"filter": "s is not null"}, {"limit": 3}):
            found = dataset.to_table(strings_as=form, **more)
            assert found.to_pylist() == expected
            kind = found.schema.field("s").type
            assert [kind.field(n).type for n in (0, 1)] == [pa.json_(), pa.bool8()]
            assert not pt.is_string(kind.field(2).type)


def test_results_whose_names_have_dots(tmp_path: Path) -> None:
    inner = pa.StructArray.from_arrays([pa.array(["x", None]), pa.array([1, 2])], ["a", "n"])
    table = pa.table({"s": inner, "j": pa.array(['{"b":1}', None], pa.json_())})
    dataset = pilum.write_dataset(table, tmp_path / "t", data_storage_version="2.2")
    assert dataset.to_table(columns=["j", "s.a"]).to_pydict() == {
        "j": ['{"b":1}', None],
        "s.a": ["x", None],
    }
    wanted: Any
    for form in FORMS:
        for wanted in (["s.a"], ["s.n"], {"a.b": "s.a"}, ["j", "s.a"]):
            plain = dataset.to_table(columns=wanted).to_pylist()
            assert dataset.to_table(columns=wanted, strings_as=form).to_pylist() == plain
