"""Scalar indices: for the same rows both write the same, and the reference uses files of pilum."""

from __future__ import annotations

import uuid
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from index.scalar.strategies import columns, order_of, rows_of

import pilum
from pilum.errors import InvalidInputError
from pilum.format.version import FileVersion
from pilum.index.base import IndexType
from pilum.index.files import IndexFolder, IndexFolderWriter
from pilum.index.queries import IsNull
from pilum.index.registry import index_type
from pilum.kernels.reference_json import binary_json
from pilum.storage.local import LocalStore

lance: Any = pytest.importorskip("lance", reason="the reference implementation is not installed")
indices: Any = pytest.importorskip("lance.indices")

pytestmark = pytest.mark.reference

_NUMBERS = count()
_VERSIONS = {"2.0": FileVersion.V2_0, "2.1": FileVersion.V2_1, "2.2": FileVersion.V2_2}


def _reference(path: str, column: pa.Array, name: str, version: str, **parameters: Any) -> Any:
    """Write a table with an index by the reference; return it and the folder of the index."""
    table = pa.table({"a": column})
    dataset = lance.write_dataset(table, path, data_storage_version=version, max_rows_per_file=11)
    config = indices.IndexConfig(name.lower(), parameters) if parameters else name
    dataset.create_scalar_index("a", config, name="i")
    [entry] = dataset.list_indices()
    return dataset, IndexFolder(LocalStore(path), f"_indices/{entry['uuid']}")


def _addresses(num_rows: int) -> list[int]:
    return [row // 11 << 32 | row % 11 for row in range(num_rows)]


def _own(
    path: str, kind: IndexType[Any], column: pa.Array, parameters: dict[str, Any], version: str
) -> tuple[IndexFolderWriter, str]:
    name = str(uuid.uuid4())
    folder = IndexFolderWriter(LocalStore(path), f"_indices/{name}", _VERSIONS[version])
    rows = rows_of(column, _addresses(len(column)))
    kind.train(rows, kind.parameters(parameters, column.type), folder)
    return folder, name


def _content(folder: IndexFolder, name: str) -> tuple[list[list[Any]], dict[str, str], pa.Schema]:
    file = folder.open(name)
    table = file.read()
    rows = [[order_of(value) for value in column] for column in table.columns]
    return rows, dict(file.metadata), table.schema.remove_metadata()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("indices")


@settings(max_examples=40)
@given(
    column=columns(),
    zone=st.sampled_from([{}, {"zone_size": 4}]),
    version=st.sampled_from(list(_VERSIONS)),
)
def test_btree_files(place: Path, column: pa.Array, zone: dict[str, Any], version: str) -> None:
    """The files of a B-tree have the same rows, metadata and types; statistics are equal."""
    index, dataset = _compared(place, "BTREE", column, zone, version)
    assert [index.statistics()] == dataset.stats.index_stats("i")["indices"]
    addresses = _addresses(len(column))
    nulls = [address for address, one in zip(addresses, column, strict=True) if not one.is_valid]
    assert index.search(IsNull()).rows.listed.tolist() == nulls


@settings(max_examples=30)
@given(column=columns(), version=st.sampled_from(list(_VERSIONS)))
def test_bitmap_files(place: Path, column: pa.Array, version: str) -> None:
    """The file of a bitmap index has the same rows and metadata; statistics are equal."""
    index, dataset = _compared(place, "BITMAP", column, {}, version)
    assert [index.statistics()] == dataset.stats.index_stats("i")["indices"]


_LISTS = st.lists(
    st.none() | st.lists(st.none() | st.integers(0, 5), max_size=4), min_size=1, max_size=30
)


@settings(max_examples=20)
@given(values=_LISTS, version=st.sampled_from(list(_VERSIONS)))
def test_label_list_files(place: Path, values: list[Any], version: str) -> None:
    """The file of a label list has the same rows, metadata and buffer; statistics are equal."""
    column = pa.array(values, pa.list_(pa.int64()))
    index, dataset = _compared(place, "LABEL_LIST", column, {}, version)
    assert [index.statistics()] == dataset.stats.index_stats("i")["indices"]


def _compared(
    place: Path, name: str, column: pa.Array, parameters: dict[str, Any], version: str
) -> tuple[Any, Any]:
    """Compare the files of both; return the index of the reference, open, and its table."""
    assume(len(column))
    path = str(place / f"{next(_NUMBERS)}.lance")
    kind = index_type(name)
    dataset, reference = _reference(path, column, name, version, **parameters)
    folder, _ = _own(path, kind, column, parameters, version)
    written = folder.written()
    assert sorted(folder.sizes) == sorted(kind.files or ("bitmap_page_lookup.lance",))
    for file in folder.sizes:
        assert _content(written, file) == _content(reference, file)
        if "label_list_nulls" in str(written.open(file).metadata):
            assert written.open(file).global_buffer(1) == reference.open(file).global_buffer(1)
    return kind.open(reference, b"", kind.index_version(has_stable_row_ids=False)), dataset


_COMPARED = ["a = {0}", "a >= {0}", "a between {0} and {1}", "a in ({0}, {1})", "a is null"]
_LISTED = ["array_has_any(a, [{0}, {1}])", "array_has_all(a, [{0}, {1}])"]
_QUESTIONS = {
    "BTREE": [*_COMPARED, *(f"not ({one})" for one in _COMPARED)],
    "BITMAP": [*_COMPARED, *(f"not ({one})" for one in _COMPARED)],
    "LABEL_LIST": [*_LISTED, *(f"not {one}" for one in _LISTED)],
}
_NUMBER = st.integers(0, 5) | st.integers(-3, 40)


@settings(max_examples=30)
@given(
    name=st.sampled_from(sorted(_QUESTIONS)),
    version=st.sampled_from(list(_VERSIONS)),
    wanted=st.tuples(st.integers(-4, 7), st.integers(-4, 7)),
    has_stable_row_ids=st.booleans(),
    data=st.data(),
)
def test_both_use_indices_of_both(
    place: Path,
    name: str,
    version: str,
    wanted: tuple[int, int],
    has_stable_row_ids: bool,
    data: st.DataObject,
) -> None:
    """Each finds the same rows by its own index, and by that of the other, as by a scan."""
    value = st.lists(st.none() | _NUMBER, max_size=3) if name == "LABEL_LIST" else _NUMBER
    values = data.draw(st.lists(st.none() | value, min_size=1, max_size=30))
    kind = pa.list_(pa.int64()) if name == "LABEL_LIST" else pa.int64()
    for library in (pilum, lance):
        path = str(place / f"{next(_NUMBERS)}.lance")
        dataset = lance.write_dataset(
            pa.table({"a": pa.array(values, kind)}),
            path,
            data_storage_version=version,
            max_rows_per_file=11,
            enable_stable_row_ids=has_stable_row_ids,
        )
        library.dataset(path).create_scalar_index("a", name)
        dataset, own = lance.dataset(path), pilum.dataset(path)
        for question in _QUESTIONS[name]:
            text = question.format(*wanted)
            assert "ScalarIndexQuery" in dataset.scanner(filter=text).explain_plan()
            expected = dataset.to_table(filter=text, with_row_id=True, use_scalar_index=False)
            assert dataset.to_table(filter=text, with_row_id=True) == expected
            assert own.to_table(filter=text, with_row_id=True) == expected


@settings(max_examples=10)
@given(
    target=st.sampled_from(["btree", "bitmap"]),
    values=st.lists(st.none() | st.integers(0, 5), max_size=30),
    wanted=st.tuples(st.integers(-1, 6), st.integers(-1, 6)),
)
def test_the_reference_uses_json_indices(
    place: Path, target: str, values: list[int | None], wanted: tuple[int, int]
) -> None:
    """It finds the same rows as without; the files are those that it writes."""
    documents = [f'{{"x":{"null" if value is None else value}}}' for value in values]
    table = pa.table({"a": pa.array([None, '{"x":3}', *documents], pa.json_())})
    config = indices.IndexConfig("json", {"path": "x", "target_index_type": target})
    contents = []
    for library in (lance, pilum):
        path = str(place / f"{next(_NUMBERS)}.lance")
        lance.write_dataset(table, path, data_storage_version="2.2", max_rows_per_file=11)
        library.dataset(path).create_scalar_index("a", config)
        dataset = lance.dataset(path)
        [entry] = dataset.list_indices()
        folder = IndexFolder(LocalStore(path), f"_indices/{entry['uuid']}")
        files = sorted(index_type(target).files)
        contents.append([_content(folder, file) for file in files])
        for question in _QUESTIONS["BTREE"]:
            text = question.format(*wanted).replace("a ", "json_get_int(a, 'x') ")
            assert "ScalarIndexQuery" in dataset.scanner(filter=text).explain_plan()
            expected = dataset.to_table(filter=text, with_row_id=True, use_scalar_index=False)
            assert dataset.to_table(filter=text, with_row_id=True) == expected
    assert contents[0] == contents[1]


def test_columns_of_binary_that_are_not_marked_as_json(place: Path) -> None:
    """Both index JSON in its binary form, and neither indexes other bytes."""
    form = [binary_json('{"x":3}'), None, binary_json('{"x":4}')]
    table = pa.table({"a": pa.array(form, pa.large_binary()), "i": range(3)})
    config = indices.IndexConfig("json", {"path": "x", "target_index_type": "btree"})
    for library in (lance, pilum):
        path = str(place / f"{next(_NUMBERS)}.lance")
        lance.write_dataset(table, path, data_storage_version="2.2")
        library.dataset(path).create_scalar_index("a", config)
        for reader in (lance, pilum):
            found = reader.dataset(path).to_table(["i"], filter="json_get_int(a, 'x') = 4")
            assert found["i"].to_pylist() == [2]
        other = pa.table({"a": pa.array([b'{"x":5}'], pa.large_binary()), "i": [3]})
        lance.write_dataset(other, path, mode="append")
        with pytest.raises(RuntimeError, match="InvalidJsonb"):
            lance.dataset(path).create_scalar_index("a", config)
        dataset = pilum.dataset(path)
        words = "column 'a': values of the type large_binary that are not JSON"
        with pytest.raises(InvalidInputError, match=words):
            dataset.create_scalar_index("a", config)
        with pytest.raises(InvalidInputError, match=words):
            dataset.optimize.optimize_indices()
        assert dataset.version == dataset.latest_version == 3


@pytest.mark.parametrize(
    ("kind", "one", "filter"),
    [
        (pa.list_(pa.int64()), [2, 1], "a = [2, 1]"),
        (pa.large_list(pa.string()), ["x"], "array_has(a, 'x')"),
        (pa.list_(pa.int64(), 2), [2, 1], "a = [2, 1]"),
        (pa.struct({"b": pa.int64()}), {"b": 3}, "a.b = 3"),
    ],
    ids=["lists", "large lists", "vectors", "structs"],
)
def test_zone_maps_of_nested_values_are_kept(
    tmp_path: Path, kind: pa.DataType, one: Any, filter: str
) -> None:
    """The reference makes them, without ends of zones; both libraries go on with what is there."""
    column = pa.array([one, None, one] * 4, kind)
    _reference(str(tmp_path / "t"), column, "ZONEMAP", "2.2", rows_per_zone=5)
    for library in (pilum, lance):
        library.write_dataset(pa.table({"a": column}), str(tmp_path / "t"), mode="append")
        dataset = library.dataset(str(tmp_path / "t"))
        dataset.optimize.optimize_indices(num_indices_to_merge=5)
        assert dataset.stats.index_stats("i")["num_unindexed_rows"] == 0
        dataset.optimize.compact_files()
        for other in (pilum, lance):
            table: Any = other.dataset(str(tmp_path / "t"))
            third = table.count_rows() // 3
            counts = [table.count_rows(f) for f in (filter, "a IS NULL", "a IS NOT NULL")]
            assert counts == [2 * third, third, 2 * third]
            assert len(table.list_indices()) == 1


@pytest.mark.parametrize("values", [["b", "a", None], [2, 1, None]], ids=["texts", "integers"])
def test_zone_maps_of_dictionaries_are_kept(tmp_path: Path, values: list[Any]) -> None:
    """The reference makes them, without bounds; both libraries go on with what the other wrote."""
    column = pa.array(values * 4).dictionary_encode()
    _reference(str(tmp_path / "t"), column, "ZONEMAP", "2.2", rows_per_zone=5)
    for library in (pilum, lance):
        library.write_dataset(pa.table({"a": column}), str(tmp_path / "t"), mode="append")
        dataset = library.dataset(str(tmp_path / "t"))
        dataset.optimize.optimize_indices(num_indices_to_merge=5)
        dataset.optimize.compact_files()
        wanted = "'a'" if isinstance(values[0], str) else "1"
        for other in (pilum, lance):
            table: Any = other.dataset(str(tmp_path / "t"))
            num_rows = table.count_rows()
            counts = [table.count_rows(f) for f in (f"a = {wanted}", f"a > {wanted}", "a IS NULL")]
            assert counts == [num_rows // 3] * 3
            assert len(table.list_indices()) == 1
