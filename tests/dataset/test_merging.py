"""Merging by keys: what every clause does, beside a model; other writers; what is refused."""

from __future__ import annotations

import math
import struct
import tempfile
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pilum
from pilum.dataset.rows import MergeResult
from pilum.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    CommitContentionError,
    FilterError,
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)

Row = dict[str, Any]
SCHEMA = pa.schema([("k", pa.float64()), ("j", pa.string()), ("v", pa.int64()), ("w", pa.string())])
TABLE = pa.table({"k": [1, 2, 3, None], "v": [10, 20, 30, 40], "w": ["a", "b", "c", "d"]})


@pytest.fixture
def dataset(tmp_path: Path) -> pilum.LanceDataset:
    """Four rows in fragments of two."""
    return pilum.write_dataset(TABLE, tmp_path / "t", max_rows_per_file=2)


def files(dataset: pilum.LanceDataset) -> set[str]:
    root = Path(dataset.uri)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def rows(dataset: pilum.LanceDataset) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in dataset.to_table().to_pylist()]


def counts(inserted: int, updated: int, deleted: int) -> MergeResult:
    return MergeResult(
        num_inserted_rows=inserted, num_updated_rows=updated, num_deleted_rows=deleted
    )


class Plan(NamedTuple):
    """A merge, and the same in Python."""

    on: list[str]
    matched: str
    condition: bool
    inserts: bool
    others: str
    columns: list[str]


def merge(dataset: pilum.LanceDataset, plan: Plan, source: pa.Table) -> MergeResult:
    builder = dataset.merge_insert(plan.on)
    condition = "source.v > target.v" if plan.condition else None
    if plan.matched == "update":
        builder.when_matched_update_all(condition)
    elif plan.matched == "set":
        builder.when_matched_update({"v": "target.v + source.v", "w": "'set'"}, condition)
    elif plan.matched == "delete":
        builder.when_matched_delete()
    if plan.inserts:
        builder.when_not_matched_insert_all()
    if plan.others:
        builder.when_not_matched_by_source_delete(None if plan.others == "all" else plan.others)
    return builder.execute(source)


def key_of(row: Row, on: list[str]) -> tuple[Any, ...] | None:
    """Equal for rows that match; None for a key with a null."""
    key: list[Any] = []
    for name in on:
        value = row[name]
        if value is None:
            return None
        key.append(struct.pack("d", value) if isinstance(value, float) else value)
    return tuple(key)


def changed(plan: Plan, old: Row, new: Row) -> Row | None:
    """What a pair becomes, None if it stays."""
    if plan.condition and not (None not in (new["v"], old["v"]) and new["v"] > old["v"]):
        return None
    if plan.matched == "set":
        total = None if None in (new["v"], old["v"]) else new["v"] + old["v"]
        return {**old, "v": total, "w": "set"}
    return {**old, **{name: new[name] for name in plan.columns}}


class AmbiguousError(Exception):
    """Several rows of the source for one of the table."""


def expected(plan: Plan, table: list[Row], source: list[Row]) -> tuple[list[Row], MergeResult]:
    left, moved, seen = [], [], set()
    num_deleted = 0
    for old in table:
        key = key_of(old, plan.on)
        pairs = [new for new in source if key is not None and key_of(new, plan.on) == key]
        seen |= {key} if pairs else set()
        if not pairs:
            gone = plan.others == "all" or (plan.others and old["v"] is not None and old["v"] > 1)
            num_deleted += bool(gone)
            left += [] if gone else [old]
        elif plan.matched == "delete":
            if len(pairs) > 1:
                raise AmbiguousError
            num_deleted += 1
        elif plan.matched:
            results = [result for new in pairs if (result := changed(plan, old, new))]
            if len(results) > 1:
                raise AmbiguousError
            moved += results
            left += [] if results else [old]
        else:
            left.append(old)
    added = [
        {name: new.get(name) if name in plan.columns else None for name in SCHEMA.names}
        for new in source
        if plan.inserts and key_of(new, plan.on) not in seen
    ]
    found = [{name: row[name] for name in SCHEMA.names} for row in left + moved + added]
    return found, counts(len(added), len(moved), num_deleted)


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.sampled_from([None, 0.0, -0.0, float("nan"), 1.0, 2.0]),
            "j": st.sampled_from([None, "x", "y"]),
            "v": st.sampled_from([None, 0, 1, 2, 3]),
            "w": st.sampled_from([None, "a", "b"]),
        }
    ),
    max_size=12,
)
PLANS = st.builds(
    Plan,
    st.sampled_from([["k"], ["j"], ["k", "j"], ["j", "k"]]),
    st.sampled_from(["", "update", "set", "delete"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["", "all", "v > 1"]),
    st.sampled_from([SCHEMA.names, ["j", "v", "k"]]),
).filter(lambda plan: bool(plan.matched or plan.inserts or plan.others))


@settings(max_examples=45)
@given(PLANS, ROWS, ROWS, st.integers(1, 5))
def test_merges_do_what_the_model_does(
    plan: Plan, table: list[Row], source: list[Row], num_rows: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        dataset = pilum.write_dataset(
            pa.Table.from_pylist(table, SCHEMA), folder, mode="append", max_rows_per_file=num_rows
        )
        given_columns = pa.schema([SCHEMA.field(name) for name in plan.columns])
        columns = pa.Table.from_pylist(source, given_columns)
        before = files(dataset)
        try:
            wanted, numbers = expected(plan, table, source)
        except AmbiguousError:
            with pytest.raises(InvalidInputError, match="several rows of the source"):
                merge(dataset, plan, columns)
            assert files(dataset) == before
            return
        assert merge(dataset, plan, columns) == numbers
        # As texts, for which NaN equals itself and -0.0 is not 0.0.
        assert list(map(str, dataset.to_table().to_pylist())) == list(map(str, wanted))
        assert dataset.version == 2


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_float_keys_are_equal_if_their_bits_are(tmp_path: Path, kind: pa.DataType) -> None:
    keys = [math.nan, math.copysign(math.nan, -1), 0.0, -0.0, 1.0]
    table = pa.table({"k": pa.array(keys, kind), "v": range(5)})
    dataset = pilum.write_dataset(table, tmp_path / "t")
    for row in range(5):
        source = pa.table({"k": pa.array(keys[row : row + 1], kind), "v": [row + 100]})
        merged = dataset.merge_insert("k").when_matched_update_all().execute(source)
        assert merged == counts(0, 1, 0)
    assert sorted(dataset.to_table()["v"].to_pylist()) == [100, 101, 102, 103, 104]


def test_upsert(dataset: pilum.LanceDataset) -> None:
    source = pa.table({"w": ["B", "E", "A"], "k": [2, 5, 1], "v": [21, 51, 11]})
    builder = dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    assert builder.execute(source) == counts(1, 2, 0)
    assert rows(dataset) == [
        (3, 30, "c"),
        (None, 40, "d"),
        (1, 11, "A"),
        (2, 21, "B"),
        (5, 51, "E"),
    ]
    assert [one.fragment_id for one in dataset.get_fragments()] == [1, 2]
    # The builder can be used again, on what the table is now.
    assert builder.execute(source) == counts(0, 3, 0)


def test_columns_that_the_source_lacks(dataset: pilum.LanceDataset) -> None:
    source = pa.table({"k": [2, 5], "v": [21, 51]})
    builder = dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    assert builder.execute(source) == counts(1, 1, 0)
    assert rows(dataset)[-2:] == [(2, 21, "b"), (5, 51, None)]
    # No nulls are stored for what was inserted: its file does not have the column.
    assert [len(one.data_files()[0].fields) for one in dataset.get_fragments()] == [3, 3, 3, 2]


def test_expressions_over_both_sides(dataset: pilum.LanceDataset) -> None:
    source = pa.table({"k": [1, 3], "by": [5, 7], "note": ["x", None]})
    builder = dataset.merge_insert("k").when_matched_update(
        {"v": "target.v + source.by", "w": "coalesce(source.note, target.w) || 's'"},
        condition="target._rowid >= 0 AND source.by > 0",
    )
    assert builder.execute(source) == counts(0, 2, 0)
    assert rows(dataset) == [(2, 20, "b"), (None, 40, "d"), (1, 15, "xs"), (3, 37, "cs")]


def test_sources_of_every_kind(dataset: pilum.LanceDataset, tmp_path: Path) -> None:
    table = pa.table({"k": [1], "v": [11], "w": ["A"]})
    other = pilum.write_dataset(table, tmp_path / "other")
    sources: list[Any] = [table, table.to_reader(), other, other.scanner(), table.to_pylist()]
    sources += [table.to_pydict(), iter(table.to_batches()), table.to_pandas()]
    for source in sources:
        builder = dataset.merge_insert(["k"]).when_matched_update_all()
        assert builder.execute(source, schema=table.schema) == counts(0, 1, 0)
    assert rows(dataset)[-1] == (1, 11, "A")
    empty = dataset.merge_insert("k").when_matched_update_all()
    assert empty.execute(iter([]), schema=table.schema) == counts(0, 0, 0)


KEYS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, False]),
    (pa.uint64(), [2**64 - 1, 0]),
    (pa.float16(), [0.5, float("nan")]),
    (pa.float32(), [0.5, float("nan")]),
    (pa.large_string(), ["a", "b"]),
    (pa.binary(), [b"a", b""]),
    (pa.binary(2), [b"aa", b"bb"]),
    (pa.decimal128(10, 2), [Decimal("1.25"), Decimal(-3)]),
    (pa.decimal256(50, 2), [Decimal("1.25"), Decimal(-3)]),
    (pa.date32(), [date(2020, 1, 1), date(2021, 1, 1)]),
    (pa.date64(), [date(2020, 1, 1), date(2021, 1, 1)]),
    (pa.time32("s"), [time(1), time(2)]),
    (pa.time64("ns"), [time(1), time(2)]),
    (pa.timestamp("us", "UTC"), [datetime(2020, 1, 1), datetime(2021, 1, 1)]),
    (pa.duration("ms"), [timedelta(1), timedelta(2)]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b"]),
]


@pytest.mark.parametrize(("arrow", "values"), KEYS, ids=[str(arrow) for arrow, _ in KEYS])
def test_keys_of_every_type(tmp_path: Path, arrow: pa.DataType, values: list[Any]) -> None:
    schema = pa.schema([("k", arrow), ("v", pa.int64())])
    plain = arrow.value_type if pa.types.is_dictionary(arrow) else arrow

    def table(keys: list[Any], numbers: list[int]) -> pa.Table:
        return pa.table([pa.array(keys, plain).cast(arrow), pa.array(numbers)], schema)

    dataset = pilum.write_dataset(table([*values, None], [1, 2, 3]), tmp_path / "t")
    source = table([None, values[1]], [30, 20])
    builder = dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    assert builder.execute(source) == counts(1, 1, 0)
    assert dataset.to_table()["v"].to_pylist() == [1, 3, 20, 30]


def test_a_match_can_be_refused(dataset: pilum.LanceDataset) -> None:
    builder = dataset.merge_insert("k").when_matched_fail().when_not_matched_insert_all()
    before = files(dataset)
    with pytest.raises(InvalidInputError, match="k = 3"):
        builder.execute(pa.table({"k": [7, 3], "v": [1, 2], "w": ["x", "y"]}))
    assert files(dataset) == before
    assert builder.execute(pa.table({"k": [7], "v": [1], "w": ["x"]})) == counts(1, 0, 0)


def test_the_primary_key_is_the_key(tmp_path: Path) -> None:
    def key(name: str, position: str) -> pa.Field:
        name_of_key = "lance-schema:unenforced-primary-key:position"
        return pa.field(name, pa.int64(), False, {name_of_key: position})

    schema = pa.schema([key("b", "2"), key("a", "1"), ("v", pa.int64())])
    dataset = pilum.write_dataset(
        pa.table({"b": [1, 1], "a": [1, 2], "v": [1, 2]}, schema), tmp_path / "t"
    )
    other, third = pilum.dataset(dataset.uri), pilum.dataset(dataset.uri)
    source = pa.table({"b": [1, 1], "a": [2, 3], "v": [20, 30]}, schema)
    upsert: Callable[[pilum.LanceDataset], Any] = lambda one: (  # noqa: E731
        one.merge_insert().when_matched_update_all().when_not_matched_insert_all().execute(source)
    )
    assert upsert(dataset) == counts(1, 1, 0)
    # The others began before; the rows that they would insert are there now.
    assert upsert(other) == counts(0, 2, 0)
    third.insert(pa.table({"b": [9], "a": [9], "v": [9]}, schema))
    assert upsert(third) == counts(0, 2, 0)
    assert sorted(third.to_table()["v"].to_pylist()) == [1, 9, 20, 30]


def test_writers_at_the_same_time(dataset: pilum.LanceDataset) -> None:
    other, third = pilum.dataset(dataset.uri), pilum.dataset(dataset.uri)
    one = pa.table({"k": [1], "v": [11], "w": ["A"]})
    dataset.merge_insert("k").when_matched_update_all().execute(one)
    # Another row of the fragment: merged. The same row: done again.
    two = pa.table({"k": [2], "v": [22], "w": ["B"]})
    assert other.merge_insert("k").when_matched_update_all().execute(two) == counts(0, 1, 0)
    add = {"v": "target.v + source.v"}
    builder = third.merge_insert("k").when_matched_update(add)
    assert builder.execute(pa.concat_tables([one, two]).to_reader()) == counts(0, 2, 0)
    assert rows(third) == [(3, 30, "c"), (None, 40, "d"), (1, 22, "A"), (2, 44, "B")]


def test_others_that_cannot_be_followed(dataset: pilum.LanceDataset) -> None:
    other = pilum.dataset(dataset.uri)
    one = pa.table({"k": [1], "v": [11], "w": ["A"]})
    dataset.merge_insert("k").when_matched_update_all().execute(one)
    before = files(dataset)
    builder = other.merge_insert("k").when_matched_update_all()
    with pytest.raises(CommitContentionError, match="1 times"):
        builder.conflict_retries(0).execute(one)
    with pytest.raises(CommitContentionError):
        builder.conflict_retries(5).retry_timeout(timedelta(0)).execute(one)
    assert files(dataset) == before
    pilum.write_dataset(TABLE, dataset.uri, mode="overwrite")
    before = files(dataset)
    with pytest.raises(CommitConflictError):
        builder.execute(one)
    assert files(dataset) == before


def test_without_a_commit(dataset: pilum.LanceDataset) -> None:
    source = pa.table({"k": [1, 5], "v": [11, 51], "w": ["A", "E"]})
    builder = dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    transaction, found = builder.execute_uncommitted(source)
    assert found == counts(1, 1, 0)
    assert (dataset.version, dataset.count_rows()) == (1, 4)
    dataset = pilum.LanceDataset.commit(dataset, transaction)
    assert rows(dataset)[-2:] == [(1, 11, "A"), (5, 51, "E")]


def test_a_large_source_goes_to_a_file_and_is_joined_in_blocks(
    dataset: pilum.LanceDataset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("pilum.table.changes.join.MEMORY_BYTES", 1000)
    monkeypatch.setattr("pilum.table.changes.join.BLOCK_BYTES", 1000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    numbers = list(range(3, 1000))
    source = pa.table({"k": numbers, "v": numbers, "w": list(map(str, numbers))})
    reader = pa.RecordBatchReader.from_batches(source.schema, source.to_batches(max_chunksize=100))
    builder = dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    assert builder.execute(reader) == counts(996, 1, 0)
    assert dataset.to_table()["v"].to_pylist() == [10, 20, 40, *numbers]
    twice = pa.concat_tables([source.to_reader().read_all(), source[-1:]])
    with pytest.raises(InvalidInputError, match=r"several rows of the source match .* k = 999"):
        builder.execute(twice.to_reader())
    assert not list((tmp_path / "temporary").iterdir())


SOURCE = pa.table({"k": [1], "v": [11], "w": ["A"]})
Step = Callable[[Any], Any]


@pytest.mark.parametrize(
    ("on", "steps", "source", "error", "match"),
    [
        ("zz", [], SOURCE, ColumnNotFoundError, "zz"),
        (None, [], SOURCE, InvalidInputError, "no primary key"),
        ([], [], SOURCE, InvalidInputError, "no primary key"),
        (["k", "k"], [], SOURCE, InvalidInputError, "twice"),
        ("k", [], SOURCE, InvalidInputError, "nothing to merge"),
        ("k", ["insert"], 5, InvalidInputError, "cannot write int"),
        ("k", ["delete"], SOURCE.append_column("k", [[1]]), InvalidInputError, "come twice"),
        ("k", ["insert"], SOURCE.drop_columns(["k"]), SchemaMismatchError, "lacks the key columns"),
        ("k", ["insert"], SOURCE.append_column("z", [[1]]), SchemaMismatchError, "no column 'z'"),
        ("k", ["update"], SOURCE.append_column("z", [[1]]), SchemaMismatchError, "no column 'z'"),
        (
            "k",
            ["insert"],
            SOURCE.set_column(0, "k", pa.array([1], pa.int32())),
            SchemaMismatchError,
            "int32",
        ),
        ("k", ["update v > 1"], SOURCE, ColumnNotFoundError, "no column 'v'"),
        ("k", ["update _rowid > 1"], SOURCE, FilterError, "source.x or target.x"),
        ("k", ["update target.zz > 1"], SOURCE, ColumnNotFoundError, "'target' has no member 'zz'"),
        ("k", ["update source.v"], SOURCE, FilterError, "not boolean"),
        ("k", ["update source.v / 0 > 1"], SOURCE, FilterError, "divide by zero"),
        ("k", ["set"], SOURCE, InvalidInputError, "expected a dict"),
        ("k", ["set zz"], SOURCE, ColumnNotFoundError, "zz"),
        ("k", ["others target.v > 1"], SOURCE, ColumnNotFoundError, "target"),
        ("k", ["mode rewrite_columns"], SOURCE, UnsupportedFeatureError, "rewrite_columns"),
        ("k", ["mode other"], SOURCE, InvalidInputError, "write_mode"),
        ("k", ["version 2.0"], SOURCE, InvalidInputError, "data_storage_version"),
    ],
)
def test_misuse_changes_nothing(
    dataset: pilum.LanceDataset,
    on: Any,
    steps: list[str],
    source: Any,
    error: type[Exception],
    match: str,
) -> None:
    def misuse() -> None:
        builder = dataset.merge_insert(on)
        for step in steps:
            name, _, argument = step.partition(" ")
            does: dict[str, Step] = {
                "delete": lambda _: builder.when_matched_delete(),
                "insert": lambda _: builder.when_not_matched_insert_all(),
                "update": lambda text: builder.when_matched_update_all(text or None),
                "set": lambda text: builder.when_matched_update({text: "1"} if text else {}),
                "others": builder.when_not_matched_by_source_delete,
                "mode": builder.write_mode,
                "version": builder.data_storage_version,
            }
            does[name](argument)
        builder.execute(source)

    before = files(dataset)
    with pytest.raises(error, match=match):
        misuse()
    assert files(dataset) == before
    assert dataset.version == 1


def test_more_misuse_changes_nothing(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.int64(), nullable=False)])
    table = pa.table({"k": [1], "v": [1]}, schema)
    dataset = pilum.write_dataset(table, tmp_path / "t")
    before = files(dataset)
    builder = dataset.merge_insert("k").when_not_matched_insert_all()
    with pytest.raises(SchemaMismatchError, match="'v' is missing"):
        builder.execute(pa.table({"k": [2]}))
    with pytest.raises(SchemaMismatchError, match="'v' must not be null"):
        builder.execute(pa.table({"k": [2], "v": pa.array([None], pa.int64())}))
    for bad in ("5", 1.5, -1):
        with pytest.raises(InvalidInputError):
            dataset.merge_insert("k").conflict_retries(bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="retry_timeout"):
        dataset.merge_insert("k").retry_timeout(30)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="use_index"):
        dataset.merge_insert("k").use_index("yes")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="condition"):
        dataset.merge_insert("k").when_matched_update_all(5)  # type: ignore[arg-type]
    nested = pilum.write_dataset(pa.table({"k": [[1]], "v": [1]}), tmp_path / "nested")
    with pytest.raises(InvalidInputError, match="cannot be a key"):
        nested.merge_insert("k").when_matched_delete().execute(pa.table({"k": [[1]]}))
    assert files(dataset) == before


def test_pairs_with_a_condition_are_deleted_and_the_others_updated(
    dataset: pilum.LanceDataset,
) -> None:
    changes = pa.table({"k": [1, 2, 7, 8], "v": [-1, 21, 70, -8], "w": [*"ABGH"]})
    done = (
        dataset.merge_insert("k")
        .when_matched_update_all("target.v < 100")
        .when_matched_delete("source.v < 0")
        .when_not_matched_insert_all("source.v > 0")
        .execute(changes)
    )
    assert done == counts(inserted=1, updated=1, deleted=1)
    assert sorted(row[1:] for row in rows(dataset)) == [
        (21, "B"),
        (30, "c"),
        (40, "d"),
        (70, "G"),
    ]


def test_pairs_are_deleted_by_condition_alone(dataset: pilum.LanceDataset) -> None:
    changes = pa.table({"k": [1, 2, 3], "op": [*"DxD"]})
    done = dataset.merge_insert("k").when_matched_delete("source.op = 'D'").execute(changes)
    assert (done["num_deleted_rows"], done["num_updated_rows"]) == (2, 0)
    assert [row[1] for row in rows(dataset)] == [20, 40]
    twice = pa.table({"k": [2, 2], "op": [*"DD"]})
    with pytest.raises(InvalidInputError, match="several rows of the source"):
        dataset.merge_insert("k").when_matched_delete("source.op = 'D'").execute(twice)
    with pytest.raises(ColumnNotFoundError, match="'target'"):
        dataset.merge_insert("k").when_not_matched_insert_all("target.v = 1").execute(TABLE)


def test_columns_of_the_source_may_be_there_for_conditions_only(
    dataset: pilum.LanceDataset,
) -> None:
    changes = pa.table({"op": [*"DUID"], "k": [1, 2, 7, 8], "v": [-1, 21, 70, -8]})
    merge = dataset.merge_insert("k").source_columns(["k", "v"])
    merge.when_matched_delete("source.op = 'D'").when_matched_update_all()
    merge.when_not_matched_insert_all("source.op <> 'D'")
    assert merge.execute(changes) == counts(inserted=1, updated=1, deleted=1)
    assert sorted(row[1:] for row in rows(dataset) if row[0] in {2, 7}) == [(21, "b"), (70, None)]
    with pytest.raises(InvalidInputError, match="the keys"):
        dataset.merge_insert("k").source_columns(["v"])


def test_plans_tell_what_a_merge_would_do(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(pa.table({"a": [1, 2, 3], "v": [1, 2, 3]}), tmp_path / "t")
    builder = dataset.merge_insert("a").when_matched_update_all().when_not_matched_insert_all()
    head, write, join, scan, source = builder.explain_plan().splitlines()
    assert head == (
        "MergeInsert: on=[a], when_matched=UpdateAll, when_not_matched=InsertAll, "
        "when_not_matched_by_source=Keep"
    )
    assert (write[:8], join[:16]) == ("  Write:", "    Join: a of s")
    assert scan.endswith("columns a, 1 of 1 fragments, 3 rows")
    assert source == "      Source: a, v"
    assert "        File: " in builder.explain_plan(verbose=True)
    builder = (
        dataset.merge_insert("a")
        .when_matched_update_all("source.v > 3")
        .when_matched_delete("source.v = 0")
        .when_not_matched_insert_all("source.v > 1")
        .when_not_matched_by_source_delete("v > 1")
    )
    plan = builder.explain_plan(pa.schema({"a": pa.int64(), "v": pa.int64()}))
    assert plan.splitlines()[0] == (
        "MergeInsert: on=[a], when_matched=DeleteIf(source.v = 0), UpdateIf(source.v > 3), "
        "when_not_matched=InsertIf(source.v > 1), when_not_matched_by_source=DeleteIf(v > 1)"
    )


def test_analyzing_a_merge_changes_nothing(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(pa.table({"a": [1, 2, 3], "v": [1, 2, 3]}), tmp_path / "t")
    before = sorted(path for path in (tmp_path / "t").rglob("*") if path.is_file())
    builder = dataset.merge_insert("a").when_matched_update_all().when_not_matched_insert_all()
    source = pa.table({"a": [2, 9], "v": [7, 8]})
    head, *steps = builder.analyze_plan(source).splitlines()
    counts = "num_inserted_rows=1, num_updated_rows=1, num_deleted_rows=0, num_files_written=2"
    assert head.startswith(f"Analyzed: {counts}, elapsed=")
    assert [step[2:] for step in steps] == builder.explain_plan().splitlines()
    assert sorted(path for path in (tmp_path / "t").rglob("*") if path.is_file()) == before
    assert pilum.dataset(dataset.uri).version == 1
    assert builder.execute_batches(source)["num_updated_rows"] == 1


def test_what_builders_of_merges_refuse(tmp_path: Path) -> None:
    table = pa.table({"a": [1], "s": [{"x": 1}]})
    dataset = pilum.write_dataset(table, tmp_path / "t")
    with pytest.raises(UnsupportedFeatureError, match=r"'s\.x' is a member"):
        dataset.merge_insert("s.x")
    builder = dataset.merge_insert("a")
    calls: tuple[Callable[[], object], ...] = (
        lambda: builder.target_bases(["b"]),
        lambda: builder.target_all_bases(),
        lambda: builder.mark_sstables_as_compacted([]),
        lambda: builder.write_mode("rewrite_columns"),
    )
    for call in calls:
        with pytest.raises(UnsupportedFeatureError):
            call()
    with pytest.raises(InvalidInputError, match="nothing to merge"):
        builder.explain_plan()


def test_plans_name_the_index_of_the_key(tmp_path: Path) -> None:
    table = pa.table({"a": range(64), "f": pa.array(range(64), pa.float64()), "v": range(64)})
    dataset = pilum.write_dataset(table, tmp_path / "t")

    def join(*on: str, use_index: bool = True) -> str:
        builder = dataset.merge_insert(list(on)).when_matched_update_all().use_index(use_index)
        return builder.explain_plan().splitlines()[2]

    assert "index" not in join("a")
    dataset.create_scalar_index("a", "BITMAP", name="few")
    dataset.create_scalar_index("f", "BTREE")
    assert "index" not in join("a")
    dataset.create_scalar_index("a", "BTREE", name="by_a")
    assert join("a").endswith("; up to 4 keys are looked up in the index by_a")
    assert join("f").endswith("looked up in the index f_idx")
    for line in (join("a", "v"), join("a", use_index=False)):
        assert "index" not in line
