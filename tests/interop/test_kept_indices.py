"""Indices of either library are used, extended and moved by both (S14.2, S21).

The reference searches with every index; what it finds with and without one is the same. The filters
are chosen so that it uses the index, which its plan shows.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.indices import IndexConfig

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore:.*deprecated")]

COLUMNS: dict[str, tuple[str, list[str]]] = {
    "BTREE": (
        "number",
        ["number = 31", "number > 20 AND number < 44", "number IN (1, 31, 52, 70)"],
    ),
    "BITMAP": ("group", ["group = 3", "group IN (1, 2)", "group IS NULL"]),
    "LABEL_LIST": ("labels", ["array_has_any(labels, ['a1', 'a3'])"]),
    "ZONEMAP": ("number", ["number = 31", "number > 20 AND number < 44"]),
    "BLOOMFILTER": ("number", ["number = 31", "number IN (1, 31, 52, 70)"]),
    "NGRAM": ("text", ["contains(text, 'ord1')", "contains(text, '12')"]),
}
KINDS = [*COLUMNS]
PARAMETERS: dict[str, dict[str, Any]] = {
    "BTREE": {"zone_size": 8},
    "ZONEMAP": {"rows_per_zone": 5},
    "BLOOMFILTER": {"number_of_items": 5, "probability": 0.01},
}


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "number": pa.array([None if one % 13 == 5 else one for one in numbers], pa.int64()),
            "group": [None if one % 9 == 4 else one % 5 for one in numbers],
            "labels": [[f"a{one % 4}", f"b{one % 3}"] for one in numbers],
            "text": [f"word{one} and more" for one in numbers],
            "key": numbers,
        }
    )


def opened(library: Any, uri: str, version: Any) -> Any:
    dataset = library.dataset(uri)
    return dataset if version is None else dataset.checkout_version(version)


def answers(uri: str, kind: str, version: Any = None) -> list[list[int]]:
    """The keys of the rows that filters select; both libraries agree, with the index or without."""
    found = []
    for one in COLUMNS[kind][1]:
        keys = [
            opened(library, uri, version).to_table(
                columns=["key"], filter=one, use_scalar_index=is_used
            )["key"]
            for library in (lance, pilum)
            for is_used in (True, False)
        ]
        assert keys[0] == keys[1] == keys[2] == keys[3], one
        found.append(keys[0].to_pylist())
    return found


def is_used(uri: str, kind: str, version: Any = None) -> bool:
    plan = opened(lance, uri, version).scanner(filter=COLUMNS[kind][1][0]).explain_plan()
    return "ScalarIndexQuery" in plan or "MaterializeIndex" in plan  # the latter in legacy tables


def create(library: Any, uri: str, kind: str) -> None:
    config = lance.indices.IndexConfig if library is lance else IndexConfig
    index_type = config(kind, PARAMETERS[kind]) if kind in PARAMETERS else kind
    library.dataset(uri).create_scalar_index(COLUMNS[kind][0], index_type, name="i")


def merge(library: Any, uri: str) -> None:
    library.dataset(uri).merge_insert(
        "key"
    ).when_matched_update_all().when_not_matched_insert_all().execute(rows(45, 8))


STEPS: dict[str, Callable[[Any, str], object]] = {
    "append": lambda library, uri: library.write_dataset(rows(40, 10), uri, mode="append"),
    "optimize": lambda library, uri: library.dataset(uri).optimize.optimize_indices(),
    "append more": lambda library, uri: library.write_dataset(rows(50, 10), uri, mode="append"),
    "a new segment": lambda library, uri: library.dataset(uri).optimize.optimize_indices(
        num_indices_to_merge=0
    ),
    "delete": lambda library, uri: library.dataset(uri).delete("key % 6 = 1"),
    "update": lambda library, uri: library.dataset(uri).update(
        {"number": "70", "group": "3"}, where="key > 8 AND key < 14"
    ),
    "merge": merge,
    "optimize again": lambda library, uri: library.dataset(uri).optimize.optimize_indices(
        num_indices_to_merge=9
    ),
    "delete more": lambda library, uri: library.dataset(uri).delete("key % 7 = 2"),
    "compact": lambda library, uri: library.dataset(uri).optimize.compact_files(),
    "append at last": lambda library, uri: library.write_dataset(rows(60, 10), uri, mode="append"),
    "optimize at last": lambda library, uri: library.dataset(uri).optimize.optimize_indices(),
}


ZONES = ("ZONEMAP", "BLOOMFILTER")
LOST = {(kind, step) for kind in ZONES for step in ("append at last", "optimize at last")}
"""Zones do not cover rows that moved until the next optimization."""


@pytest.mark.parametrize(
    ("kind", "first", "stable"),
    [
        (kind, first, (number + is_theirs) % 2 == 1)
        for number, kind in enumerate(KINDS)
        for is_theirs, first in enumerate((pilum, lance))
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_both_keep_an_index_in_turn(tmp_path: Path, kind: str, first: Any, stable: bool) -> None:
    """Each pair of a kind, the library that begins, and addresses or stable ids."""
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 40), uri, max_rows_per_file=10, enable_stable_row_ids=stable)
    create(first, uri, kind)
    libraries = (lance, pilum) if first is pilum else (pilum, lance)
    for number, (name, step) in enumerate(STEPS.items()):
        answers(uri, kind)
        assert is_used(uri, kind) != ((kind, name) in LOST), name
        step(libraries[number % 2], uri)
    answers(uri, kind)
    assert is_used(uri, kind)


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.2"])
@pytest.mark.parametrize("kind", KINDS)
def test_tables_of_all_versions_have_indices(tmp_path: Path, kind: str, version: str) -> None:
    uri = str(tmp_path / "t")
    stored = "legacy" if version == "0.1" else version
    for first in (0, 20):
        table = rows(first, 20)
        if version == "0.1":  # which stores no nulls of numbers
            numbers = table["number"].fill_null(1000)
            table = table.set_column(0, "number", numbers)
            table = table.set_column(1, "group", table["group"].fill_null(1000))
        lance.write_dataset(table, uri, mode="append", data_storage_version=stored)
    create(pilum, uri, kind)
    assert answers(uri, kind)
    assert is_used(uri, kind)
    pilum.dataset(uri).delete("key % 6 = 1")
    pilum.dataset(uri).optimize.compact_files()
    pilum.dataset(uri).optimize.optimize_indices()
    answers(uri, kind)
    assert is_used(uri, kind)
    create(lance, uri, kind)
    pilum.dataset(uri).insert(pilum.dataset(uri).to_table().slice(0, 9))
    pilum.dataset(uri).optimize.optimize_indices(num_indices_to_merge=2)
    answers(uri, kind)
    assert is_used(uri, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_deferred_moves_branches_and_restored_versions(tmp_path: Path, kind: str) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 40), uri, max_rows_per_file=10)
    create(pilum, uri, kind)
    before = answers(uri, kind)
    dataset = pilum.dataset(uri)
    branch = dataset.create_branch("side")
    branch.insert(rows(40, 5))
    branch.optimize.optimize_indices()
    there = ("side", branch.version)
    answers(uri, kind, there)
    assert is_used(uri, kind, there)
    dataset.delete("key % 6 = 2")
    dataset.optimize.compact_files(defer_index_remap=True)
    answers(uri, kind)
    assert is_used(uri, kind)
    lance.write_dataset(rows(45, 5), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices()
    answers(uri, kind)
    dataset = pilum.dataset(uri)
    dataset.insert(rows(50, 5))
    dataset.optimize.optimize_indices(num_indices_to_merge=3)
    answers(uri, kind)
    dataset.delete("key % 6 = 3")
    dataset.optimize.compact_files()
    dataset.optimize.optimize_indices()
    answers(uri, kind)
    assert is_used(uri, kind)
    dataset.checkout_version(2).restore()
    assert answers(uri, kind) == before
    assert is_used(uri, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_no_record_of_moves_is_left_after_an_optimization(tmp_path: Path, kind: str) -> None:
    uri = str(tmp_path / "t")
    dataset = pilum.write_dataset(rows(0, 40), uri, max_rows_per_file=10)
    dataset.create_scalar_index(COLUMNS[kind][0], IndexConfig(kind, PARAMETERS.get(kind, {})))
    for remainder in (1, 3):
        dataset.delete(f"key % 6 = {remainder}")
        dataset.optimize.compact_files(defer_index_remap=True)
    assert any(one["type"] == "FragmentReuse" for one in dataset.list_indices())
    dataset.optimize.optimize_indices()
    assert [one["name"] for one in dataset.list_indices()] == [f"{COLUMNS[kind][0]}_idx"]
    answers(uri, kind)
    assert is_used(uri, kind)
    lance.write_dataset(rows(40, 5), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices()
    answers(uri, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_segments_that_both_built_are_one_index(tmp_path: Path, kind: str) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 40), uri, max_rows_per_file=10)
    column = COLUMNS[kind][0]
    ours, theirs = pilum.dataset(uri), lance.dataset(uri)
    parts = [
        library.create_index_uncommitted(column, kind, name=f"part{number}", fragment_ids=[number])
        for number, library in enumerate((ours, theirs, ours))
    ]
    converted = [pilum.Index(**vars(one)) for one in parts]
    merged = ours.merge_existing_index_segments(converted[:2])
    ours.commit_existing_index_segments("i", column, [merged, converted[2]])
    answers(uri, kind)
    assert is_used(uri, kind)
    stats = lance.dataset(uri).stats.index_stats("i")
    assert stats["num_indexed_rows_per_delta"] == [20, 10]


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_are_those_of_the_reference(tmp_path: Path, kind: str) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 40), uri, max_rows_per_file=10)
    for library in (lance, pilum):
        create(library, uri, kind)
        library.dataset(uri).insert(rows(40, 5))
        library.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
        library.dataset(uri).delete("key % 6 = 1")
        library.dataset(uri).insert(rows(45, 5))
        ours, theirs = (one.dataset(uri).stats.index_stats("i") for one in (pilum, lance))
        assert ours == theirs
        ours, theirs = (one.dataset(uri).describe_indices()[0] for one in (pilum, lance))
        assert (ours.details, ours.num_rows_indexed) == (theirs.details, theirs.num_rows_indexed)


def check_texts(uri: str) -> None:
    """The reference finds the rows that contain a word, and no others."""
    dataset = lance.dataset(uri)
    plain = dataset.to_table(columns=["key", "text"]).to_pylist()
    for word in ("word7", "more", "word31"):
        found = dataset.to_table(columns=["key"], full_text_query=word)["key"].to_pylist()
        assert sorted(found) == [one["key"] for one in plain if word in one["text"].split()]


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize("first", [pilum, lance], ids=["ours", "theirs"])
def test_full_text_indices_are_kept(tmp_path: Path, stable: bool, first: Any) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 40), uri, max_rows_per_file=10, enable_stable_row_ids=stable)
    options = {"with_position": True, "remove_stop_words": False}
    first.dataset(uri).create_scalar_index("text", "FTS", **options)
    check_texts(uri)
    pilum.dataset(uri).insert(rows(40, 10))
    pilum.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    check_texts(uri)
    dataset = pilum.dataset(uri)
    dataset.update({"text": "'word31 and word7'"}, where="key > 8 AND key < 14")
    dataset.delete("key % 6 = 1")
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    if not stable:  # the reference finds rows by their old texts if ids lead to the new ones
        check_texts(uri)
    dataset.optimize.optimize_indices(num_indices_to_merge=9)
    check_texts(uri)
    dataset.optimize.compact_files()
    check_texts(uri)
    lance.write_dataset(rows(50, 5), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices()
    check_texts(uri)
    ours, theirs = (one.dataset(uri).stats.index_stats("text_idx") for one in (pilum, lance))
    assert ours == theirs


@pytest.mark.parametrize("first", [pilum, lance], ids=["ours", "theirs"])
def test_indices_of_json_paths_are_kept(tmp_path: Path, first: Any) -> None:
    uri = str(tmp_path / "t")

    def documents(first: int, count: int) -> pa.Table:
        numbers = range(first, first + count)
        texts = [json.dumps({"x": one % 7}) if one % 5 else None for one in numbers]
        return pa.table({"key": numbers, "j": pa.array(texts, pa.json_())})

    def check() -> None:
        for condition in ("json_get_int(j, 'x') = 3", "json_get_int(j, 'x') > 4"):
            dataset = lance.dataset(uri)
            assert "ScalarIndexQuery" in dataset.scanner(filter=condition).explain_plan()
            found = dataset.to_table(columns=["key"], filter=condition)
            plain = dataset.to_table(columns=["key"], filter=condition, use_scalar_index=False)
            assert found == plain

    lance.write_dataset(documents(0, 20), uri, max_rows_per_file=10)
    config = lance.indices.IndexConfig if first is lance else IndexConfig
    parameters = {"target_index_type": "btree", "path": "x"}
    first.dataset(uri).create_scalar_index("j", config("json", parameters))
    check()
    dataset = pilum.dataset(uri)
    dataset.insert(documents(20, 10))
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    check()
    dataset.delete("key % 4 = 3")
    dataset.optimize.optimize_indices(num_indices_to_merge=2)
    check()
    dataset.optimize.compact_files()
    check()
    lance.write_dataset(documents(30, 5), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices()
    check()


@pytest.mark.skipif(
    "PILUM_HISTORICAL_TABLES" not in os.environ, reason="PILUM_HISTORICAL_TABLES is not set"
)
def test_an_old_index_is_extended_and_moved(tmp_path: Path) -> None:
    """Its entry has no files, its own files are legacy files (release 0.20)."""
    uri = str(tmp_path / "t")
    name = "v0.20.0/old_btree_bitmap_indices.lance"
    shutil.copytree(Path(os.environ["PILUM_HISTORICAL_TABLES"]) / name, uri)
    dataset = pilum.dataset(uri)
    assert dataset.stats.index_stats("btree_idx")["segments"] == [
        {"min": "1", "max": "4", "num_pages": 1}
    ]
    schema = dataset.schema

    def more(*numbers: int) -> pa.Table:
        return pa.table([pa.array(numbers, field.type) for field in schema], schema=schema)

    def found() -> list[int]:
        condition = "btree IN (2, 3, 5, 7)"
        theirs = lance.dataset(uri)
        assert "ScalarIndexQuery" in theirs.scanner(filter=condition).explain_plan()
        keys = [
            library.dataset(uri).to_table(filter=condition)["btree"].to_pylist()
            for library in (lance, pilum)
        ]
        assert keys[0] == keys[1]
        return list(keys[0])

    assert found() == [2, 3]
    dataset.insert(more(5, 6))
    dataset.optimize.optimize_indices(index_names=["btree_idx"])
    assert found() == [2, 3, 5]
    dataset.delete("btree = 3")
    dataset.insert(more(7))
    dataset.optimize.optimize_indices(index_names=["btree_idx"])
    dataset.optimize.compact_files()
    assert found() == [2, 5, 7]
