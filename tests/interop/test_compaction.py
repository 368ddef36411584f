"""Compacted tables: planned as the reference does, read by it, and its indices stay right."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interop.comparison import as_stored, assert_same
from interop.strategies import tables

import pilum
from pilum.optimize import Compaction

lance: Any = pytest.importorskip("lance", reason="the reference implementation is not installed")
optimize = pytest.importorskip("lance.optimize")

pytestmark = pytest.mark.reference

_NUMBERS = count()


def task_ids(plan: Any) -> list[list[int]]:
    return [[fragment.id for fragment in task.fragments] for task in plan.tasks]


def append(uri: str, first: int, rows: int, **more: Any) -> None:
    table = pa.table({"a": pa.array(range(first, first + rows), pa.int64())})
    pilum.write_dataset(table, uri, mode="append", **more)


@settings(max_examples=20)
@given(
    fragments=st.lists(st.tuples(st.integers(1, 30), st.integers(0, 8)), min_size=1, max_size=9),
    indexed=st.integers(0, 9),
    options=st.fixed_dictionaries(
        {},
        optional={
            "target_rows_per_fragment": st.integers(1, 60),
            "materialize_deletions": st.booleans(),
            "materialize_deletions_threshold": st.sampled_from([0.0, 0.1, 0.25, 1.0]),
            "max_source_fragments": st.integers(1, 6),
            "max_source_rows": st.integers(1, 80),
            "excluded_fragment_ids": st.lists(st.integers(0, 9), max_size=2),
        },
    ),
)
def test_both_plan_the_same(
    tmp_path: Path, fragments: list[tuple[int, int]], indexed: int, options: dict[str, Any]
) -> None:
    uri = str(tmp_path / str(next(_NUMBERS)))
    first = 0
    for number, (rows, _) in enumerate(fragments):
        append(uri, first, rows)
        first += rows
        if number + 1 == indexed:
            lance.dataset(uri).create_scalar_index("a", "BTREE")
    starts = np.cumsum([0, *(rows for rows, _ in fragments)])
    gone = [
        str(start + row)
        for start, (rows, deleted) in zip(starts, fragments, strict=False)
        for row in range(min(deleted, rows - 1))
    ]
    if gone:
        pilum.dataset(uri).delete(f"a IN ({', '.join(gone)})")
    ours = Compaction.plan(pilum.dataset(uri), options)
    theirs = optimize.Compaction.plan(lance.dataset(uri), options)
    assert task_ids(ours) == task_ids(theirs)


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_the_reference_reads_what_was_compacted(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "table")
    kind = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
    for number in range(3):
        keys = range(100 * number, 100 * number + 100)
        columns = {
            "a": pa.array(keys, pa.int64()),
            "s": pa.array([None if key % 7 == 0 else f"text {key}" for key in keys]),
            "v": pa.array([[key, key + 0.5] for key in keys], pa.list_(pa.float32(), 2)),
        }
        if version != "0.1":
            nested = [{"x": key, "y": [str(key)] * (key % 3)} for key in keys]
            columns["n"] = pa.array(nested, kind)
        lance.write_dataset(pa.table(columns), uri, mode="append", data_storage_version=version)
    dataset = pilum.dataset(uri)
    dataset.delete("a % 10 = 3")
    expected = dataset.to_table()
    metrics = dataset.optimize.compact_files()
    assert (metrics.fragments_removed, metrics.fragments_added) == (3, 1)
    assert (metrics.files_removed, metrics.files_added) == (6, 1)
    assert dataset.to_table() == expected
    assert lance.dataset(uri).to_table() == expected
    assert dataset.version == lance.dataset(uri).version
    lance.dataset(uri).validate()


@settings(max_examples=10)
@given(
    table=tables(max_columns=2),
    version=st.sampled_from(["2.1", "2.2"]),
    parts=st.integers(2, 4),
    deleted=st.sampled_from(["a_key < 0", "a_key % 3 = 1", "a_key % 50 <> 7"]),
    batch_size=st.sampled_from([None, 7, 100]),
)
def test_every_bit_is_kept(
    tmp_path: Path,
    table: pa.Table,
    version: str,
    parts: int,
    deleted: str,
    batch_size: int | None,
) -> None:
    uri = str(tmp_path / str(next(_NUMBERS)))
    table = table.append_column("a_key", pa.array(range(table.num_rows), pa.int64()))
    rows_per_file = max(-(-table.num_rows // parts), 1)
    dataset = pilum.write_dataset(
        table, uri, max_rows_per_file=rows_per_file, data_storage_version=version
    )
    dataset.delete(deleted)
    expected = dataset.to_table()
    dataset.optimize.compact_files(batch_size=batch_size, materialize_deletions_threshold=0)
    assert_same(dataset.to_table(), expected)
    assert_same(lance.dataset(uri).to_table(), as_stored(expected))
    assert len(dataset.get_fragments()) <= 1


def test_files_of_another_version_take_the_place_of_some(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    for first, rows in ((0, 50), (50, 50), (100, 500)):
        append(uri, first, rows, data_storage_version="2.1")
    dataset = pilum.dataset(uri)
    dataset.optimize.compact_files(target_rows_per_fragment=200, data_storage_version="2.2")
    expected = pa.table({"a": [*range(100, 600), *range(100)]})
    assert dataset.to_table() == lance.dataset(uri).to_table() == expected
    # The table stays mixed, and both go on.
    append(uri, 600, 5)
    lance.dataset(uri).optimize.compact_files()
    assert pilum.dataset(uri).count_rows() == 605


def test_indices_of_the_reference_stay_right(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    random = np.random.default_rng(7)
    for number in range(4):
        rows = 600
        vectors = pa.array(random.random(rows * 8, dtype=np.float32))
        keys = range(number * rows, (number + 1) * rows)
        table = pa.table(
            {
                "a": pa.array(keys, pa.int64()),
                "kind": [key % 7 for key in keys],
                "zone": pa.array(keys, pa.int64()),
                "text": [f"word{key % 50} of {key}" for key in keys],
                "v": pa.FixedSizeListArray.from_arrays(vectors, 8),
            }
        )
        lance.write_dataset(table, uri, mode="append")
    theirs = lance.dataset(uri)
    for column, index in (
        ("a", "BTREE"),
        ("kind", "BITMAP"),
        ("zone", "ZONEMAP"),
        ("text", "INVERTED"),
    ):
        theirs.create_scalar_index(column, index)
    theirs.create_index("v", "IVF_FLAT", num_partitions=4)
    query = random.random(8, dtype=np.float32)

    def answers() -> dict[str, list[int]]:
        dataset = lance.dataset(uri)
        nearest = {"column": "v", "q": query, "k": 9, "nprobes": 4}
        asked: dict[str, dict[str, Any]] = {
            "a": {"filter": "a BETWEEN 590 AND 640"},
            "kind": {"filter": "kind = 3"},
            "zone": {"filter": "zone > 2300"},
            "text": {"full_text_query": "word7"},
            "v": {"nearest": nearest},
        }
        return {
            name: sorted(dataset.to_table(columns=["a"], **what)["a"].to_pylist())
            for name, what in asked.items()
        }

    for step in range(3):
        pilum.dataset(uri).delete(f"a % 11 = {step}")
        expected = answers()
        metrics = pilum.dataset(uri).optimize.compact_files(target_rows_per_fragment=1000)
        assert metrics.fragments_removed
        assert answers() == expected
    plan = lance.dataset(uri).scanner(filter="a = 595").explain_plan()
    assert "ScalarIndexQuery" in plan
    # The reference goes on: it appends, extends its indices, and compacts in both ways.
    lance.write_dataset(lance.dataset(uri).to_table().slice(0, 90), uri, mode="append")
    expected = answers()
    lance.dataset(uri).optimize.optimize_indices()
    assert answers() == expected
    lance.dataset(uri).optimize.compact_files(defer_index_remap=True)
    assert answers() == expected
    pilum.dataset(uri).delete("a % 11 = 5")
    expected = answers()
    pilum.dataset(uri).optimize.compact_files()
    assert answers() == expected


def test_many_moved_rows_are_recorded_in_a_file(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    for first in (0, 1_200_000):
        append(uri, first, 1_200_000, max_rows_per_file=2_000_000)
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    dataset = pilum.dataset(uri)
    dataset.delete("a % 3 = 0")
    target = 5_000_000
    dataset.optimize.compact_files(target_rows_per_fragment=target, defer_index_remap=True)
    assert list((tmp_path / "table").glob("_indices/*/details.binpb"))
    append(uri, 3, 1)
    dataset.checkout_latest()
    dataset.optimize.compact_files(target_rows_per_fragment=target, defer_index_remap=True)
    found = lance.dataset(uri).to_table(filter="a IN (1, 3, 1200001, 1200003)")
    assert sorted(found["a"].to_pylist()) == [1, 3, 1200001]


def test_an_index_that_is_made_meanwhile_stays_right(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    for first in (0, 100, 200):
        append(uri, first, 100)
    stale = lance.dataset(uri)
    plan = Compaction.plan(pilum.dataset(uri), {})
    results = [task.execute(pilum.dataset(uri)) for task in plan.tasks]
    stale.create_scalar_index("a", "BTREE")
    Compaction.commit(pilum.dataset(uri), results)
    assert lance.dataset(uri).to_table(filter="a = 150")["a"].to_pylist() == [150]
    dataset = pilum.dataset(uri)
    dataset.delete("a < 50")
    dataset.optimize.compact_files(defer_index_remap=False)
    theirs = lance.dataset(uri)
    assert "ScalarIndexQuery" in theirs.scanner(filter="a = 150").explain_plan()
    assert theirs.to_table(filter="a IN (30, 150)")["a"].to_pylist() == [150]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(range(500), pa.float32()), 2)
    dataset.add_columns(pa.table({"v": vectors}).to_reader())
    lance.dataset(uri).create_index("v", "IVF_FLAT", num_partitions=2)
    dataset.checkout_latest()
    dataset.delete("a < 100")
    dataset.optimize.compact_files(defer_index_remap=False)
    nearest = {"column": "v", "q": [300.0, 301.0], "k": 1, "nprobes": 2}
    assert lance.dataset(uri).to_table(nearest=nearest)["a"].to_pylist() == [200]


def test_blobs_are_carried(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    outside = tmp_path / "outside.bin"
    outside.write_bytes(b"0123456789")
    sizes = [0, 10, None, 70_000, 4_500_000]
    for number in range(2):
        values: list[Any] = [
            None if size is None else bytes([number * 10 + place]) * size
            for place, size in enumerate(sizes)
        ]
        values.append(pilum.Blob.from_uri(outside.as_uri()))
        table = pa.table({"n": range(6), "b": pilum.blob_array(values)})
        pilum.write_dataset(table, uri, mode="append", allow_external_blob_outside_bases=True)
    dataset = pilum.dataset(uri)
    dataset.delete("n = 1")
    expected = dataset.to_table(blob_handling="all_binary")
    dataset.optimize.compact_files()
    assert dataset.to_table(blob_handling="all_binary") == expected
    theirs = lance.dataset(uri)
    rows = list(range(10))
    found = [blob.read() if blob else None for blob in theirs.take_blobs("b", indices=rows)]
    assert [one for one in found if one is not None] == [
        one for one in expected["b"].to_pylist() if one is not None
    ]
    kinds = dataset.to_table(columns=["b"])["b"].combine_chunks().field("kind").to_pylist()
    assert set(kinds) == {0, 1, 2, 3}


def test_blobs_of_version_1_are_carried(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    for number in range(2):
        values = [None, b"", bytes([number]) * 5, bytes([number]) * 100_000]
        table = pa.table([pa.array(values, pa.large_binary())], schema=pa.schema([field]))
        pilum.write_dataset(table, uri, mode="append", data_storage_version="2.1")
    dataset = pilum.dataset(uri)
    expected = dataset.to_table(blob_handling="all_binary")
    dataset.optimize.compact_files()
    assert dataset.to_table(blob_handling="all_binary") == expected
    assert lance.dataset(uri).count_rows() == 8


_LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


def test_stable_row_ids_and_lineage_are_kept(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    for first in range(0, 400, 100):
        rows = range(first, first + 100)
        table = pa.table({"a": rows, "zone": rows, "s": [str(key % 10) for key in rows]})
        lance.write_dataset(table, uri, mode="append", enable_stable_row_ids=True)
    theirs = lance.dataset(uri)
    theirs.create_scalar_index("a", "BTREE")
    theirs.create_scalar_index("zone", "ZONEMAP")
    theirs.create_scalar_index("s", "BITMAP")
    theirs.update({"s": "'new'"}, where="a % 50 = 7")
    theirs.delete("a % 9 = 1")
    columns = ["a", "s", *_LINEAGE]
    dataset = pilum.dataset(uri)
    expected = dataset.to_table(columns=columns).sort_by("a")
    metrics = dataset.optimize.compact_files(target_rows_per_fragment=150)
    assert metrics.fragments_removed
    assert dataset.to_table(columns=columns).sort_by("a") == expected
    theirs = lance.dataset(uri)
    assert theirs.to_table(columns=columns).sort_by("a") == expected
    theirs.validate()
    for filter in ("a = 57", "a BETWEEN 90 AND 110", "zone > 395", "s = '3'"):
        found = theirs.to_table(filter=filter).sort_by("a")
        assert found == dataset.to_table(filter=filter).sort_by("a"), filter
    ids = expected["_rowid"].to_pylist()[::17]
    assert theirs._take_rows(ids)["a"].to_pylist() == expected["a"].to_pylist()[::17]
    # Ids go on from where they were, and the reference compacts what is there.
    lance.write_dataset(theirs.to_table().slice(0, 5), uri, mode="append")
    theirs = lance.dataset(uri)
    theirs.optimize.compact_files()
    found = pilum.dataset(uri).to_table(columns=["_rowid"])["_rowid"].to_pylist()
    assert len(set(found)) == len(found) == expected.num_rows + 5


def test_clones_and_branches_are_compacted_for_themselves(tmp_path: Path) -> None:
    uri, clone = str(tmp_path / "table"), str(tmp_path / "clone")
    for first in (0, 100):
        append(uri, first, 100)
    theirs = lance.dataset(uri)
    theirs.create_scalar_index("a", "BTREE")
    theirs.delete("a = 150")
    theirs.shallow_clone(clone, theirs.version)
    theirs.create_branch("side", theirs.version)
    before = {path.name for path in (tmp_path / "table" / "data").iterdir()}
    side = pilum.dataset(uri).checkout_version(("side", None))
    for dataset in (pilum.dataset(clone), side):
        metrics = dataset.optimize.compact_files()
        assert metrics.fragments_removed == 2
        assert dataset.count_rows(filter="a > 140 AND a < 160") == 18
    assert {path.name for path in (tmp_path / "table" / "data").iterdir()} == before
    assert len(list((tmp_path / "clone" / "data").iterdir())) == 1
    for dataset in (lance.dataset(clone), lance.dataset(uri).checkout_version(("side", None))):
        assert dataset.to_table(filter="a > 140 AND a < 160").num_rows == 18
    assert pilum.dataset(uri).version == theirs.version
