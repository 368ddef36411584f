"""Arguments of a wrong type are errors of pilum that name the argument, not those of its code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError
from pilum.file import LanceFileReader, LanceFileSession, LanceFileWriter

ROWS = pa.table(
    {
        "a": range(8),
        "s": ["x y"] * 8,
        "v": pa.array([[0.5, 1]] * 8, pa.list_(pa.float32(), 2)),
    }
)
UNHASHABLE, NO_LIST, HALF = [[1]], 5, "a\ud800"
"""Values that a set does not take, that no loop takes, and a text that UTF-8 has no form of."""


@pytest.fixture
def dataset(tmp_path: Path) -> pilum.LanceDataset:
    return pilum.write_dataset(ROWS, tmp_path / "t")


def writes(name: str) -> Callable[[pilum.LanceDataset, Any], object]:
    return lambda dataset, wrong: dataset.insert(ROWS, **{name: wrong})


def creates(name: str) -> Callable[[pilum.LanceDataset, Any], object]:
    return lambda dataset, wrong: pilum.write_dataset(ROWS, f"{dataset.uri}2", **{name: wrong})


def opens(name: str) -> Callable[[pilum.LanceDataset, Any], object]:
    return lambda dataset, wrong: pilum.dataset(**{"uri": dataset.uri, name: wrong})


def scans(name: str) -> Callable[[pilum.LanceDataset, Any], object]:
    return lambda dataset, wrong: dataset.to_table(**{name: wrong})


def calls(method: str, *before: Any, **after: Any) -> Callable[[pilum.LanceDataset, Any], object]:
    return lambda dataset, wrong: getattr(dataset, method)(*before, wrong, **after)


def keyword(method: str, name: str, *before: Any) -> Callable[[pilum.LanceDataset, Any], object]:
    return lambda dataset, wrong: getattr(dataset, method)(*before, **{name: wrong})


CALLS: list[tuple[str, Callable[[pilum.LanceDataset, Any], object], tuple[Any, ...], str]] = [
    ("alignment", writes("buffer_alignment"), (UNHASHABLE, 64.0), "buffer_alignment: expected"),
    ("schema mode", writes("schema_mode"), (UNHASHABLE,), "schema_mode: expected merge"),
    ("properties", writes("transaction_properties"), (UNHASHABLE, 5, "x"), "transaction_prop"),
    ("message", writes("commit_message"), (5, HALF), "commit_message: expected"),
    ("key", writes("idempotency_key"), (HALF, (HALF, 1)), "idempotency_key: expected"),
    ("version", creates("data_storage_version"), (UNHASHABLE, 2.1, {1}), "data storage version"),
    ("bases", creates("initial_bases"), (5,), "base paths: expected a list"),
    ("targets", creates("target_bases"), (UNHASHABLE, 5), "target_bases: expected"),
    ("blobs", creates("external_blob_mode"), (UNHASHABLE,), "external_blob_mode: expected"),
    ("options", creates("storage_options"), (UNHASHABLE, 5, {1: "x"}), "storage_options: exp"),
    ("handler", creates("commit_handler"), ([1], len), "commit_handler: expected"),
    ("lock", creates("commit_lock"), ([1], "x"), "commit_lock: expected"),
    ("pages", creates("max_page_bytes"), (np.array([1]), int, "1"), "max_page_bytes: expected"),
    ("rows", creates("max_rows_per_file"), (np.array([1, 2]), int), "max_rows_per_file: expected"),
    ("data", lambda _, wrong: pilum.write_dataset({"a": wrong}, "x"), (1, None), "column 'a'"),
    ("location", opens("uri"), (UNHASHABLE, 5, b"x", HALF, "a\0"), "path or URI"),
    ("opened", opens("version"), (np.array([1, 2]), int), "version: expected"),
    ("open options", opens("storage_options"), (UNHASHABLE, 5), "storage_options: expected"),
    ("defaults", opens("default_scan_options"), (UNHASHABLE, 5), "default_scan_options: exp"),
    ("session", opens("session"), ([1], "x"), "session: expected"),
    ("order", scans("order_by"), (5,), "order_by: expected"),
    ("callback", scans("scan_stats_callback"), ([1], "x"), "scan_stats_callback: expected"),
    ("segments", scans("index_segments"), (5,), "index_segments: expected"),
    ("nearest", scans("nearest"), ({1: 2, "column": "v"},), "no argument 1"),
    ("fragment", calls("get_fragment"), (UNHASHABLE, 1.5, "0"), "fragment_id: expected"),
    ("rows of", calls("take"), (5,), "indices: expected"),
    ("ids of", calls("take_rows"), (5, HALF), "row_ids: expected"),
    ("index type", calls("merge_index_metadata", "x"), (UNHASHABLE,), "index_type: expected"),
    ("index column", calls("create_index", index_type="IVF_PQ"), (5, [1]), "column: expected"),
    ("index name", keyword("create_scalar_index", "name", "a", "BTREE"), (HALF,), "name: exp"),
    ("report", keyword("create_scalar_index", "progress_callback", "a", "BTREE"), (5,), "function"),
    ("parts", keyword("create_index_uncommitted", "fragment_ids", "a", "BTREE"), (5,), "fragment_"),
    (
        "committed",
        calls("commit_existing_index_segments", "x", "a"),
        (5, [1]),
        "segments: expected",
    ),
    ("column", calls("commit_existing_index_segments", "x", segments=[]), ([1], 5), "of a column"),
    ("merged", calls("merge_existing_index_segments"), (5, [1]), "segments: expected"),
    ("branch", calls("create_branch"), (UNHASHABLE,), "expected a name"),
    ("merge key", calls("merge_insert"), (5, UNHASHABLE), "on: expected"),
    ("config", calls("delete_config_keys"), (5, UNHASHABLE), "keys: expected"),
    ("clone", lambda d, wrong: d.deep_clone(f"{d.uri}2", 1, progress=wrong), ([1],), "progress: "),
    ("bulk", lambda d, wrong: d.commit_batch(d, wrong), (5,), "transactions: expected"),
    ("small", lambda d, wrong: d.stats.dataset_stats(wrong), ([1], 1.5), "max_rows_per_group"),
    ("sorted", lambda d, wrong: d.tags.list_ordered(wrong), (UNHASHABLE,), "order: expected"),
    ("names", lambda d, wrong: d.optimize.optimize_indices(index_names=wrong), (5,), "index_names"),
    ("of none", lambda _, wrong: pilum.LanceFragment(wrong, 0), ([1], "x"), "dataset: expected"),
    ("file", lambda _, wrong: LanceFileWriter(wrong, ROWS.schema), (5, HALF), "path or URI"),
    ("schema", lambda d, wrong: LanceFileWriter(f"{d.uri}.lance", wrong), (5,), "schema: exp"),
    ("reader", lambda _, wrong: LanceFileReader(wrong), (UNHASHABLE, b"x"), "path or URI"),
    ("below", lambda d, wrong: LanceFileSession(d.uri).contains(wrong), (5, HALF, ""), "path"),
    ("texts", lambda _, wrong: pilum.tokenize(wrong), (5, HALF), "query: expected a text"),
    ("json", lambda _, wrong: pilum.schema_to_json(wrong), (5, {}), "schema: expected"),
    ("blob", lambda _, wrong: pilum.Blob(data=wrong), (5, "x"), "a blob has bytes"),
    ("encoding", lambda _, wrong: pilum.EncodingOptions(dict_divisor=wrong), ([1],), "dict_div"),
]


@pytest.mark.parametrize(
    ("call", "wrong", "text"),
    [pytest.param(call, wrong, text, id=name) for name, call, wrong, text in CALLS],
)
def test_values_of_a_wrong_type(
    dataset: pilum.LanceDataset,
    call: Callable[[pilum.LanceDataset, Any], object],
    wrong: tuple[Any, ...],
    text: str,
) -> None:
    for value in wrong:
        with pytest.raises(InvalidInputError, match=text):
            call(dataset, value)
    assert pilum.dataset(dataset.uri).version == 1


def test_what_a_file_takes(dataset: pilum.LanceDataset) -> None:
    wrong: Any
    with LanceFileWriter(f"{dataset.uri}.lance", ROWS.schema) as writer:
        for wrong in ([1], ROWS["a"]):
            with pytest.raises(InvalidInputError, match="expected a record batch or a table"):
                writer.write_batch(wrong)
        for wrong in ([1], "x"):
            with pytest.raises(InvalidInputError, match="data: expected bytes"):
                writer.add_global_buffer(wrong)
        for wrong in ([1], HALF, b"x"):
            with pytest.raises(InvalidInputError, match="key: expected a text"):
                writer.add_schema_metadata(wrong, "x")
            with pytest.raises(InvalidInputError, match="value: expected a text"):
                writer.add_schema_metadata("x", wrong)
        writer.write_batch(ROWS)
    assert LanceFileReader(f"{dataset.uri}.lance").read_all().to_table().equals(ROWS)


def test_ranges_of_blobs(tmp_path: Path) -> None:
    field = pilum.blob_field("b")
    rows = pa.table([pilum.blob_array([b"abc"])], schema=pa.schema([field]))
    dataset = pilum.write_dataset(rows, tmp_path / "t", data_storage_version="2.2")
    assert dataset.read_blob_ranges("b", [(0, 1, 2)], selector="indices")[0][2] == b"bc"
    wrong: Any
    for wrong in (5, [1], [(0, 1)], [(0, 0.5, 1)], [(0, -1, 1)]):
        with pytest.raises(InvalidInputError, match=r"requests|offset"):
            dataset.read_blob_ranges("b", wrong, selector="indices")
    for wrong in ([1], 0.5, -1, 2**70):
        with pytest.raises(InvalidInputError, match="buffer_size: expected"):
            dataset.take_blobs("b", indices=[0], buffer_size=wrong)
        with pytest.raises(InvalidInputError, match="threshold: expected"):
            pilum.blob_field("b", inline_size_threshold=wrong)


def test_integers_of_numpy_are_integers(dataset: pilum.LanceDataset) -> None:
    number: Any = np.int64(0)
    assert dataset.get_fragment(number) is not None
    assert dataset.get_fragment(-1) is None
    assert dataset.checkout_version(np.uint8(1)).count_rows() == 8  # type: ignore[arg-type]
