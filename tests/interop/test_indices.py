"""Indices of the reference survive our changes: with its coverage, and still right (S14.2, S21)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.errors import IndexNotFoundError, UnsupportedFeatureError

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]

INDICES = {
    "number": "BTREE",
    "group": "BITMAP",
    "text": "INVERTED",
    "labels": "LABEL_LIST",
    "zone": "ZONEMAP",
}
FILTERS = {
    "number": "number >= 12 and number < 311",
    "group": "group = 3",
    "labels": "array_has_any(labels, ['1'])",
    "zone": "zone > 3 and zone < 8",
}


def rows(first: int, count: int) -> pa.Table:
    vectors = np.random.default_rng(first).random((count, 8), dtype=np.float32)
    numbers = np.arange(first, first + count)
    return pa.table(
        {
            "number": numbers,
            "group": numbers % 5,
            "text": [f"word{number % 7} and" for number in numbers],
            "labels": [[str(number % 3)] for number in numbers],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8),
            "zone": numbers % 100,
        }
    )


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Fragments 0, 1, 2 and 3; each index has a segment for 0 to 2 and one for 3."""
    uri = str(tmp_path_factory.mktemp("indexed") / "t.lance")
    dataset = lance.write_dataset(rows(0, 100), uri)
    dataset.insert(rows(100, 100))
    dataset.insert(rows(200, 100))
    for column, kind in INDICES.items():
        dataset.create_scalar_index(column, kind)
    dataset.create_index(
        "vector", "IVF_PQ", num_partitions=2, num_sub_vectors=2, num_bits=4, sample_rate=16
    )
    dataset.insert(rows(300, 50))
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    return uri


@pytest.fixture
def copies(indexed: str, tmp_path: Path) -> tuple[str, str]:
    """One to change with this library, one for the reference."""
    ours, theirs = str(tmp_path / "ours.lance"), str(tmp_path / "theirs.lance")
    for copy in (ours, theirs):
        shutil.copytree(indexed, copy)
    return ours, theirs


def coverage(uri: str) -> list[tuple[str, str, int, list[int]]]:
    return sorted(
        (one["name"], one["uuid"], one["version"], sorted(one["fragment_ids"]))
        for one in lance.dataset(uri).list_indices()
    )


def answers(uri: str, **options: Any) -> list[list[int]]:
    """The numbers that filters, full-text search and the nearest vectors find."""
    dataset = lance.dataset(uri)
    names = dataset.schema.names
    scans: list[dict[str, Any]]
    scans = [{"filter": one} for column, one in FILTERS.items() if column in names]
    if options["use_scalar_index"]:
        # Without an index there is no full-text search; it is held against the plain text.
        found = sorted(dataset.to_table(full_text_query="word3")["number"].to_pylist())
        plain = dataset.to_table(columns=["number", "text"]).to_pylist()
        assert found == sorted(row["number"] for row in plain if "word3" in row["text"])
    query = {"column": "vector", "q": [0.4] * 8, "k": 12, "nprobes": 2, "refine_factor": 100}
    scans.append({"nearest": query | {"use_index": options["use_scalar_index"]}})
    return [sorted(dataset.to_table(**scan, **options)["number"].to_pylist()) for scan in scans]


CHANGES: dict[str, Callable[[Any], object]] = {
    "append": lambda dataset: dataset.insert(rows(350, 20)),
    "delete rows": lambda dataset: dataset.delete("number % 7 = 3"),
    "delete a fragment": lambda dataset: dataset.delete("number < 100"),
    "delete all that a segment covers": lambda dataset: dataset.delete("number >= 300"),
    "delete all that the other covers": lambda dataset: dataset.delete("number < 300"),
    "add a column": lambda dataset: dataset.add_columns({"more": "number + 1"}),
    "add nulls": lambda dataset: dataset.add_columns(pa.field("none", pa.int32())),
    "drop a column": lambda dataset: dataset.drop_columns(["group"]),
    "rename a column": lambda dataset: dataset.alter_columns({"path": "zone", "name": "z"}),
    "config": lambda dataset: dataset.update_config({"key": "value"}),
    "drop an index": lambda dataset: dataset.drop_index("number_idx"),
}


@pytest.mark.checklist("S2.9")
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_leaves_what_the_reference_leaves(
    copies: tuple[str, str], change: str
) -> None:
    ours, theirs = copies
    CHANGES[change](pilum.dataset(ours))
    CHANGES[change](lance.dataset(theirs))
    assert coverage(ours) == coverage(theirs)
    found = answers(ours, use_scalar_index=True)
    assert found == answers(ours, use_scalar_index=False)
    assert found == answers(theirs, use_scalar_index=True)


def test_restore_brings_indices_back_and_overwrite_drops_them(copies: tuple[str, str]) -> None:
    ours, _ = copies
    before = coverage(ours)
    dataset = pilum.dataset(ours)
    version = dataset.version
    dataset.drop_index("vector_idx")
    dataset.drop_columns(["group"])
    dataset.checkout_version(version).restore()
    assert coverage(ours) == before
    assert answers(ours, use_scalar_index=True) == answers(ours, use_scalar_index=False)
    pilum.write_dataset(rows(0, 10), ours, mode="overwrite")
    assert coverage(ours) == []
    assert not pilum.dataset(ours).has_index


def test_indices_are_listed_as_the_reference_does(indexed: str) -> None:
    ours, theirs = pilum.dataset(indexed), lance.dataset(indexed)
    assert ours.has_index
    found, expected = ours.list_indices(), theirs.list_indices()
    for one, other in zip(found, expected, strict=True):
        assert one["fragment_ids"] is not None
        assert {**one, "fragment_ids": [*one["fragment_ids"]], "type": ""} == {
            **other,
            "fragment_ids": [*other["fragment_ids"]],
            "type": "",
        }
        assert one["type"] in {other["type"], "Vector"}
    for mine, its in zip(ours.describe_indices(), theirs.describe_indices(), strict=True):
        for name in ("name", "type_url", "num_rows_indexed", "fields", "field_names"):
            assert getattr(mine, name) == getattr(its, name)
        assert mine.total_size_bytes == its.total_size_bytes
        for segment, segment_of_theirs in zip(mine.segments, its.segments, strict=True):
            for name in ("uuid", "created_at", "size_bytes", "index_version"):
                assert getattr(segment, name) == getattr(segment_of_theirs, name)


def test_only_what_is_there_can_be_dropped(copies: tuple[str, str]) -> None:
    dataset = pilum.dataset(copies[0])
    version = dataset.version
    with pytest.raises(IndexNotFoundError, match="no index 'x'; there are"):
        dataset.drop_index("x")
    with pytest.raises(UnsupportedFeatureError, match="no type of index"):
        dataset.create_scalar_index("number", "UNHEARD")
    assert pilum.dataset(copies[0]).version == version


def test_new_values_leave_the_indices_on_them(copies: tuple[str, str]) -> None:
    """Files that replace columns, by both operations and both libraries (S2.9, S14.2)."""
    ours, theirs = copies
    for library, uri in ((pilum, ours), (lance, theirs)):
        dataset = library.dataset(uri)
        other = pa.table({"number": pa.array([4, 250]), "group": pa.array([3, 3])})
        parts = [one.update_columns(other, "number") for one in dataset.get_fragments()[:1]]
        operation = library.LanceOperation.Update(
            updated_fragments=[part[0] for part in parts],
            fields_modified=parts[0][1],
            update_mode="rewrite_columns",
        )
        dataset = library.LanceDataset.commit(uri, operation, read_version=dataset.version)
        image, _ = dataset.get_fragments()[2].update_columns(other, "number")
        group = library.LanceOperation.DataReplacementGroup(2, image.files[-1])
        operation = library.LanceOperation.DataReplacement([group])
        library.LanceDataset.commit(uri, operation, read_version=dataset.version)
    assert coverage(ours) == coverage(theirs)
    files = [
        [[file.fields for file in one.data_files()] for one in lance.dataset(uri).get_fragments()]
        for uri in copies
    ]
    assert files[0] == files[1]
    found = answers(ours, use_scalar_index=True)
    assert found == answers(ours, use_scalar_index=False)
    assert found == answers(theirs, use_scalar_index=True)


STABLE: dict[str, Callable[[Any], object]] = {
    "update": lambda dataset: dataset.update({"group": "9"}, where="number < 130"),
    "merge insert": lambda dataset: (
        dataset.merge_insert("number")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute(rows(195, 10))
    ),
    "delete": lambda dataset: dataset.delete("number < 100"),
}


@pytest.mark.parametrize("change", STABLE)
def test_rows_with_stable_ids_are_found_where_they_went(tmp_path: Path, change: str) -> None:
    """New fragments join the indices that know their rows by their ids (S14.2, S2.8)."""
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    dataset = lance.write_dataset(rows(0, 100), ours, enable_stable_row_ids=True)
    dataset.insert(rows(100, 100))
    for column, kind in INDICES.items():
        dataset.create_scalar_index(column, kind)
    dataset.create_index(
        "vector", "IVF_PQ", num_partitions=2, num_sub_vectors=2, num_bits=4, sample_rate=12
    )
    shutil.copytree(ours, theirs)
    STABLE[change](pilum.dataset(ours))
    STABLE[change](lance.dataset(theirs))
    assert coverage(ours) == coverage(theirs)
    found = answers(ours, use_scalar_index=True)
    assert found == answers(ours, use_scalar_index=False)
    assert found == answers(theirs, use_scalar_index=True)
