"""What a stream would read, without Spark: the walk through the versions of a table."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spark.helpers import add_overlay

import pilum
from pilum.distributed.following import Follower, Limit, Offset
from pilum.errors import InvalidInputError, UnsupportedFeatureError, VersionNotFoundError
from pilum.spark.options import Options
from pilum.spark.stream_source import stream_reader
from pilum.spark.types import to_spark

NO_LIMIT = Limit()


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def append(uri: str, *ids: int) -> None:
    pilum.write_dataset(rows(*ids), uri, mode="append")


def follow(uri: str, **options: str) -> Follower:
    return Follower(uri, Options.parse({"path": uri, **options}))


def latest(uri: str) -> int:
    return int(pilum.dataset(uri).version)


def given_rows(follower: Follower, uri: str, start: Offset, end: Offset) -> list[int]:
    """Ids in the fragments between two offsets."""
    found: list[int] = []
    for _, piece in follower.pieces(start, end):
        table = pilum.dataset(uri, version=piece.version)
        fragment = table.get_fragment(piece.fragment.id)
        assert fragment is not None
        found.extend(fragment.to_table()["id"].to_pylist())
    return found


def walk(uri: str, follower: Follower, start: Offset, limit: Limit = NO_LIMIT) -> list[list[int]]:
    """The micro-batches up to the end."""
    batches = []
    while (end := follower.advance(start, limit, latest(uri))) != start:
        batches.append(given_rows(follower, uri, start, end))
        start = Offset.from_json(end.to_json())
    return batches


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of two fragments, two more in a second version, and one in a third."""
    uri = str(tmp_path / "t")
    pilum.write_dataset(rows(0, 1, 2, 3), uri, max_rows_per_file=2)
    pilum.write_dataset(rows(4, 5, 6), uri, mode="append", max_rows_per_file=2)
    append(uri, 7)
    return uri


def test_a_stream_begins_with_all_rows_and_goes_on_with_new_ones(uri: str) -> None:
    follower = follow(uri)
    start = follower.beginning(latest(uri))
    assert start == Offset(3, 0, snapshot=True)
    assert walk(uri, follower, start) == [[0, 1, 2, 3, 4, 5, 6, 7]]
    append(uri, 8)
    assert walk(uri, follower, Offset(4)) == [[8]]


@pytest.mark.parametrize(
    ("limit", "batches"),
    [
        (Limit(files=2), [[0, 1, 2, 3], [4, 5, 6], [7]]),
        (Limit(rows=3), [[0, 1], [2, 3], [4, 5, 6], [7]]),
        (Limit(rows=1), [[0, 1], [2, 3], [4, 5], [6], [7]]),
        (Limit(size_bytes=1), [[0, 1], [2, 3], [4, 5], [6], [7]]),
    ],
)
def test_micro_batches_are_as_large_as_allowed(
    uri: str, limit: Limit, batches: list[list[int]]
) -> None:
    follower = follow(uri, startingVersion="1")
    start = follower.beginning(latest(uri))
    assert [one for one in walk(uri, follower, start, limit) if one] == batches


@given(files=st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_any_cuts_give_each_row_once(tmp_path_factory: Any, files: list[int]) -> None:
    uri = str(tmp_path_factory.mktemp("cuts") / "t")
    pilum.write_dataset(rows(0, 1, 2), uri, max_rows_per_file=1)
    append(uri, 3)
    pilum.write_dataset(rows(4, 5, 6), uri, mode="append", max_rows_per_file=1)
    follower = follow(uri)
    offset, found = follower.beginning(latest(uri)), list[int]()
    for count in [*files, 9]:
        end = follower.advance(offset, Limit(files=count), latest(uri))
        found += given_rows(follow(uri), uri, offset, end)  # planned again, as after a crash
        offset = end
    assert found == list(range(7))


def test_rewrites_of_the_same_rows_are_passed_over(uri: str) -> None:
    table = pilum.dataset(uri)
    table.optimize.compact_files()
    table.update_config({"a": "b"})
    table.add_columns({"more": "id + 1"})
    pilum.write_dataset(pa.table({"id": [8], "more": [9]}), uri, mode="append")
    assert [one for one in walk(uri, follow(uri), Offset(4)) if one] == [[8]]


def test_a_merge_that_only_inserts_adds_rows(uri: str) -> None:
    table = pilum.dataset(uri)
    table.merge_insert("id").when_not_matched_insert_all().execute(rows(7, 8))
    assert walk(uri, follow(uri), Offset(4)) == [[8]]


@pytest.mark.parametrize("change", ["delete", "update", "overwrite", "restore", "data_overlay"])
def test_changes_of_older_rows_are_told_passed_over_or_read_again(uri: str, change: str) -> None:
    table = pilum.dataset(uri)
    if change == "delete":
        table.delete("id = 3")
    elif change == "update":
        table.update({"id": "id + 10"}, where="id = 3")
    elif change == "overwrite":
        pilum.write_dataset(rows(30, 31), uri, mode="overwrite")
    elif change == "data_overlay":
        add_overlay(table, table.get_fragments()[1], "id", {1: 13})
    else:
        pilum.dataset(uri, version=1).restore()
    append(uri, 8)
    with pytest.raises(InvalidInputError, match=rf"version 4: '{change}' changed rows .*onChange"):
        walk(uri, follow(uri), Offset(4))
    assert walk(uri, follow(uri, onChange="skip"), Offset(4)) == [[8]]
    again = {"delete": [], "update": [13], "overwrite": [30, 31], "restore": [0, 1, 2, 3]}
    again["data_overlay"] = [2, 13]
    assert walk(uri, follow(uri, onChange="reread"), Offset(4)) == [[*again[change], 8]]


def test_versions_that_were_cleaned_up_are_told_or_passed_over(uri: str) -> None:
    append(uri, 8)
    pilum.dataset(uri).cleanup_old_versions(retain_versions=1, delete_unverified=True)
    with pytest.raises(VersionNotFoundError, match=r"version 2, .*next one is 4\. Begin again"):
        walk(uri, follow(uri), Offset(2))
    assert walk(uri, follow(uri, failOnDataLoss="false"), Offset(2)) == [[8]]


def test_streams_begin_where_they_are_told(uri: str) -> None:
    assert follow(uri, startingVersion="2").beginning(latest(uri)) == Offset(2)
    assert follow(uri, startingVersion="latest").beginning(latest(uri)) == Offset(4)
    versions = pilum.dataset(uri).versions()
    second = versions[1]["timestamp"].astimezone(datetime.UTC).isoformat()
    assert follow(uri, startingTimestamp=second).beginning(latest(uri)) == Offset(2)
    assert follow(uri, startingTimestamp="2100-01-01").beginning(latest(uri)) == Offset(4)
    with pytest.raises(VersionNotFoundError, match="has versions up to 3"):
        follow(uri, startingVersion="9").beginning(latest(uri))


def test_a_table_that_was_made_again_is_noticed(uri: str) -> None:
    with pytest.raises(InvalidInputError, match="made again"):
        follow(uri).advance(Offset(9), NO_LIMIT, latest(uri))


def test_offsets_of_other_sources_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="checkpoint of another"):
        Offset.from_json({"logOffset": 3})


def test_a_change_feed_of_a_restored_table_is_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "stable")
    pilum.write_dataset(rows(1), uri, enable_stable_row_ids=True)
    append(uri, 2)
    pilum.dataset(uri, version=1).restore()
    with pytest.raises(UnsupportedFeatureError, match="'restore' does not record"):
        walk(uri, follow(uri, readChangeFeed="true"), Offset(1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maxFilesPerTrigger": "1", "maxRowsPerTrigger": "1"}, "exclude each other"),
        ({"version": "1"}, "startingVersion"),
        ({"startingVersion": "1", "startingTimestamp": "2026-01-01"}, "exclude each other"),
        ({"readChangeFeed": "true", "filter": "id > 1"}, "takes no"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        stream_reader(to_spark(rows().schema), Options.parse({"path": "/t", **options}))


def test_a_change_feed_needs_stable_row_ids(uri: str) -> None:
    options = Options.parse({"path": uri, "readChangeFeed": "true"})
    with pytest.raises(InvalidInputError, match="enable_stable_row_ids"):
        stream_reader(to_spark(rows().schema), options).latestOffset()
