"""Segments answer for the rows that their fragments contain now, whatever happened since."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from table.indices.value_index import FILE, addresses, is_in, listed

import pilum
from pilum.errors import UnsupportedFeatureError
from pilum.index.queries import IsNull, StartsWith
from pilum.table.indices.open_segments import OpenSegment, open_segments
from pilum.table.indices.segments import segments
from pilum.table.read.session import Session

ROWS = pa.table({"a": pa.array([5, 1, None, 3, 5, 7, 1, 9], pa.int64()), "b": range(8)})


def made(path: Path, kind: str = "VALUES", *, stable: bool = False) -> pilum.LanceDataset:
    """Two fragments of four rows, with an index of both on "a"."""
    dataset = pilum.write_dataset(
        ROWS, path / "t", max_rows_per_file=4, enable_stable_row_ids=stable
    )
    dataset.create_scalar_index("a", kind)
    return dataset


def opened(dataset: pilum.LanceDataset, path: str = "a") -> list[OpenSegment]:
    return list(open_segments(dataset.snapshot, path))


def found(dataset: pilum.LanceDataset, *values: int) -> list[list[int]]:
    return [listed(segment.search(is_in(*values))) for segment in opened(dataset)]


@pytest.mark.parametrize("kind", ["VALUES", "VALUEIDS", "VALUEZONES"])
@pytest.mark.parametrize("stable", [False, True])
def test_answers_are_addresses(tmp_path: Path, kind: str, stable: bool) -> None:
    dataset = made(tmp_path, kind, stable=stable)
    (segment,) = opened(dataset)
    assert (segment.name, segment.type.name, [*segment.fragments]) == ("a_idx", kind, [0, 1])
    answer = segment.search(is_in(5, 9))
    assert listed(answer) == addresses((0, 0), (1, 0), (1, 3))
    assert answer is not None
    assert answer.nulls.listed.tolist() == addresses((0, 2))
    assert listed(segment.search(IsNull())) == addresses((0, 2))
    own = segment.index.search(is_in(5, 9))
    assert own is not None
    inverse = segment.answer(~own)
    assert segment.search(StartsWith("x")) is None
    assert inverse.rows.is_complement


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP"])
def test_a_table_that_does_not_record_its_highest_fragment_keeps_its_indices(
    tmp_path: Path, kind: str
) -> None:
    """As in old tables: the index still names the last fragment, which was dropped."""
    dataset = made(tmp_path, kind)
    dataset.delete("b >= 4")
    now = dataset.snapshot
    assert now.manifest.max_fragment_id == 1
    old = replace(now, manifest=replace(now.manifest, max_fragment_id=None))
    dataset.advance(replace(old, session=Session()), since=now)
    [segment] = opened(dataset)
    answer = segment.search(is_in(1, 5, 7, 9))
    assert listed(answer)[:2] == addresses((0, 0), (0, 1))


def test_only_indices_of_the_column_are_opened(tmp_path: Path) -> None:
    dataset = made(tmp_path)
    dataset.create_scalar_index("b", "VALUES", name="second")
    dataset.create_scalar_index("a", "VALUEIDS", name="third")
    assert [one.name for one in opened(dataset)] == ["a_idx", "third"]
    assert [one.name for one in opened(dataset, "b")] == ["second"]
    assert opened(dataset, "_rowid") == []


@pytest.mark.parametrize("kind", ["VALUES", "VALUEIDS"])
def test_updated_rows_with_stable_ids_are_not_found_by_their_old_values(
    tmp_path: Path, kind: str
) -> None:
    """The id of an updated row leads to a fragment that the old segment does not cover."""
    dataset = made(tmp_path, kind, stable=True)
    dataset.update({"a": "6"}, where="a = 5")
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    new = addresses((2, 0), (2, 1))
    live = dataset.to_table(filter="a = 6", with_row_address=True)["_rowaddr"].to_pylist()
    assert live == new
    assert found(dataset, 6) == [[], new]
    old = addresses((0, 0), (1, 0)) if kind == "VALUES" else []
    assert found(dataset, 5) == [old, []]  # addresses of deleted rows are left out by readers
    dataset.optimize.optimize_indices(num_indices_to_merge=2)
    assert found(dataset, 5) == [old]
    assert found(dataset, 6) == [new]


def test_rows_whose_values_changed_in_place_are_not_covered(tmp_path: Path) -> None:
    dataset = made(tmp_path)
    image, fields = dataset.get_fragments()[0].update_columns(
        pa.table({"b": [0], "a": [9]}), left_on="b"
    )
    operation = pilum.LanceOperation.Update(
        updated_fragments=[image], fields_modified=fields, update_mode="rewrite_columns"
    )
    dataset = pilum.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)
    assert found(dataset, 5) == [addresses((1, 0))]
    dataset.optimize.optimize_indices()
    assert found(dataset, 5) == [addresses((1, 0))]
    assert found(dataset, 9) == [addresses((0, 0), (1, 3))]


@pytest.mark.parametrize("kind", ["VALUES", "VALUEIDS", "VALUEZONES"])
def test_recorded_moves_are_followed(tmp_path: Path, kind: str) -> None:
    dataset = made(tmp_path, kind)
    dataset.delete("b = 1")
    dataset.optimize.compact_files(defer_index_remap=True)
    (segment,) = opened(dataset)
    assert [*segment.fragments] == [2]
    assert found(dataset, 5, 1) == [addresses((2, 0), (2, 3), (2, 5))]
    dataset.insert(pa.table({"a": [5], "b": [8]}))
    dataset.optimize.optimize_indices()
    assert found(dataset, 5, 1) == [addresses((2, 0), (2, 3), (2, 5), (3, 0))]
    dataset.optimize.compact_files(defer_index_remap=True)
    assert found(dataset, 5, 1) == [addresses((4, 0), (4, 3), (4, 5), (4, 7))]


def test_open_segments_are_kept_by_the_session(tmp_path: Path) -> None:
    dataset = made(tmp_path)
    session = Session()
    first = pilum.dataset(dataset.uri, session=session)
    (one,), (other,) = opened(first), opened(pilum.dataset(dataset.uri, session=session))
    assert one.index is other.index
    assert [found.name for found in segments(first.snapshot)] == ["a_idx"]
    size_bytes = session.index_cache_size_bytes()
    first.prewarm_index("a_idx")
    assert session.index_cache_size_bytes() == size_bytes + 1_000_000


def test_a_segment_that_cannot_be_read_is_left_out_with_a_warning(tmp_path: Path) -> None:
    dataset = made(tmp_path)
    dataset.create_scalar_index("a", "VALUEIDS", name="sound")
    (damaged, _) = dataset.list_indices()
    file = tmp_path / "t" / "_indices" / damaged["uuid"] / FILE
    content = file.read_bytes()
    newer = content[:-8] + b"\x09\x00\x00\x00LANC"
    for other in (content[:-20], newer, None):
        if other is None:
            file.unlink()
        else:
            file.write_bytes(other)
        fresh = pilum.dataset(dataset.uri, session=Session())
        with pytest.warns(RuntimeWarning, match=f"'a_idx', segment {damaged['uuid']}, is not used"):
            assert [one.name for one in opened(fresh)] == ["sound"]


def test_unknown_types_and_versions_are_left_alone(tmp_path: Path) -> None:
    dataset = made(tmp_path)
    entry = pilum.Index.from_table(segments(dataset.snapshot)[0].entry)
    entry.index_version = 1
    operation = pilum.LanceOperation.CreateIndex([entry], [])
    dataset = pilum.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)
    assert opened(dataset) == []
    entry.index_version, entry.index_details = 0, ("/lance.table.UnheardOfIndexDetails", b"")
    operation = pilum.LanceOperation.CreateIndex([entry], [])
    dataset = pilum.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)
    assert opened(dataset) == []
    assert [one["type"] for one in dataset.list_indices()] == ["UnheardOf"]
    entry.index_details = None  # as in old tables: the files show what it is
    operation = pilum.LanceOperation.CreateIndex([entry], [])
    dataset = pilum.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)
    assert [one.type.name for one in opened(dataset)] == ["VALUES"]
    assert found(dataset, 9) == [addresses((1, 3))]


def test_segments_of_several_columns_are_left_alone(tmp_path: Path) -> None:
    dataset = made(tmp_path)
    entry = pilum.Index.from_table(segments(dataset.snapshot)[0].entry)
    changes: list[dict[str, Any]] = [{"fields": [0, 1]}, {"covering_fields": [1]}]
    for change in changes:
        changed = replace(entry, **change)
        operation = pilum.LanceOperation.CreateIndex([changed], [])
        dataset = pilum.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)
        assert opened(dataset) == []
        dataset.insert(pa.table({"a": [0], "b": [0]}))
        dataset.optimize.optimize_indices()
        with pytest.raises(UnsupportedFeatureError, match="'a_idx' of type Values"):
            dataset.optimize.optimize_indices(index_names=["a_idx"])
