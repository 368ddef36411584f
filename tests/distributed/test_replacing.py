"""Replacing rows of a condition, with other writers and on an engine that runs a task twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from distributed.helpers import Pickling, files

import pilum
from pilum.distributed import Attempt, PartMessage
from pilum.distributed.jobs import write_options
from pilum.distributed.replacing import (
    Replacement,
    ReplaceResult,
    replace_rows,
    write_replacement,
)
from pilum.distributed.row_changes import RowChange
from pilum.errors import ColumnNotFoundError, InvalidInputError


@pytest.fixture
def table(uri: str) -> str:
    """Twenty rows of two days in four fragments."""
    rows = pa.table({"id": range(20), "day": ["a", "b"] * 10})
    pilum.write_dataset(rows, uri, max_rows_per_file=5)
    return uri


def contents(uri: str) -> list[tuple[int, str | None]]:
    found = pilum.dataset(uri).to_table().to_pydict()
    return sorted(zip(found["id"], found["day"], strict=True))


class Writer:
    """Writes given rows, one task for each table; others commit before the first attempt ends."""

    def __init__(self, *parts: pa.Table, before_commit: str = "") -> None:
        self.parts, self.before_commit = parts, before_commit
        self.attempts = 0

    def __call__(self, replacement: Replacement) -> Sequence[PartMessage]:
        self.attempts += 1
        uri = replacement.write.uri
        if self.attempts == 1 and self.before_commit:
            pilum.dataset(uri).delete(self.before_commit)
            new = pa.table({"id": [99], "day": ["a"]})
            pilum.write_dataset(new, uri, mode="append")
        return [
            write_replacement(replacement, part.to_batches(), Attempt(number))
            for number, part in enumerate(self.parts)
        ]


def replace(uri: str, where: str, writer: Writer, key: tuple[str, int] | None = None) -> object:
    change = RowChange.of(uri, idempotency_key=key)
    return replace_rows(Pickling(), change, where, write_options(), writer)


def test_rows_are_replaced_once(table: str) -> None:
    kept = [one for one in contents(table) if one[1] == "b"]
    writer = Writer(pa.table({"id": [50, 51], "day": ["a", "a"]}), pa.table({"day": ["a"]}))
    done = replace(table, "day = 'a'", writer, ("job", 1))
    assert done == ReplaceResult(num_deleted_rows=10, num_inserted_rows=3)
    found = pilum.dataset(table).to_table().to_pylist()
    assert [one for one in found if one["id"] is None] == [{"id": None, "day": "a"}]
    assert {one["id"] for one in found} - {None} == {50, 51, *(number for number, _ in kept)}
    again = replace(table, "day = 'a'", writer, ("job", 1))
    assert again == ReplaceResult(num_deleted_rows=0, num_inserted_rows=0)
    assert pilum.dataset(table).version == 2


@pytest.mark.parametrize(("lost", "attempts"), [("id = 1", 1), ("id = 0", 2)])
def test_changes_of_others_are_kept(table: str, lost: str, attempts: int) -> None:
    """Of other rows, beside it; of the same rows, before another search, which finds new ones."""
    writer = Writer(pa.table({"id": [50], "day": ["a"]}), before_commit=lost)
    replace(table, "day = 'a'", writer)
    assert writer.attempts == attempts
    gone = int(lost[-1])
    kept = {number for number in range(1, 20, 2) if number != gone}
    assert {number for number, _ in contents(table)} == {
        50,
        *kept,
        *({99} if attempts == 1 else ()),
    }


def test_rows_of_another_condition_are_refused(table: str) -> None:
    before = (contents(table), files(table))
    for rows in (
        pa.table({"id": [1, 2], "day": ["a", "b"]}),
        pa.table({"id": [1], "day": pa.nulls(1, pa.string())}),
        pa.table({"id": [1]}),
    ):
        with pytest.raises(InvalidInputError, match=r"1 of \d rows do not fulfil"):
            replace(table, "day = 'a'", Writer(pa.table({"day": ["a"]}), rows))
    with pytest.raises(InvalidInputError, match="_rowid"):
        replace(table, "_rowid = 1", Writer())
    with pytest.raises(ColumnNotFoundError):
        replace(table, "nope = 1", Writer())
    left = [name for name in files(table) if Path(table, "data", name).stat().st_size]
    assert (contents(table), left) == before


def test_json_is_tested_as_stored(uri: str) -> None:
    """Engines pass text, and conditions read the stored form."""
    column = pa.array(['{"a": 1}', '{"a": 2}'], pa.json_(pa.string()))
    pilum.write_dataset(pa.table({"id": [1, 2], "doc": column}), uri)
    writer = Writer(pa.table({"id": [3], "doc": ['{"a": 2, "b": 0}']}))
    done = replace(uri, "json_extract(doc, '$.a') = '2'", writer)
    assert done == ReplaceResult(num_deleted_rows=1, num_inserted_rows=1)
    assert sorted(pilum.dataset(uri).to_table(columns=["id"])["id"].to_pylist()) == [1, 3]
