"""Operations that commit a new version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pilum
from bench.tables.base import NO_SYNC, Case, Sizes, numbers

__all__ = ["CHANGES"]

_ONE_IN = 100


def _words(rows: int) -> str:
    return f"{rows // 1_000_000:,} M rows" if rows >= 1_000_000 else f"{rows:,} rows"


class _Change(Case):
    verb: str

    def name(self, sizes: Sizes) -> str:
        return f"{self.verb}, {_words(sizes.rows)}"

    def prepare(self, path: Path, sizes: Sizes) -> None:
        pilum.write_dataset(numbers(sizes.rows), path, storage_options=NO_SYNC)


class Append(_Change):
    """One row: what a commit costs."""

    verb = "append 1 row"
    rounds = 10

    def work(self, lance: Any, subject: Any, path: Path, options: dict[str, str] | None) -> Any:
        row = numbers(1)
        return lance.write_dataset(row, subject, mode="append", storage_options=options)

    def check(self, result: Any, after: Any, sizes: Sizes) -> bool:
        return bool(after.count_rows() == sizes.rows + 1)


class Delete(_Change):
    """One row of a hundred, everywhere."""

    verb = "delete 1 %"

    def work(self, lance: Any, subject: Any, path: Path, options: dict[str, str] | None) -> Any:
        subject.delete(f"id % {_ONE_IN} = 7")

    def check(self, result: Any, after: Any, sizes: Sizes) -> bool:
        ids = after.to_table(columns=["id"])["id"].to_numpy()
        return len(ids) == sizes.rows - sizes.rows // _ONE_IN and not (ids % _ONE_IN == 7).any()


class Update(_Change):
    """One row of a hundred, everywhere, gets another value."""

    verb = "update 1 %"

    def work(self, lance: Any, subject: Any, path: Path, options: dict[str, str] | None) -> Any:
        subject.update({"value": "value + 1000.0"}, where=f"id % {_ONE_IN} = 7")

    def check(self, result: Any, after: Any, sizes: Sizes) -> bool:
        found = after.to_table().sort_by("id")
        changed = pc.add(numbers(sizes.rows)["value"], 1000.0).to_numpy()
        values, ids = found["value"].to_numpy(), found["id"].to_numpy()
        touched = ids % _ONE_IN == 7
        return bool(
            len(ids) == sizes.rows
            and (values[touched] == changed[touched]).all()
            and (values[~touched] < 100).all()
        )


class MergeInsert(_Change):
    """As many rows as one in a hundred: half of them known, half of them new."""

    verb = "merge_insert 1 %"

    def before(self, lance: Any, path: Path, options: dict[str, str] | None) -> Any:
        dataset = lance.dataset(str(path), storage_options=options)
        rows = dataset.count_rows()
        half = max(rows // (2 * _ONE_IN), 1)
        ids = np.concatenate([np.arange(half) * 2 * _ONE_IN, rows + np.arange(half)])
        given = numbers(2 * half).set_column(0, "id", pa.array(ids))
        return dataset, given

    def work(self, lance: Any, subject: Any, path: Path, options: dict[str, str] | None) -> Any:
        dataset, given = subject
        merge = dataset.merge_insert("id").when_matched_update_all()
        return given, merge.when_not_matched_insert_all().execute(given)

    def check(self, result: Any, after: Any, sizes: Sizes) -> bool:
        given, counts = result
        half = given.num_rows // 2
        found = after.to_table(filter=f"id % {2 * _ONE_IN} = 0 OR id >= {sizes.rows}")
        kept = found.sort_by("id").filter(pc.is_in(found.sort_by("id")["id"], given["id"]))
        return bool(
            (counts["num_inserted_rows"], counts["num_updated_rows"]) == (half, half)
            and after.count_rows() == sizes.rows + half
            and kept.equals(given.cast(kept.schema))
        )


class AddColumn(_Change):
    """A column that is computed from another."""

    verb = "add a column"

    def work(self, lance: Any, subject: Any, path: Path, options: dict[str, str] | None) -> Any:
        subject.add_columns({"twice": "id * 2"})

    def check(self, result: Any, after: Any, sizes: Sizes) -> bool:
        found = after.to_table(columns=["id", "twice"])
        return bool((found["twice"].to_numpy() == 2 * found["id"].to_numpy()).all())


class Compact(_Change):
    """Many small fragments become one."""

    has_memory = True

    def name(self, sizes: Sizes) -> str:
        return f"compact {sizes.fragments:,} fragments of 1,000 rows"

    def prepare(self, path: Path, sizes: Sizes) -> None:
        table = numbers(1_000 * sizes.fragments)
        pilum.write_dataset(table, path, max_rows_per_file=1_000, storage_options=NO_SYNC)

    def work(self, lance: Any, subject: Any, path: Path, options: dict[str, str] | None) -> Any:
        return subject.optimize.compact_files()

    def check(self, result: Any, after: Any, sizes: Sizes) -> bool:
        whole = after.to_table().equals(numbers(1_000 * sizes.fragments))
        return bool(whole and len(after.get_fragments()) <= 1 + sizes.fragments // 1_000)


CHANGES = (
    Append(),
    Delete(),
    Update(),
    MergeInsert(),
    AddColumn(),
    Compact(),
)
