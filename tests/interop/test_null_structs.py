"""Members of structs that are null, each read alone, against what Python finds in the rows."""

from __future__ import annotations

import tarfile
from itertools import count, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interop.null_structs import item_paths, member_paths, nested_tables, pruned, value_at

import pilum
from pilum.container.raw import RawReader
from pilum.file import LanceFileWriter
from pilum.fragment import LanceFragment
from pilum.storage.local import LocalSource

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")
lance_file = pytest.importorskip("lance.file")

pytestmark = pytest.mark.reference

_NUMBERS = count()
_PAGES = st.sampled_from(
    [{}, {"data_cache_bytes": 1}, {"data_cache_bytes": 100}, {"max_page_bytes": 300}]
)
_WITH_NULLS = {(1, 3), (2, 4), (5, 6)}
"""Kinds of layers without and with nulls: of some we say more than the reference."""

FIXTURE = Path(__file__).parents[1] / "fixtures" / "structs-with-hidden-nulls.tar.xz"


@settings(max_examples=50)
@given(versioned=nested_tables(), pages=_PAGES)
def test_members_of_what_we_wrote(
    tmp_path: Path, versioned: tuple[str, pa.Table], pages: dict[str, Any]
) -> None:
    version, table = versioned
    uri = str(tmp_path / str(next(_NUMBERS)))
    written = pilum.write_dataset(table, uri, data_storage_version=version, **pages)
    assert not written.verify().misread
    for dataset in (lance.dataset(uri), pilum.dataset(uri)):
        assert_members(dataset, table)
    assert_items(data_file(uri), table)


@settings(max_examples=40)
@given(versioned=nested_tables())
def test_members_of_what_it_wrote(tmp_path: Path, versioned: tuple[str, pa.Table]) -> None:
    version, table = versioned
    ours, theirs = (str(tmp_path / f"{name}{next(_NUMBERS)}") for name in ("ours", "theirs"))
    pilum.write_dataset(table, ours, data_storage_version=version)
    lance.write_dataset(table, theirs, data_storage_version=version)
    assert_members(pilum.dataset(theirs), table)
    assert not pilum.dataset(theirs).verify().misread
    pairs = zip(layers(data_file(ours)), layers(data_file(theirs)), strict=True)
    assert all(our == their or (their, our) in _WITH_NULLS for our, their in pairs)


@pytest.mark.parametrize("numbers", [[56, 56, 56, 56], [1, 2, 3, 4]], ids=["equal", "different"])
@pytest.mark.parametrize("size", [1, 2])
def test_members_that_must_not_be_null_in_lists_that_are(
    tmp_path: Path, numbers: list[int], size: int
) -> None:
    members = [pa.field("a", pa.int8(), nullable=False), pa.field("b", pa.string(), nullable=False)]
    items = pa.StructArray.from_arrays(
        [pa.array(numbers, pa.int8()), pa.array(map(str, numbers), pa.string())], fields=members
    )
    kind = pa.list_(pa.field("item", items.type, nullable=False), size)
    mask = pa.array([False] * (4 // size - 1) + [True])
    lists = pa.FixedSizeListArray.from_arrays(items, type=kind, mask=mask)
    uri = str(tmp_path / "t")
    pilum.write_dataset(pa.table({"c": lists}), uri, data_storage_version="2.2")
    for library in (pilum, lance):
        assert library.dataset(uri).to_table()["c"].to_pylist() == lists.to_pylist()


def assert_members(dataset: Any, table: pa.Table, column: str = "c") -> None:
    """Compares every member alone: all rows, some rows, and how many are null."""
    rows = table[column].to_pylist()
    picked = [len(rows) - 1, 0, len(rows) // 2]
    for path in member_paths(table.schema.field(column)):
        name, members = ".".join(path), path[1:]
        expected = [value_at(row, members) for row in rows]
        assert dataset.to_table(columns=[name])[name].to_pylist() == expected, name
        assert dataset.count_rows(f"{name} IS NULL") == expected.count(None), name
        found = dataset.take(picked, columns=[name])[column].to_pylist()
        assert found == [pruned(rows[row], members) for row in picked], name


def assert_items(file: str, table: pa.Table) -> None:
    """Compares what the reference finds in a file if it reads one leaf, in lists also."""
    rows = table["c"].to_pylist()
    for path in item_paths(table.schema.field("c")):
        found = lance_file.LanceFileReader(file, columns=[".".join(path)]).read_all().to_table()
        assert found["c"].to_pylist() == [pruned(row, path[1:]) for row in rows], path


def data_file(uri: str) -> str:
    [file] = (Path(uri) / "data").glob("*.lance")
    return str(file)


def layers(file: str) -> list[int]:
    """Kinds of the layers of all pages of all columns."""
    kinds: list[int] = []
    for column in RawReader(LocalSource(file)).columns():
        for page in column.pages:
            message = page.encoding.message()
            kinds += map(int, getattr(message, message.WhichOneof("layout")).layers)
    return kinds


LISTS = pa.struct([("x", pa.list_(pa.int64()))])
DEEPER = pa.struct([("a", LISTS)])
STRUCT_LISTS = pa.struct([("x", pa.list_(pa.struct([("y", pa.int64())]), 2))])
PAGES: dict[str, tuple[pa.DataType, list[list[Any]]]] = {
    "struct of lists": (
        LISTS,
        [
            [None],
            [{"x": None}],
            [{"x": []}],
            [{"x": [1]}],
            [{"x": [1, 2]}],
            [{"x": [None]}],
            [None, {"x": [7, 8]}, {"x": []}],
        ],
    ),
    "struct of structs of lists": (
        DEEPER,
        [
            [None],
            [{"a": None}],
            [{"a": {"x": None}}],
            [{"a": {"x": []}}],
            [{"a": {"x": [1, 2]}}, {"a": {"x": [1, None]}}],
        ],
    ),
    "list of structs of lists": (
        pa.list_(LISTS),
        [
            [None],
            [[]],
            [[None]],
            [[None, {"x": [1, 2]}]],
            [[{"x": None}], [{"x": []}]],
            [[{"x": [1, 2, 3]}, {"x": [4]}]],
            [[{"x": None}], None, [], [None]],
        ],
    ),
    "struct of fixed-size lists": (
        STRUCT_LISTS,
        [
            [None],
            [{"x": None}],
            [{"x": [{"y": 1}, {"y": 2}]}],
            [{"x": [None, {"y": 2}]}],
            [{"x": [None, None]}],
        ],
    ),
}
"""What pages may hold of which only some have null structs."""


@pytest.mark.parametrize(
    ("name", "version"),
    [
        (name, version)
        for name, (kind, _) in PAGES.items()
        for version in (["2.2"] if kind is STRUCT_LISTS else ["2.1", "2.2"])
    ],
)
def test_pages_that_are_read_together(tmp_path: Path, name: str, version: str) -> None:
    kind, contents = PAGES[name]
    file = str(tmp_path / "file.lance")
    for pair in product(contents, repeat=2):
        with LanceFileWriter(
            file, pa.schema([("c", kind)]), version=version, data_cache_bytes=1
        ) as writer:
            for rows in pair:
                writer.write_batch(pa.table({"c": pa.array(rows, kind)}))
        found = lance_file.LanceFileReader(file).read_all().to_table()
        assert found["c"].to_pylist() == [row for rows in pair for row in rows]


def test_files_of_before_are_mended(tmp_path: Path) -> None:
    with tarfile.open(FIXTURE) as packed:
        packed.extractall(tmp_path, filter="data")
    for uri in map(str, tmp_path.glob("*/*.lance")):
        table = pilum.dataset(uri).to_table()
        hidden = lance.dataset(uri).count_rows("c.x IS NULL")
        assert hidden != pilum.dataset(uri).count_rows("c.x IS NULL") == 7
        pilum.dataset(uri).optimize.compact_files(target_rows_per_fragment=20)
        found = lance.dataset(uri)
        assert found.count_rows("c.x IS NULL") == 7
        order = found.to_table(columns=["a"])["a"].to_pylist()
        assert sorted(order) == table["a"].to_pylist()
        for name in table.column_names:
            expected = table.select([name]).take(order)
            assert found.to_table(columns=[name]).equals(expected), name
            if name != "a":
                assert_members(found, expected, name)


def test_pages_of_the_reference_that_differ_are_mended(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    schema = pa.schema([("c", LISTS)])
    rows = [{"x": [1, 2]}, None]
    table = pa.table({"c": pa.array(rows, LISTS)})
    dataset = pilum.write_dataset(table.slice(0, 0), uri, data_storage_version="2.1")
    file = f"{uri}/data/theirs.lance"
    with lance_file.LanceFileWriter(file, schema, version="2.1", data_cache_bytes=1) as writer:
        for row in rows:
            writer.write_batch(pa.table({"c": pa.array([row], LISTS)}))
    fragment = LanceFragment.create_from_file("theirs.lance", dataset, 0)
    operation = pilum.LanceOperation.Append([fragment])
    dataset = pilum.LanceDataset.commit(uri, operation, read_version=1)
    assert [fault.path for fault in dataset.verify().misread] == ["data/theirs.lance"]
    dataset.optimize.compact_files()
    assert not dataset.verify().misread
    assert lance.dataset(uri).to_table().equals(table)
