"""Blobs of both versions: each reads what the other wrote, in every form. S4.4."""

from __future__ import annotations

import importlib
import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interop.comparison import assert_same

import pilum
from pilum.errors import UnsupportedFormatError
from pilum.file import LanceFileReader, LanceFileWriter

lance: Any = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

_NUMBERS = count()
_PLAIN = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
_HANDLING: tuple[Any, ...] = (None, "all_binary", "blobs_descriptions", "all_descriptions")
_SIZES = st.sampled_from([0, 1, 63, 64, 65, 300, 65_536, 65_537, 4 << 20, (4 << 20) + 1])


@st.composite
def payloads(draw: st.DrawFn) -> list[bytes | None]:
    """Few blobs of all kinds, or many small ones."""
    if draw(st.booleans()):
        sizes = draw(st.lists(st.none() | _SIZES, min_size=1, max_size=6))
    else:
        seed = draw(st.integers(1, 1000))
        sizes = [None if i % 7 == 3 else (i * seed) % 90 for i in range(3000)]
    return [None if size is None else bytes([n % 251]) * size for n, size in enumerate(sizes)]


def table_of(values: list[bytes | None], field: pa.Field) -> pa.Table:
    plain = pa.types.is_large_binary(field.type)
    column = pa.array(values, pa.large_binary()) if plain else pilum.blob_array(values)
    schema = pa.schema([pa.field("n", pa.int64()), field])
    return pa.table([pa.array(range(len(values))), column], schema=schema)


@settings(max_examples=30)
@given(
    values=payloads(),
    form=st.sampled_from([("2.1", _PLAIN), ("2.2", _PLAIN), ("2.2", pilum.blob_field("b"))]),
    ours=st.booleans(),
    rows_per_file=st.sampled_from([1, 1000, 1_000_000]),
    data=st.data(),
)
def test_both_give_the_same(
    tmp_path: Path,
    values: list[bytes | None],
    form: tuple[str, pa.Field],
    ours: bool,
    rows_per_file: int,
    data: st.DataObject,
) -> None:
    version, field = form
    path = str(tmp_path / str(next(_NUMBERS)))
    rows_per_file = max(rows_per_file, len(values) // 3)
    writer: Any = pilum if ours else lance
    table = table_of(values, field)
    writer.write_dataset(table, path, data_storage_version=version, max_rows_per_file=rows_per_file)
    found, expected = pilum.dataset(path), lance.dataset(path)
    for handling in _HANDLING:
        for where in (None, "b IS NULL", "n % 3 = 1 AND b IS NOT NULL"):
            assert_same(
                found.to_table(filter=where, blob_handling=handling),
                expected.to_table(filter=where, blob_handling=handling),
            )
    assert found.to_table(blob_handling="all_binary")["b"].to_pylist() == values
    rows = data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1, max_size=8))
    assert_same(found.take(rows), expected.take(rows))
    assert found.read_blobs("b", indices=rows) == expected.read_blobs("b", indices=rows)
    files = [file and file.read() for file in found.take_blobs("b", indices=rows)]
    assert files == [values[row] for row in rows]


def in_struct(kind: pa.Field, blobs: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([blobs], fields=[kind], mask=pa.array([False, False, True]))


def in_list(kind: pa.Field, blobs: pa.Array) -> pa.Array:
    offsets = pa.array([0, 1, 1, 3], pa.int32())
    return pa.ListArray.from_arrays(offsets, blobs, type=pa.list_(kind))


_VALUES = [b"x", None, b"y" * 70_000]
_NESTED = {
    "v1 in a struct": ("2.1", in_struct(_PLAIN, pa.array(_VALUES, pa.large_binary()))),
    "v1 in a struct, stored as v2": (
        "2.2",
        in_struct(_PLAIN, pa.array(_VALUES, pa.large_binary())),
    ),
    "v2 in a struct": ("2.2", in_struct(pilum.blob_field("b"), pilum.blob_array(_VALUES))),
    "v2 in a list": ("2.2", in_list(pilum.blob_field("item"), pilum.blob_array(_VALUES))),
    "v1 in a list, stored as v2": (
        "2.2",
        in_list(_PLAIN.with_name("item"), pa.array(_VALUES, pa.large_binary())),
    ),
}


@pytest.mark.parametrize("writer", [pilum, lance])
@pytest.mark.parametrize("name", _NESTED)
def test_nested_blobs(tmp_path: Path, name: str, writer: Any) -> None:
    version, column = _NESTED[name]
    path = str(tmp_path / "t")
    writer.write_dataset(pa.table({"s": column}), path, data_storage_version=version)
    found, expected = pilum.dataset(path), lance.dataset(path)
    for handling in _HANDLING:
        assert_same(
            found.to_table(blob_handling=handling), expected.to_table(blob_handling=handling)
        )
    if "struct" in name:
        rows = [2, 0, 1]
        assert found.read_blobs("s.b", indices=rows) == expected.read_blobs("s.b", indices=rows)


@pytest.mark.parametrize("writer", [pilum, lance])
def test_references_to_other_files(tmp_path: Path, writer: Any) -> None:
    (tmp_path / "ext ernal").write_bytes(bytes(range(100)))
    uri = (tmp_path / "ext ernal").as_uri()
    blobs = [uri, None, pilum.Blob.from_uri(uri, 3, 4), b"in", uri]
    table = pa.table([pilum.blob_array(blobs)], schema=pa.schema([pilum.blob_field("b")]))
    path = str(tmp_path / "t")
    options = {"data_storage_version": "2.2", "allow_external_blob_outside_bases": True}
    writer.write_dataset(table, path, **options)
    found, expected = pilum.dataset(path), lance.dataset(path)
    assert_same(found.to_table(), expected.to_table())
    assert_same(
        found.to_table(blob_handling="all_binary"), expected.to_table(blob_handling="all_binary")
    )
    rows = list(range(5))
    assert found.read_blobs("b", indices=rows) == expected.read_blobs("b", indices=rows)


@pytest.mark.parametrize("kind", ["deep_clone", "shallow_clone"])
def test_clones_find_blobs_that_are_relative_to_a_base_path(tmp_path: Path, kind: str) -> None:
    """The reference writes such references; its own deep clones lose the base path."""
    base, uri = tmp_path / "base", str(tmp_path / "t")
    base.mkdir()
    (base / "film").write_bytes(b"0123456789")
    film = lance.Blob.from_uri((base / "film").as_uri(), 2, 3)
    table = pa.table([lance.blob_array([film, b"in"])], pa.schema([lance.blob_field("b")]))
    paths = [lance.DatasetBasePath(str(tmp_path / name), name) for name in ("other", "base")]
    lance.write_dataset(table, uri, data_storage_version="2.2", initial_bases=paths)
    clone = getattr(pilum.dataset(uri), kind)(tmp_path / "clone", 1)
    if kind == "deep_clone":
        assert [one.name for one in clone.snapshot.manifest.base_paths] == ["base"]
        shutil.rmtree(uri)
    for dataset in (clone, lance.dataset(str(tmp_path / "clone"))):
        found = dataset.to_table(blob_handling="all_binary")["b"].to_pylist()
        assert found == [b"234", b"in"]
    assert not clone.verify(deep=True).faults
    clone.insert(pa.table([pilum.blob_array([b"new"])], pa.schema([pilum.blob_field("b")])))
    clone.optimize.compact_files()
    assert len(clone.get_fragments()) == 1
    for dataset in (clone, lance.dataset(str(tmp_path / "clone"))):
        found = dataset.to_table(blob_handling="all_binary")["b"].to_pylist()
        assert found == [b"234", b"in", b"new"]


@pytest.mark.parametrize("writer", [pilum, lance])
def test_thresholds_of_a_field(tmp_path: Path, writer: Any) -> None:
    field = pilum.blob_field(
        "b", inline_size_threshold=10, dedicated_size_threshold=100, pack_file_size_threshold=60
    )
    sizes = [5, 10, 11, 50, 100, 101, 40, 20, 40, 0]
    table = table_of([b"a" * size for size in sizes], field)
    writer.write_dataset(table, str(tmp_path / "t"), data_storage_version="2.2")
    found, expected = pilum.dataset(tmp_path / "t"), lance.dataset(str(tmp_path / "t"))
    assert_same(found.to_table(), expected.to_table())
    kinds = found.to_table()["b"].combine_chunks().field("kind").to_pylist()
    assert kinds == [0, 0, 1, 1, 1, 2, 1, 1, 1, 0]
    read = expected.to_table(blob_handling="all_binary")["b"].to_pylist()
    assert [len(blob) for blob in read] == sizes


def test_forms_mix_when_appended(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    plain, logical = table_of([b"x", None], _PLAIN), table_of([b"y"], pilum.blob_field("b"))
    for first, second in ((plain, logical), (logical, plain)):
        pilum.write_dataset(first, path, mode="overwrite", data_storage_version="2.2")
        pilum.write_dataset(second, path, mode="append")
        lance.write_dataset(second, path, mode="append")
        expected = lance.dataset(path).to_table(blob_handling="all_binary")
        assert_same(pilum.dataset(path).to_table(blob_handling="all_binary"), expected)
        assert expected.num_rows == first.num_rows + 2 * second.num_rows


@pytest.mark.parametrize("ours", [True, False])
def test_blobs_of_version_2_0(tmp_path: Path, ours: bool) -> None:
    values = [b"abc" * 100, None, b"", b"q" * 70_000] * 20
    path, table = str(tmp_path / "t"), table_of(values, _PLAIN)
    writer: Any = pilum if ours else lance
    writer.write_dataset(table, path, data_storage_version="2.0", max_rows_per_file=50)
    pilum.write_dataset(table, path, mode="append")
    values = values * 2
    found, expected = pilum.dataset(path), lance.dataset(path)
    payloads = found.to_table(blob_handling="all_binary")
    assert_same(payloads, expected.to_table(blob_handling="all_binary"))
    assert payloads["b"].to_pylist() == values
    # The reference gives null descriptors the words that the file has for them.
    words = {"position": 1, "size": 0}
    descriptors = found.to_table()["b"]
    assert [row or words for row in descriptors.to_pylist()] == expected.to_table()["b"].to_pylist()
    assert descriptors.null_count == values.count(None) == found.count_rows("b IS NULL")
    rows = [3, 81, 0, 157]
    assert found.read_blobs("b", indices=rows) == expected.read_blobs("b", indices=rows)
    for dataset in (found, expected):
        files = [file and file.read() for file in dataset.take_blobs("b", indices=rows)]
        assert files == [values[row] for row in rows]
    assert found.to_table(["b.size"])["b.size"].to_pylist()[:4] == [300, None, 0, 70_000]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_single_files_give_payloads(tmp_path: Path, version: str) -> None:
    values = [b"abc" * 100, None, b"", b"q" * 70_000]
    table = table_of(values, _PLAIN)
    files = importlib.import_module("lance.file")
    theirs, ours = str(tmp_path / "theirs.lance"), str(tmp_path / "ours.lance")
    with files.LanceFileWriter(theirs, table.schema, version=version) as writer:
        writer.write_batch(table)
    assert_same(LanceFileReader(theirs).read_all().to_table(), table)
    if version != "2.0":
        with LanceFileWriter(ours, table.schema, version=version) as writer:
            writer.write_batch(table)
        assert_same(files.LanceFileReader(ours).read_all().to_table(), table)
        assert_same(LanceFileReader(ours).read_all().to_table(), table)


def test_legacy_tables_keep_blobs_as_they_are(tmp_path: Path) -> None:
    table, path = table_of([b"x", None, b"yz"], _PLAIN), str(tmp_path / "t")
    lance.write_dataset(table, path, data_storage_version="0.1")
    found = pilum.dataset(path)
    for handling in _HANDLING:
        assert_same(found.to_table(blob_handling=handling), table)
    assert_same(found.take([2, 0]), table.take([2, 0]))
    with pytest.raises(UnsupportedFormatError, match=r"0\.1"):
        found.read_blobs("b", indices=[0])


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_merged_blobs_are_those_of_the_reference(tmp_path: Path, version: str) -> None:
    marked = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([("a", pa.int64()), marked])
    found = []
    for library in (pilum, lance):
        made: Any = library

        def rows(keys: list[int], blobs: list[bytes | None], made: Any = made) -> pa.Table:
            if version != "2.2":
                return pa.table({"a": keys, "b": blobs}, schema)
            return pa.table(
                {"a": keys, "b": made.blob_array(blobs)},
                pa.schema([("a", pa.int64()), made.blob_field("b")]),
            )

        uri = str(tmp_path / made.__name__)
        made.write_dataset(
            rows([1, 2, 3], [b"x", None, b"y" * 70_000]), uri, data_storage_version=version
        )
        builder = made.dataset(uri).merge_insert("a").when_matched_update_all()
        source = rows([2, 3, 9], [b"new" * 30_000, None, b"n"])
        builder.when_not_matched_insert_all().execute(source)
        for reader in (pilum, lance):
            opened: Any = reader
            table = opened.dataset(uri).to_table(blob_handling="all_binary").sort_by("a")
            found.append(table["b"].to_pylist())
    assert found == [[b"x", b"new" * 30_000, None, b"n"]] * 4


@pytest.mark.parametrize("value", ["X'6162'", "NULL", "'text'", "X''"])
def test_both_set_blobs_of_version_1_to_the_same(tmp_path: Path, value: str) -> None:
    found = []
    for library in (pilum, lance):
        path = str(tmp_path / library.__name__)
        pilum.write_dataset(table_of([b"a", b"b", None], _PLAIN), path, data_storage_version="2.1")
        assert library.dataset(path).update({"b": value}, where="n >= 1")["num_rows_updated"] == 2
        found += [one.dataset(path).read_blobs("b", indices=[0, 1, 2]) for one in (pilum, lance)]
    assert all(one == found[0] for one in found)
