"""Change feeds against a model: whoever applies what is told has the table (S5). Without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StructType
from spark.helpers import add_overlay

import pilum
from pilum.distributed.following import Follower, Limit, Offset
from pilum.errors import UnsupportedFeatureError
from pilum.spark.options import Options
from pilum.spark.stream_source import (
    read_splits,
    stream_reader,
    stream_splits,
    with_feed_columns,
)

SCHEMA = StructType().add("id", LongType()).add("n", LongType())
OPERATIONS = (
    *("append", "delete", "delete all", "update", "upsert", "insert", "compact", "overwrite"),
    *("add column", "update column", "overlay"),
)

Rows = dict[int, int]


def rows(ids: range | list[int], n: int) -> pa.Table:
    columns = {"id": pa.array(ids, pa.int64()), "n": pa.array([n] * len(ids), pa.int64())}
    return pa.table(columns)


def change(table: pilum.LanceDataset, operation: str, number: int) -> pilum.LanceDataset:
    """Does one thing to the table; values of `n` tell when."""
    uri, first = table.uri, 10 * number
    some = [*range(first - 14, first - 6), first]
    if operation == "append":
        return pilum.write_dataset(
            rows(range(first, first + 5), number), uri, mode="append", max_rows_per_file=3
        )
    if operation == "overwrite":
        return pilum.write_dataset(rows(range(first, first + 4), number), uri, mode="overwrite")
    if operation == "delete":
        table.delete("id % 3 = 1")
    elif operation == "delete all":
        table.delete("true")
    elif operation == "update":
        table.update({"n": str(number)}, where="id % 4 < 2")
    elif operation == "upsert":
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(rows(some, number))
    elif operation == "insert":
        table.merge_insert("id").when_not_matched_insert_all().execute(rows(some, number))
    elif operation == "compact":
        table.optimize.compact_files()
    elif operation == "add column":
        table.add_columns({f"c{number}": "id"})
    elif operation == "overlay":
        overlay(table, number)
    else:
        replace_column(table, number)
    return table


def replace_column(table: pilum.LanceDataset, number: int, *, tells: bool = True) -> None:
    """Gives other values to some rows of a fragment, by another file for the column."""
    fragments = table.get_fragments()
    if not fragments:
        return
    source = fragments[0].to_table(columns=["id"]).slice(0, 2)
    updated, fields, offsets = fragments[0].update_columns(
        source.append_column("n", pa.array([number] * len(source), pa.int64())),
        left_on="id",
        with_offsets=True,
    )
    operation = pilum.LanceOperation.Update(
        updated_fragments=[updated],
        fields_modified=fields,
        update_mode="rewrite_columns",
        updated_fragment_offsets={updated.id: offsets} if tells else None,
    )
    pilum.LanceDataset.commit(table.uri, operation, read_version=table.version)
    table.checkout_latest()


def overlay(table: pilum.LanceDataset, number: int) -> None:
    """Gives the first and the last row of a fragment another value, even if they are deleted."""
    for fragment in table.get_fragments()[:1]:
        add_overlay(table, fragment, "n", {0: number, fragment.physical_rows - 1: number})
        table.checkout_latest()


def told(uri: str, limit: Limit) -> list[dict[str, Any]]:
    """All that the feed says since version 1, read in micro-batches."""
    options = Options.parse({"path": uri, "readChangeFeed": "true", "startingVersion": "1"})
    follower, latest = Follower(uri, options), pilum.dataset(uri).version
    offset, found = follower.beginning(latest), list[dict[str, Any]]()
    while (end := follower.advance(offset, limit, latest)) != offset:
        for group in stream_splits(follower.pieces(offset, end), options):
            for batch in read_splits(group, with_feed_columns(SCHEMA), options):
                found += batch.to_pylist()
        offset = Offset.from_json(end.to_json())
    return found


def applied(feed: list[dict[str, Any]]) -> Rows:
    """Within a version, what is deleted goes before what comes."""
    table: Rows = {}
    order = {"delete": 0, "update": 1, "insert": 2}
    for row in sorted(feed, key=lambda r: (r["_commit_version"], order[r["_change_type"]])):
        key, kind = row["id"], row["_change_type"]
        assert (key in table) == (kind != "insert"), row
        if kind == "delete":
            assert table.pop(key) == row["n"], row
        else:
            assert kind == "insert" or table[key] != row["n"], row
            table[key] = row["n"]
    return table


@settings(max_examples=30)
@example(["overlay", "delete", "overlay", "compact", "overlay"], Limit(files=1))
@given(
    operations=st.lists(st.sampled_from(OPERATIONS), max_size=6),
    limit=st.sampled_from([Limit(), Limit(files=1), Limit(rows=4)]),
)
def test_whoever_applies_a_feed_has_the_table(
    tmp_path_factory: Any, operations: list[str], limit: Limit
) -> None:
    uri = str(tmp_path_factory.mktemp("feed") / "t")
    table = pilum.write_dataset(
        rows(range(6), 0), uri, enable_stable_row_ids=True, max_rows_per_file=4
    )
    for number, operation in enumerate(operations, 1):
        table = change(table, operation, number)
    now = pilum.dataset(uri).to_table(columns=["id", "n"]).to_pylist()
    assert applied(told(uri, limit)) == {row["id"]: row["n"] for row in now}


def test_new_values_of_rows_that_nobody_names_are_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = pilum.write_dataset(rows(range(6), 0), uri, enable_stable_row_ids=True)
    replace_column(table, 1, tells=False)
    with pytest.raises(UnsupportedFeatureError, match=r"version 2: 'update' does not record"):
        told(uri, Limit())


def test_columns_that_came_later_are_null_in_older_rows(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    pilum.write_dataset(pa.table({"id": [1]}), uri).add_columns({"n": "id * 2"})
    pilum.write_dataset(pa.table({"id": [3], "n": [7]}), uri, mode="append")
    options = Options.parse({"path": uri, "startingVersion": "1"})
    follower = Follower(uri, options)
    pieces = follower.pieces(Offset(1), follower.advance(Offset(1), Limit(), 3))
    found = [
        row
        for group in stream_splits(pieces, options)
        for batch in read_splits(group, SCHEMA, options)
        for row in batch.to_pylist()
    ]
    assert found == [{"id": 1, "n": None}, {"id": 3, "n": 7}]


def test_branches_are_followed_and_json_is_text(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    data = pa.table({"id": [1], "j": pa.array(['{"a":1}'], pa.json_())})
    table = pilum.write_dataset(data, uri)
    dev = table.create_branch("dev", 1)
    dev.insert(pa.table({"id": [2], "j": pa.array(["[2]"], pa.json_())}))
    schema = StructType().add("id", LongType()).add("j", "string")
    options = Options.parse({"path": uri, "branch": "dev"})
    reader = stream_reader(schema, options)
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    assert pa.Table.from_batches(batches).to_pylist() == [
        {"id": 1, "j": '{"a":1}'},
        {"id": 2, "j": "[2]"},
    ]
