"""A process that changes a table again and again, and says what was acknowledged.

Arguments: library, path, seed, number of the worker, changes, storage options (JSON). It prints
"ready", waits for a line, and then prints one JSON text for each change that succeeded, with the
version that it became, until there are so many. Of changes that failed, because others were first,
it prints the error; they must have had no effect.

Each worker deletes and updates only rows that it has appended itself, so that what a change does
follows from the order of the versions alone.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pyarrow as pa

Told = dict[str, Any] | None


class Worker:
    """What one process remembers."""

    def __init__(
        self, library: Any, path: str, seed: int, number: int, options: dict[str, str]
    ) -> None:
        self.lance = library
        self.path = path
        self.options = options
        self.number = number
        self.random = random.Random(f"{seed} {number}")
        self.ids: list[int] = []
        self.count = 0

    def change(self) -> Told:
        """Makes one change; None if there is nothing to tell."""
        changes: list[Callable[[], Told]] = [
            *[self.append] * 4,
            *[self.delete] * 2,
            *[self.update] * 2,
            self.merge,
            self.add_column,
            self.tag,
            self.compact,
            self.overwrite,
        ]
        self.count += 1
        return self.random.choice(changes)()

    def append(self) -> Told:
        ids = self.new_ids()
        version = self.write(ids, "append")
        self.ids += ids
        return {"do": "append", "ids": ids, "version": version}

    def overwrite(self) -> Told:
        ids = self.new_ids()
        version = self.write(ids, "overwrite")
        self.ids = ids
        return {"do": "overwrite", "ids": ids, "version": version}

    def delete(self) -> Told:
        data, ids = self.open(), self.some()
        data.delete(in_list(ids))
        self.ids = [number for number in self.ids if number not in ids]
        return {"do": "delete", "ids": ids, "version": data.version}

    def update(self) -> Told:
        data, ids = self.open(), self.some()
        result = data.update({"v": "v + 1"}, where=in_list(ids))
        if not result["num_rows_updated"]:
            return None
        return {"do": "update", "ids": ids, "version": data.version}

    def merge(self) -> Told:
        data, ids = self.open(), [number for number in self.some() if number > 0]
        ids += self.new_ids()
        given = self.rows(ids, data.schema)
        builder = data.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        builder.execute(given)
        self.ids = sorted({*self.ids, *ids})
        columns = given.column_names  # others may have added more before this is in
        return {"do": "merge", "ids": ids, "columns": columns, "version": data.version}

    def add_column(self) -> Told:
        data, name = self.open(), f"c{self.number}_{self.count}"
        data.add_columns({name: "id * 2"})
        return {"do": "add column", "name": name, "version": data.version}

    def tag(self) -> Told:
        data, name = self.open(), f"t{self.number}-{self.count}"
        data.tags.create(name, data.version)
        return {"do": "tag", "name": name, "version": data.version}

    def compact(self) -> Told:
        self.open().optimize.compact_files()
        return None  # nobody sees it

    def open(self) -> Any:
        return self.lance.dataset(self.path, storage_options=self.options)

    def write(self, ids: list[int], mode: str) -> int:
        schema = self.open().schema if mode == "append" else pa.schema([])
        written = self.lance.write_dataset(
            self.rows(ids, schema), self.path, mode=mode, storage_options=self.options
        )
        return int(written.version)

    def rows(self, ids: list[int], schema: pa.Schema) -> pa.Table:
        columns = {"id": pa.array(ids, pa.int64()), "v": pa.array([0] * len(ids), pa.int64())}
        for field in schema:
            columns.setdefault(field.name, pa.nulls(len(ids), field.type))
        return pa.table(columns)

    def new_ids(self) -> list[int]:
        start = self.number * 1_000_000 + self.count * 100
        return list(range(start, start + self.random.randint(1, 20)))

    def some(self) -> list[int]:
        return self.random.sample(self.ids, len(self.ids) // 2) or [-1]


def in_list(ids: list[int]) -> str:
    """The condition that names these rows."""
    return f"id IN ({', '.join(map(str, ids))})"


def main() -> None:
    """Runs the worker."""
    library, path, seed, number, changes, options = sys.argv[1:]
    worker = Worker(import_module(library), path, int(seed), int(number), json.loads(options))
    print("ready", flush=True)
    sys.stdin.readline()
    done = 0
    while done < int(changes):
        try:
            told = worker.change()
            done += 1
        except Exception as error:
            told = {"do": "fail", "error": f"{library}: {type(error).__name__}: {error}"}
        if told:
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
