"""A compaction rewrites indices at once, or records the moves for those that it cannot rewrite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from table.indices.value_index import FILE, addresses, is_in, listed

import pilum
from pilum.dataset import index_optimization
from pilum.errors import CommitConflictError, UnsupportedFeatureError
from pilum.optimize import Compaction
from pilum.table.indices.open_segments import open_segments
from pilum.table.indices.optimize import run_optimization
from pilum.table.indices.remap import remap_indices
from pilum.table.read.session import Session
from pilum.table.upkeep import compaction

ROWS = pa.table({"a": pa.array([5, 1, None, 3, 5, 7, 1, 9], pa.int64()), "b": range(8)})
REUSE = "__lance_frag_reuse"


def made(path: Path, *kinds: str, stable: bool = False) -> pilum.LanceDataset:
    """Two fragments of four rows, of which one is deleted, with indices on "a"."""
    dataset = pilum.write_dataset(
        ROWS, path / "t", max_rows_per_file=4, enable_stable_row_ids=stable
    )
    for kind in kinds:
        dataset.create_scalar_index("a", kind, name=kind.lower())
    dataset.delete("b = 1")
    return dataset


def uuids(dataset: pilum.LanceDataset) -> dict[str, str]:
    return {one["name"]: one["uuid"] for one in dataset.list_indices()}


def coverage(dataset: pilum.LanceDataset) -> dict[str, list[int]]:
    return {one["name"]: [*(one["fragment_ids"] or ())] for one in dataset.list_indices()}


def found(dataset: pilum.LanceDataset, *values: int) -> dict[str, list[int]]:
    opened = open_segments(dataset.snapshot, "a")
    return {one.name: listed(one.search(is_in(*values))) for one in opened}


def folders(dataset: pilum.LanceDataset) -> set[str]:
    return {one.name for one in (Path(dataset.uri) / "_indices").iterdir() if any(one.iterdir())}


def with_unknown(dataset: pilum.LanceDataset, name: str) -> pilum.LanceDataset:
    """Make the type of an index one that no one knows."""
    for one in dataset.get_transactions(20):
        for index in getattr(one and one.operation, "new_indices", ()):
            if index.name == name:
                index.index_details = ("/tests.UnheardOfIndexDetails", b"")
                operation = pilum.LanceOperation.CreateIndex([index], [])
                return pilum.LanceDataset.commit(
                    dataset.uri, operation, read_version=dataset.version
                )
    raise AssertionError(name)


KEPT = addresses((2, 0), (2, 3), (2, 5))


def test_indices_of_addresses_are_rewritten_and_zones_are_left(tmp_path: Path) -> None:
    dataset = made(tmp_path, "VALUES", "VALUEIDS", "VALUEZONES")
    before = uuids(dataset)
    dataset.optimize.compact_files()
    assert coverage(dataset) == {"values": [2], "valueids": [2], "valuezones": [0, 1]}
    assert found(dataset, 5, 1) == {"values": KEPT, "valueids": KEPT}
    after = uuids(dataset)
    assert after["valuezones"] == before["valuezones"]
    assert before["values"] != after["values"]
    assert before["valueids"] != after["valueids"]
    stats = dataset.stats.index_stats("values")
    assert stats["segments"] == [{"num_values": 7}]  # not those of the deleted row
    (listing,) = [one for one in dataset.list_indices() if one["name"] == "values"]
    assert listing["version"] == 1
    dataset.optimize.optimize_indices()
    assert coverage(dataset)["valuezones"] == [2]
    assert found(dataset, 5, 1)["valuezones"] == KEPT


def test_the_transaction_names_what_was_rewritten(tmp_path: Path) -> None:
    dataset = made(tmp_path, "VALUES")
    before = uuids(dataset)
    dataset.optimize.compact_files()
    (transaction,) = dataset.get_transactions(1)
    assert transaction is not None
    operation = transaction.operation
    assert isinstance(operation, pilum.LanceOperation.Rewrite)
    (rewritten,) = operation.rewritten_indices
    assert (rewritten.old_id, rewritten.new_id) == (before["values"], uuids(dataset)["values"])
    assert rewritten.new_details_type_url == "/tests.ValuesIndexDetails"
    assert rewritten.new_details_value == b"\x0a\x01m"


def test_stable_ids_need_no_new_files(tmp_path: Path) -> None:
    dataset = made(tmp_path, "VALUES", "VALUEIDS", stable=True)
    before = uuids(dataset)
    dataset.optimize.compact_files()
    after = uuids(dataset)
    assert before["valueids"] == after["valueids"]
    assert before["values"] != after["values"]
    assert coverage(dataset) == {"values": [2], "valueids": [2]}
    assert found(dataset, 5, 1) == {"values": KEPT, "valueids": KEPT}


def test_deferred_moves_are_followed_when_an_index_is_rewritten(tmp_path: Path) -> None:
    dataset = made(tmp_path, "VALUES")
    before = uuids(dataset)
    dataset.optimize.compact_files(defer_index_remap=True)
    assert uuids(dataset)["values"] == before["values"]
    assert REUSE in uuids(dataset)
    dataset.insert(pa.table({"a": [2], "b": [8]}))
    dataset.optimize.optimize_indices()
    dataset.delete("b = 0")
    dataset.optimize.compact_files()
    assert coverage(dataset)["values"] == [4]
    assert found(dataset, 5, 1, 2) == {"values": addresses((4, 2), (4, 4), (4, 6))}


def test_an_optimization_removes_the_record_of_moves(tmp_path: Path) -> None:
    dataset = made(tmp_path, "VALUES", "VALUEIDS", "VALUEZONES")
    before = uuids(dataset)
    dataset.optimize.compact_files(defer_index_remap=True)
    dataset.optimize.optimize_indices(index_names=["values"])
    assert coverage(dataset) == {"valueids": [2], "valuezones": [2], "values": [2], REUSE: [2]}
    dataset.optimize.optimize_indices()
    after = uuids(dataset)
    assert coverage(dataset) == {"values": [2], "valueids": [2], "valuezones": [2]}
    assert not {*before.values()} & {*after.values()}
    assert found(dataset, 5, 1) == {"values": KEPT, "valueids": KEPT, "valuezones": KEPT}
    version = dataset.version
    dataset.optimize.optimize_indices()
    assert dataset.version == version


def test_segments_before_those_whose_rows_moved_are_left(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(ROWS, tmp_path / "t", max_rows_per_file=4)
    dataset.create_scalar_index("a", "VALUES", name="values")
    dataset.insert(pa.table({"a": [5, 5, 5, 5], "b": [8, 9, 10, 11]}))
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    [first, second] = [one["uuid"] for one in dataset.list_indices()]
    dataset.delete("b = 9")
    dataset.optimize.compact_files(target_rows_per_fragment=4, defer_index_remap=True)
    assert REUSE in uuids(dataset)
    dataset.optimize.optimize_indices()
    [kept, new] = [one["uuid"] for one in dataset.list_indices()]
    assert kept == first
    assert new != second
    assert dataset.to_table(filter="a = 5")["b"].to_pylist() == [0, 4, 8, 10, 11]


def test_the_record_stays_while_an_index_needs_it_that_cannot_be_rewritten(tmp_path: Path) -> None:
    dataset = with_unknown(made(tmp_path, "VALUES", "VALUEIDS"), "valueids")
    dataset.optimize.compact_files(defer_index_remap=True)
    before = uuids(dataset)
    dataset.optimize.optimize_indices()
    assert uuids(dataset) == before
    dataset.optimize.optimize_indices(retrain=True)
    assert REUSE in uuids(dataset)
    assert found(dataset, 5, 1) == {"values": KEPT}


def test_the_record_stays_if_a_compaction_adds_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = made(tmp_path, "VALUES")
    dataset.optimize.compact_files(defer_index_remap=True)

    def interrupted(*arguments: Any, **more: Any) -> Any:
        new = run_optimization(*arguments, **more)
        other = pilum.dataset(dataset.uri)
        other.insert(pa.table({"a": [5], "b": [8]}))
        other.delete("b = 0")
        other.optimize.compact_files(defer_index_remap=True)
        return new

    monkeypatch.setattr(index_optimization, "run_optimization", interrupted)
    with pytest.raises(CommitConflictError):
        dataset.optimize.optimize_indices()
    monkeypatch.setattr(index_optimization, "run_optimization", run_optimization)
    latest = pilum.dataset(dataset.uri)
    assert REUSE in uuids(latest)
    assert sorted(latest.to_table(filter="a = 5")["b"].to_pylist()) == [4, 8]
    latest.optimize.optimize_indices()
    assert REUSE not in uuids(latest)
    assert sorted(latest.to_table(filter="a = 5")["b"].to_pylist()) == [4, 8]


def test_the_record_stays_if_it_grows_before_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = made(tmp_path, "VALUES")
    dataset.optimize.compact_files(defer_index_remap=True)
    forget = index_optimization._forget_moves

    def interrupted(handle: Any, *arguments: Any) -> None:
        other = pilum.dataset(dataset.uri)
        other.delete("b = 0")
        other.optimize.compact_files(defer_index_remap=True)
        forget(handle, *arguments)

    monkeypatch.setattr(index_optimization, "_forget_moves", interrupted)
    dataset.optimize.optimize_indices()
    latest = pilum.dataset(dataset.uri)
    assert REUSE in uuids(latest)
    assert latest.to_table(filter="a = 5")["b"].to_pylist() == [4]


def test_moves_are_recorded_for_indices_that_cannot_be_rewritten(tmp_path: Path) -> None:
    dataset = with_unknown(made(tmp_path, "VALUES", "VALUEIDS"), "valueids")
    with pytest.raises(UnsupportedFeatureError, match=r"indices \['valueids'\] cannot be rewr"):
        dataset.optimize.compact_files(defer_index_remap=False)
    before = uuids(dataset)
    dataset.optimize.compact_files()
    after = uuids(dataset)
    assert before["valueids"] == after["valueids"]
    assert before["values"] != after["values"]
    assert coverage(dataset) == {"values": [2], "valueids": [2], REUSE: [2]}
    assert found(dataset, 5, 1) == {"values": KEPT}


def test_moves_are_recorded_for_damaged_indices(tmp_path: Path) -> None:
    dataset = made(tmp_path, "VALUES")
    file = Path(dataset.uri) / "_indices" / uuids(dataset)["values"] / FILE
    sound = file.read_bytes()
    file.write_bytes(sound[:-20])
    with pytest.warns(RuntimeWarning, match="'values', segment .* is not rewritten"):
        dataset.optimize.compact_files()
    file.write_bytes(sound)
    assert REUSE in uuids(dataset)
    assert found(pilum.dataset(dataset.uri, session=Session()), 5, 1) == {"values": KEPT}


@pytest.mark.parametrize("defers", [None, False])
def test_an_index_that_is_created_while_others_are_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defers: bool | None
) -> None:
    dataset = made(tmp_path, "VALUES")
    remap = remap_indices

    def interrupted(*arguments: Any) -> Any:
        result = remap(*arguments)
        other = pilum.dataset(dataset.uri)
        other.create_scalar_index("a", "VALUES", name="late")
        return result

    monkeypatch.setattr(compaction, "remap_indices", interrupted)
    if defers is False:
        with pytest.raises(CommitConflictError, match=r"\['late'\] were not rewritten"):
            dataset.optimize.compact_files(defer_index_remap=False)
        latest = pilum.dataset(dataset.uri)
        assert folders(latest) == {*uuids(latest).values()}
        return
    dataset.optimize.compact_files()
    assert coverage(dataset) == {"values": [2], "late": [2], REUSE: [2]}
    assert found(dataset, 5, 1) == {"values": KEPT, "late": KEPT}


def test_an_index_that_is_replaced_while_it_is_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = made(tmp_path, "VALUES")
    remap = remap_indices

    def interrupted(*arguments: Any) -> Any:
        result = remap(*arguments)
        pilum.dataset(dataset.uri).drop_index("values")
        return result

    monkeypatch.setattr(compaction, "remap_indices", interrupted)
    dataset.optimize.compact_files()
    assert coverage(dataset) == {}


def test_an_index_that_is_created_between_the_steps_is_rewritten(tmp_path: Path) -> None:
    dataset = made(tmp_path)
    plan = Compaction.plan(dataset, {})
    results = [task.execute(dataset) for task in plan.tasks]
    pilum.dataset(dataset.uri).create_scalar_index("a", "VALUES", name="values")
    Compaction.commit(dataset, results)
    assert coverage(dataset) == {"values": [2]}
    assert found(dataset, 5, 1) == {"values": KEPT}


def test_fragments_without_rows_move_nowhere(tmp_path: Path) -> None:
    dataset = made(tmp_path, "VALUES")
    before = uuids(dataset)
    dataset.delete("b < 4")
    dataset.optimize.compact_files()
    assert uuids(dataset) == before
    assert found(dataset, 5, 1) == {"values": addresses((1, 0), (1, 2))}
