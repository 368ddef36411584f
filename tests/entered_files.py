"""The files of the package that a job enters, counted in every thread: a measure of the house.

Run as a program, it prints a JSON object of jobs and the files that each enters.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import pilum

__all__ = ["entered_files"]

PACKAGE = str(Path(pilum.__file__).parent)
NOT_COUNTED = ("/pb/", "/lazy.py")
"""Generated code, and what the standard library might do."""


class _Recorder:
    """Records files in this thread and in all that start later; so it is made before the pools."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        threading.setprofile(self._record)
        sys.setprofile(self._record)

    def _record(self, frame: Any, event: str, argument: object) -> None:
        del argument
        code = frame.f_code
        if event == "call" and code.co_name != "<module>":
            self.files.add(code.co_filename)

    def of(self, job: Callable[[], object]) -> list[str]:
        self.files.clear()
        job()
        inside = [file for file in self.files.copy() if file.startswith(PACKAGE)]
        counted = [file for file in inside if not any(one in file for one in NOT_COUNTED)]
        return sorted(file.removeprefix(PACKAGE) for file in counted)


def entered_files(folder: str) -> dict[str, list[str]]:
    """Returns the files that each job enters, on an open table, done once before on another."""
    recorder = _Recorder()
    count = 5000
    columns = {
        "id": pa.array(range(count), pa.int64()),
        "text": [f"text {row % 97}" for row in range(count)],
        "value": [float(row) for row in range(count)],
    }
    data = pa.table(columns)
    few = data.slice(0, 50)

    def merge(dataset: pilum.LanceDataset) -> object:
        builder = dataset.merge_insert("id").when_matched_update_all()
        return builder.when_not_matched_insert_all().execute(few)

    jobs: dict[str, Callable[[pilum.LanceDataset], object]] = {
        "scan": lambda dataset: dataset.to_table(),
        "filtered scan": lambda dataset: dataset.to_table(filter="id > 4000 and text = 'text 5'"),
        "take": lambda dataset: dataset.take([3, 77, 4000]),
        "append": lambda dataset: pilum.write_dataset(few, dataset, mode="append"),
        "merge": merge,
    }
    found = {}
    for name, job in jobs.items():
        for place in "first", "second":
            opened = pilum.write_dataset(data, f"{folder}/{place} {name}.lance")
            opened.to_table()
            found[name] = recorder.of(partial(job, opened))
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(entered_files(folder)))
