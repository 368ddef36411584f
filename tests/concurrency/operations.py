"""The changes that are killed: what each needs, and what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

import pilum
from pilum.commit import CommitHandler, ExternalManifests, SqliteEntries

OPTIONS = {"sync": "false"}
"""A killed process loses nothing that the kernel has, so nobody has to wait for the device."""


Act = Callable[[str, CommitHandler | None], object]


@dataclass(frozen=True)
class Change:
    """One change of a table.

    Attributes:
        act: Does it, given the path of the table and what decides about versions, if anything.
        needs_table: Whether there is one before.
        commits: Whether it is a commit.
    """

    act: Act
    needs_table: bool = True
    commits: bool = True


def prepare(path: str) -> None:
    """Makes a table of three fragments, with deleted rows, a tag and some config."""
    data = pilum.write_dataset(_rows(0, 6), path, max_rows_per_file=3, storage_options=OPTIONS)
    data.insert(_rows(6, 9))
    data.delete("id = 1")
    data.tags.create("first", 1)
    data.update_config({"key": "value"})


def _rows(start: int, stop: int) -> pa.Table:
    ids = list(range(start, stop))
    return pa.table({"id": ids, "text": [f"row {number}" for number in ids]})


def _on(change: Callable[[pilum.LanceDataset], object]) -> Act:
    """A change of the newest version."""

    def act(path: str, handler: CommitHandler | None) -> object:
        return change(pilum.dataset(path, storage_options=OPTIONS, commit_handler=handler))

    return act


def _write(mode: str, times: int = 1, idempotency_key: str | None = None) -> Act:
    def act(path: str, handler: CommitHandler | None) -> object:
        for _ in range(times):
            pilum.write_dataset(
                _rows(10, 15),
                path,
                mode=mode,
                max_rows_per_file=3,
                storage_options=OPTIONS,
                commit_handler=handler,
                idempotency_key=idempotency_key,
            )
        return None

    return act


def _through_entries(path: str, handler: CommitHandler | None) -> object:
    handler = handler or ExternalManifests(SqliteEntries(f"{path}.db"))
    return _write("append")(path, handler)


def _merge(data: pilum.LanceDataset) -> object:
    builder = data.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return builder.execute(_rows(4, 12))


def _clean_up(data: pilum.LanceDataset) -> object:
    return data.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)


OPERATIONS = {
    "create": Change(_write("create"), needs_table=False),
    "append": Change(_write("append")),
    "overwrite": Change(_write("overwrite")),
    "keyed append": Change(_write("append", 2, "job")),
    "append through entries": Change(_through_entries),
    "delete": Change(_on(lambda data: data.delete("id = 4 OR id = 7"))),
    "update": Change(_on(lambda data: data.update({"text": "'new'"}, where="id > 4"))),
    "merge": Change(_on(lambda data: _merge(data))),
    "add columns": Change(_on(lambda data: data.add_columns({"twice": "id * 2"}))),
    "drop columns": Change(_on(lambda data: data.drop_columns(["text"]))),
    "rename": Change(_on(lambda data: data.alter_columns({"path": "text", "name": "words"}))),
    "restore": Change(_on(lambda data: data.checkout_version(1).restore())),
    "config": Change(_on(lambda data: data.update_config({"key": "other"}))),
    "compact": Change(_on(lambda data: data.optimize.compact_files())),
    "branch": Change(_on(lambda data: data.create_branch("dev")), commits=False),
    "cleanup": Change(_on(lambda data: _clean_up(data)), commits=False),
    "tag": Change(_on(lambda data: data.tags.create("second", 2)), commits=False),
    "move tag": Change(_on(lambda data: data.tags.update("first", 2)), commits=False),
}
