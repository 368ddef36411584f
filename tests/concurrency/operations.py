"""The changes that are killed: what each needs, and what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

import pilum

OPTIONS = {"sync": "false"}
"""A killed process loses nothing that the kernel has, so nobody has to wait for the device."""


@dataclass(frozen=True)
class Change:
    """One change of a table.

    Attributes:
        act: Does it, given the path of the table.
        needs_table: Whether there is one before.
    """

    act: Callable[[str], object]
    needs_table: bool = True


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


def _open(path: str) -> pilum.LanceDataset:
    return pilum.dataset(path, storage_options=OPTIONS)


def _write(mode: str) -> Callable[[str], object]:
    def act(path: str) -> object:
        return pilum.write_dataset(
            _rows(10, 15), path, mode=mode, max_rows_per_file=3, storage_options=OPTIONS
        )

    return act


def _keyed_append(path: str) -> None:
    for _ in range(2):
        pilum.write_dataset(
            _rows(10, 15), path, mode="append", storage_options=OPTIONS, idempotency_key="job"
        )


def _through_entries(path: str) -> None:
    options = {**OPTIONS, "manifest_store": f"sqlite://{path}.db"}
    pilum.write_dataset(_rows(10, 12), path, mode="append", storage_options=options)


OPERATIONS = {
    "create": Change(_write("create"), needs_table=False),
    "append": Change(_write("append")),
    "overwrite": Change(_write("overwrite")),
    "keyed append": Change(_keyed_append),
    "append through entries": Change(_through_entries),
    "delete": Change(lambda path: _open(path).delete("id = 4 OR id = 7")),
    "update": Change(lambda path: _open(path).update({"text": "'new'"}, where="id > 4")),
    "add columns": Change(lambda path: _open(path).add_columns({"twice": "id * 2"})),
    "drop columns": Change(lambda path: _open(path).drop_columns(["text"])),
    "rename": Change(lambda path: _open(path).alter_columns({"path": "text", "name": "words"})),
    "restore": Change(lambda path: _open(path).checkout_version(1).restore()),
    "config": Change(lambda path: _open(path).update_config({"key": "other"})),
    "tag": Change(lambda path: _open(path).tags.create("second", 2)),
    "move tag": Change(lambda path: _open(path).tags.update("first", 2)),
    "compact": Change(lambda path: _open(path).optimize.compact_files()),
}
