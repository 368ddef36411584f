"""Streams whose table was dropped and made again, or whose columns changed (S5). Without Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructType

import pilum
from pilum.errors import InvalidInputError, SchemaMismatchError
from pilum.spark.options import Options
from pilum.spark.stream_source import PilumStreamReader, stream_reader

SCHEMA = StructType().add("id", LongType()).add("text", StringType())


class Query:
    """A query as Spark runs it: the ends of batches are logged as JSON, and a driver may die."""

    def __init__(self, uri: str, schema: StructType = SCHEMA, **options: str) -> None:
        self.log: list[str] = []
        self._schema = schema
        self._options = Options.parse({"path": uri, **options})
        self.restart()

    def restart(self) -> None:
        """Another driver goes on."""
        self.reader: PilumStreamReader = stream_reader(self._schema, self._options)

    def begin(self) -> None:
        """Logs the end of the next batch."""
        end = self.reader.latestOffset(self._start(len(self.log)), None)
        self.log.append(json.dumps(end))

    def finish(self) -> list[dict[str, Any]]:
        """The rows of the batch that was logged last."""
        start, end = self._start(len(self.log) - 1), json.loads(self.log[-1])
        found: list[dict[str, Any]] = []
        for partition in self.reader.partitions(start, end):
            for batch in self.reader.read(partition):
                found += batch.to_pylist()
        return found

    def batch(self) -> list[dict[str, Any]]:
        """All of a batch."""
        self.begin()
        return self.finish()

    def _start(self, number: int) -> Any:
        text = self.log[number - 1] if number else json.dumps(self.reader.initialOffset())
        return json.loads(text)


def append(uri: str, *ids: int, text: str = "text", mode: str = "append") -> None:
    rows = {"id": pa.array(ids, pa.int64()), text: [str(one) for one in ids]}
    pilum.write_dataset(pa.table(rows), uri, mode=mode)


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in rows)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of two versions."""
    uri = str(tmp_path / "t")
    append(uri, 0)
    append(uri, 1)
    return uri


def make_again(uri: str, versions: int) -> None:
    """Drops the table; there is another one, with other rows."""
    shutil.rmtree(uri)
    for number in range(versions):
        append(uri, 100 + number)


def clean(uri: str) -> None:
    """Leaves the newest version, and those with tags."""
    pilum.dataset(uri).cleanup_old_versions(
        timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )


@pytest.mark.parametrize("start", [{}, {"startingVersion": "2"}, {"startingVersion": "latest"}])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_first_batch_is_what_was_logged_however_the_table_grows(
    uri: str, start: dict[str, str], restarts: bool
) -> None:
    """Spark asks where the query begins again when it plans the batch, and after a crash."""
    query = Query(uri, SCHEMA, **start)
    for number in (2, 3):
        query.reader.initialOffset()
        append(uri, number)
    query.begin()
    append(uri, 4)
    if restarts:
        query.restart()
    first = [] if "latest" in start.values() else [0, 1, 2, 3] if not start else [1, 2, 3]
    assert [ids(query.finish()) for _ in range(2)] == [first, first]
    append(uri, 5)
    assert ids(query.batch()) == [4, 5]


@pytest.mark.parametrize("versions", [1, 2, 3, 7])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_table_that_was_made_again_is_never_continued(
    uri: str, versions: int, restarts: bool
) -> None:
    query = Query(uri)
    assert ids(query.batch()) == [0, 1]
    make_again(uri, versions)
    if restarts:
        query.restart()
    with pytest.raises(InvalidInputError, match=r"dropped and made again.*new checkpoint"):
        query.begin()


def test_a_batch_that_was_logged_before_the_table_was_made_again_is_refused(uri: str) -> None:
    query = Query(uri)
    query.begin()
    make_again(uri, 5)
    for restarts in (False, True):
        if restarts:
            query.restart()
        with pytest.raises(InvalidInputError, match="dropped and made again"):
            query.finish()


def test_tasks_do_not_read_a_table_that_was_made_again_after_they_were_planned(uri: str) -> None:
    query = Query(uri)
    query.begin()
    start, end = query.reader.initialOffset(), json.loads(query.log[0])
    planned = query.reader.partitions(start, end)
    make_again(uri, 5)
    with pytest.raises(InvalidInputError, match="dropped and made again"):
        [list(query.reader.read(one)) for one in planned]


def test_a_table_that_was_made_again_is_noticed_by_what_a_cleanup_left(uri: str) -> None:
    """The version that was read is gone, and an older one is too young."""
    query = Query(uri)
    assert ids(query.batch()) == [0, 1]
    make_again(uri, 4)
    table = pilum.dataset(uri)
    table.tags.create("first", 1)
    clean(uri)
    assert [one["version"] for one in table.versions()] == [1, 4]
    with pytest.raises(InvalidInputError, match="dropped and made again"):
        query.begin()


def test_a_cleanup_of_versions_that_were_read_disturbs_nothing(uri: str) -> None:
    query = Query(uri)
    assert ids(query.batch()) == [0, 1]
    append(uri, 2)
    pilum.dataset(uri).tags.create("first", 1)
    clean(uri)
    query.restart()
    assert ids(query.batch()) == [2]


def test_offsets_of_older_releases_are_read(uri: str) -> None:
    """They name a version, pieces, and nothing else; the first batch may not be done yet."""
    old = '{"version": 3, "fragment": 0, "snapshot": false}'
    query = Query(uri)
    query.log = [old]
    append(uri, 2)
    assert ids(query.finish()) == [0, 1]
    query.restart()
    assert ids(query.batch()) == [2]
    make_again(uri, 9)
    with pytest.raises(InvalidInputError, match="dropped and made again"):
        query.begin()


def test_an_old_first_batch_in_the_middle_of_a_version_goes_on_from_there(tmp_path: Path) -> None:
    uri = str(tmp_path / "pieces")
    rows = pa.table({"id": [0, 1, 2], "text": ["a", "b", "c"]})
    pilum.write_dataset(rows, uri, max_rows_per_file=1)
    pilum.write_dataset(rows, uri, mode="append", max_rows_per_file=1)
    for end, expected in (
        ('{"version": 2, "fragment": 4, "snapshot": true}', [0, 0, 1, 2]),
        ('{"version": 2, "fragment": 1, "snapshot": false}', [0, 0, 1, 2]),
    ):
        query = Query(uri)
        query.log = [end]
        assert ids(query.finish()) == expected
        assert ids(query.batch()) == [1, 2]


def test_an_old_first_batch_of_rows_to_come_is_refused(uri: str) -> None:
    query = Query(uri, startingVersion="latest")
    query.log = ['{"version": 3, "fragment": 0, "snapshot": false}']
    with pytest.raises(InvalidInputError, match="did not log which version"):
        query.finish()


def test_a_query_that_rests_logs_nothing_new(uri: str) -> None:
    """Spark runs a batch wherever the text of the end differs from that of the last one."""
    query = Query(uri)
    query.batch()
    for _ in range(2):
        query.restart()
        query.begin()
    assert len(set(query.log)) == 1
    append(uri, 2)
    assert ids(query.batch()) == [2]
    query.begin()
    assert len(set(query.log)) == 2


def test_the_latest_offset_of_older_sparks_says_where_the_query_began(uri: str) -> None:
    """Before 4.2 Spark gives no start."""
    query = Query(uri)
    for _ in range(2):
        query.log = [json.dumps(query.reader.latestOffset())]
    append(uri, 2)
    query.restart()
    assert ids(query.finish()) == [0, 1]


Change = Callable[[str], None]


def rename(uri: str) -> None:
    pilum.dataset(uri).alter_columns({"path": "text", "name": "body"})
    append(uri, 2, text="body")


def drop(uri: str) -> None:
    pilum.dataset(uri).drop_columns(["text"])
    pilum.write_dataset({"id": [2]}, uri, mode="append")


def rename_and_back(uri: str) -> None:
    rename(uri)
    pilum.dataset(uri).alter_columns({"path": "body", "name": "text"})


def swap(uri: str) -> None:
    """The names of two columns; both are of one type."""
    pilum.dataset(uri).alter_columns({"path": "text", "name": "x"})
    pilum.dataset(uri).alter_columns({"path": "other", "name": "text"})
    pilum.dataset(uri).alter_columns({"path": "x", "name": "other"})
    rows = pa.table({"id": [2], "text": ["other 2"], "other": ["text 2"]})
    pilum.write_dataset(rows, uri, mode="append")


def put_in_place(uri: str) -> None:
    """Another column of the same name."""
    pilum.dataset(uri).drop_columns(["text"])
    pilum.dataset(uri).add_columns({"text": "'new'"})
    append(uri, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (rename, "'text' .* is called 'body' in version 5"),
        (drop, "'text' .* is not there: it was dropped in version 5"),
        (rename_and_back, "'text' .* is called 'body' in version 5"),
        (swap, "'text' .* is another column of that name .* in version"),
        (put_in_place, "'text' .* is another column of that name .* in version 6"),
    ],
)
@pytest.mark.parametrize("restarts", [False, True])
def test_a_column_that_changes_ends_the_query(
    uri: str, change: Change, message: str, restarts: bool
) -> None:
    pilum.dataset(uri).add_columns({"other": "'other'"})
    query = Query(uri)
    assert ids(query.batch()) == [0, 1]
    change(uri)
    if restarts:
        # With the columns that Spark finds in the table now.
        schema = StructType([field for field in SCHEMA if field.name in names(uri)])
        log, query = query.log, Query(uri, schema)
        query.log = log
    with pytest.raises(SchemaMismatchError, match=rf"{message}.*new checkpoint"):
        query.batch()


def names(uri: str) -> list[str]:
    return list(pilum.dataset(uri).schema.names)


def test_a_batch_that_was_logged_before_a_column_went_is_refused(uri: str) -> None:
    query = Query(uri)
    query.begin()
    drop(uri)
    log, query = query.log, Query(uri, StructType().add("id", LongType()))
    query.log = log
    with pytest.raises(SchemaMismatchError, match=r"'text' .* dropped"):
        query.finish()


@pytest.mark.parametrize("change", [rename, drop, put_in_place])
def test_columns_that_a_query_does_not_read_may_change(uri: str, change: Change) -> None:
    query = Query(uri, StructType().add("id", LongType()))
    query.batch()
    change(uri)
    query.begin()
    pilum.write_dataset({"id": [3]}, uri, mode="append")
    query.restart()
    assert ids(query.batch()) == [3]


def test_a_column_is_null_in_versions_from_before_it_was_added(uri: str) -> None:
    pilum.dataset(uri).add_columns({"more": "id + 1"})
    schema = StructType().add("id", LongType()).add("more", LongType())
    query = Query(uri, schema, startingVersion="1")
    assert query.batch() == [{"id": 0, "more": None}, {"id": 1, "more": None}]


def test_a_member_of_a_struct_is_null_in_versions_from_before_it_was_added(tmp_path: Path) -> None:
    """And not the value of another one."""
    uri, one = str(tmp_path / "t"), pa.struct([("x", pa.int64())])
    table = pilum.write_dataset(pa.table({"s": pa.array([{"x": 1}], one)}), uri)
    table.add_columns(pa.field("s", pa.struct([("y", pa.int64())])))
    members = StructType().add("x", LongType()).add("y", LongType())
    query = Query(uri, StructType().add("s", members), startingVersion="1")
    assert query.batch() == [{"s": {"x": 1, "y": None}}]


def test_a_renamed_member_ends_the_query(tmp_path: Path) -> None:
    uri, one = str(tmp_path / "t"), pa.struct([("x", pa.int64()), ("y", pa.int64())])
    pilum.write_dataset(pa.table({"s": pa.array([{"x": 1, "y": 2}], one)}), uri)
    schema = StructType().add("s", StructType().add("x", LongType()))
    query = Query(uri, schema)
    assert query.batch() == [{"s": {"x": 1}}]
    pilum.dataset(uri).alter_columns({"path": "s.y", "name": "z"})  # which it does not read
    query.begin()
    pilum.dataset(uri).alter_columns({"path": "s.x", "name": "w"})
    with pytest.raises(SchemaMismatchError, match=r"'s\.x' .* is called 's\.w'"):
        query.begin()


def test_queries_that_go_past_overwrites_take_columns_by_name(uri: str) -> None:
    query = Query(uri, onChange="reread")
    query.batch()
    turned = pa.table({"text": ["7"], "id": pa.array([7], pa.int64())})
    pilum.write_dataset(turned, uri, mode="overwrite")
    assert query.batch() == [{"id": 7, "text": "7"}]
    append(uri, 8, text="body", mode="overwrite")
    with pytest.raises(SchemaMismatchError, match=r"'text' .* is called 'body'"):
        query.batch()


def test_a_filter_needs_its_columns_too(uri: str) -> None:
    pilum.dataset(uri).add_columns({"other": "'1'"})
    schema = StructType().add("id", LongType())
    query = Query(uri, schema, filter="text = '1'")
    assert ids(query.batch()) == [1]
    swap(uri)
    with pytest.raises(SchemaMismatchError, match=r"'text' .* is another column"):
        query.batch()
