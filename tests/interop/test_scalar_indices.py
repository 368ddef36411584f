"""Scalar indices: for the same rows both write the same, and the reference uses files of pilum."""

from __future__ import annotations

import uuid
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index.scalar.strategies import columns, order_of, rows_of

from pilum.format.version import FileVersion
from pilum.index.base import IndexType
from pilum.index.files import IndexFolder, IndexFolderWriter
from pilum.index.queries import IsNull
from pilum.index.registry import index_type
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
    if not len(column):
        return
    path = str(place / f"{next(_NUMBERS)}.lance")
    kind = index_type("BTREE")
    dataset, reference = _reference(path, column, "BTREE", version, **zone)
    folder, _ = _own(path, kind, column, zone, version)
    for name in ("page_data.lance", "page_lookup.lance"):
        assert _content(folder.written(), name) == _content(reference, name)
    index = kind.open(reference, b"", 0)
    assert [index.statistics()] == dataset.stats.index_stats("i")["indices"]
    expected = [
        place
        for place, value in zip(_addresses(len(column)), column, strict=True)
        if not value.is_valid
    ]
    assert index.search(IsNull()).rows.listed.tolist() == expected


_QUESTIONS = {
    "BTREE": [
        "a = {0}",
        "a != {0}",
        "a >= {0}",
        "a between {0} and {1}",
        "a is null",
        "a in ({0}, {1})",
    ],
}


@settings(max_examples=25)
@given(
    kind=st.sampled_from(sorted(_QUESTIONS)),
    values=st.lists(st.none() | st.integers(0, 5) | st.integers(-3, 40), min_size=1, max_size=40),
    version=st.sampled_from(list(_VERSIONS)),
    wanted=st.tuples(st.integers(-4, 7), st.integers(-4, 7)),
)
def test_the_reference_reads_ours(
    place: Path, kind: str, values: list[int | None], version: str, wanted: tuple[int, int]
) -> None:
    """It finds the same rows by our index as by a scan."""
    path = str(place / f"{next(_NUMBERS)}.lance")
    column = pa.array(values, pa.int32())
    dataset = lance.write_dataset(
        pa.table({"a": column}), path, data_storage_version=version, max_rows_per_file=11
    )
    _, name = _own(path, index_type(kind), column, {}, version)
    dataset = _committed(dataset, path, kind, name)
    for question in _QUESTIONS[kind]:
        text = question.format(*wanted)
        plan = dataset.scanner(filter=text).explain_plan()
        assert "ScalarIndexQuery" in plan
        found = dataset.to_table(filter=text, with_row_id=True)
        assert found == dataset.to_table(filter=text, with_row_id=True, use_scalar_index=False)


def _committed(dataset: Any, path: str, kind: str, name: str) -> Any:
    """Commit files of pilum as an index of the reference."""
    fragments = {one.fragment_id for one in dataset.get_fragments()}
    index = lance.Index(
        uuid=name,
        name="i",
        fields=[0],
        dataset_version=dataset.version,
        fragment_ids=fragments,
        index_version=index_type(kind).index_version(has_stable_row_ids=False),
    )
    operation = lance.LanceOperation.CreateIndex(new_indices=[index], removed_indices=[])
    return lance.LanceDataset.commit(path, operation, read_version=dataset.version)
