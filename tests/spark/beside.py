"""Streams that stop at a chosen step, with a process beside them that writes at every step.

    pytest (or its child)   Writer: appends one row when it is asked          <folder>/ask, done
    Spark's Python workers  Stopping: before and after each step of a batch asks for a row, and
                            stops where <folder>/stop says

Nothing depends on time: a step goes on when the row is in the table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import InputPartition, WriterCommitMessage
from pyspark.sql.types import StructType

import pilum
from pilum.spark.sink import PilumStreamWriter
from pilum.spark.source import PilumDataSource
from pilum.spark.stream_source import PilumStreamReader


class Writer:
    """Appends a row each time that a step asks for it; the ids count from 0.

    Attributes:
        steps: The step of each row, by id.
    """

    def __init__(self, uri: str, folder: Path) -> None:
        self.steps: list[str] = []
        self._uri = uri
        self._folder = folder
        self._end = Event()
        self._thread = Thread(target=self._run)
        for name in ("ask", "done"):
            (folder / name).mkdir(parents=True)

    def append(self, step: str) -> None:
        """One more row."""
        rows = pa.table({"id": pa.array([len(self.steps)], pa.int64())})
        pilum.write_dataset(rows, self._uri, mode="append")
        self.steps.append(step)

    def stop_at(self, step: str | None) -> None:
        """Lets a stream stop when it comes to a step, or pass all of them."""
        (self._folder / "stop").write_text(step or "")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(0.005):
            for ask in sorted((self._folder / "ask").iterdir()):
                self.append(ask.read_text())
                ask.unlink()
                (self._folder / "done" / ask.name).touch()


def step(folder: str, name: str, stop: Callable[[], Any]) -> None:
    """What happens around each step, in a worker of Spark."""
    token, part = uuid4().hex, Path(folder) / uuid4().hex
    part.write_text(name)
    part.rename(Path(folder) / "ask" / token)
    done, deadline = Path(folder) / "done" / token, time.monotonic() + 120
    while not done.exists():
        assert time.monotonic() < deadline, "the writer is gone"
        time.sleep(0.005)
    if (Path(folder) / "stop").read_text() == name:
        stop()


def stopping_source(
    folder: str, stop: Callable[[], Any], name: str = "stopping"
) -> type[PilumDataSource]:
    """The source of a name; its classes travel to Spark's workers by value."""
    source_name = name

    class Stopping(PilumStreamReader):
        def initialOffset(self) -> dict[str, Any]:  # noqa: N802
            step(folder, "before initialOffset", stop)
            found = super().initialOffset()
            step(folder, "after initialOffset", stop)
            return found

        def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
            step(folder, "before latestOffset", stop)
            found = super().latestOffset(start, limit)
            step(folder, "after latestOffset", stop)
            return found

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
            step(folder, "before partitions", stop)
            found = super().partitions(start, end)
            step(folder, "after partitions", stop)
            return found

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            step(folder, "before read", stop)
            yield from super().read(partition)
            step(folder, "after read", stop)

    class StoppingWriter(PilumStreamWriter):
        def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
            step(folder, "before commit", stop)
            super().commit(messages, batchId)
            step(folder, "after commit", stop)

    class StoppingSource(PilumDataSource):
        @classmethod
        def name(cls) -> str:
            return source_name

        def streamReader(self, schema: StructType) -> PilumStreamReader:  # noqa: N802
            reader = super().streamReader(schema)
            reader.__class__ = Stopping
            return reader

        def streamWriter(self, schema: StructType, overwrite: bool) -> PilumStreamWriter:  # noqa: N802
            writer = super().streamWriter(schema, overwrite)
            writer.__class__ = StoppingWriter
            return writer

    return StoppingSource
