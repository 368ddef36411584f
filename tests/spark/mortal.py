"""Streams whose driver is killed when each has come to a moment of its first batch; a script.

    python mortal.py FOLDER

One stream for each moment of a commit takes the files of FOLDER/incoming into FOLDER/MOMENT:

    before      all tasks are done, nothing else is
    within      the version is written, but has no name
    behind      it is published, and Spark does not know

One stream for each step of `beside` follows a table FOLDER/STEP into FOLDER/STEP-copy.

Each waits at its moment in the process of Spark that came there, until all streams wait. Then
these processes kill the JVM, which is the driver, and themselves; the process that started the JVM
is left alone, and ends.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from guard import GUARD_SECONDS
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType
from spark.beside import stopping_source
from spark.elsewhere import SETTINGS
from spark.helpers import with_patience

from pilum.spark.options import Options
from pilum.spark.sink import PilumStreamWriter
from pilum.spark.source import PilumDataSource
from pilum.storage import durable

MOMENTS = ("before", "within", "behind")
STEPS = ("before-partitions", "after-commit")


def mortal_source(moment: str, stop: Callable[..., Any]) -> type[PilumDataSource]:
    """The source of the moment's name, whose streams stop there in their first commit."""

    class Mortal(PilumStreamWriter):
        def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
            if moment == "before":
                stop()
            if moment == "within":
                vars(durable)["os"] = Deadly(stop)
            super().commit(messages, batchId)
            stop()

    class MortalSource(PilumDataSource):
        @classmethod
        def name(cls) -> str:
            return moment

        def streamWriter(self, schema: StructType, overwrite: bool) -> PilumStreamWriter:  # noqa: N802
            return Mortal(schema, Options.parse(dict(self.options)), overwrite)

    return MortalSource


class Deadly:
    """The module `os` as the local store sees it: publishing an object stops the process."""

    def __init__(self, stop: Callable[..., Any]) -> None:
        self._stop = stop

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def link(self, old: str, new: str) -> None:
        """Stop instead of giving a file its name."""
        self._stop()


def die_with_all(folder: str, name: str) -> NoReturn:
    """Wait until all streams are where they die, then kill the driver and this process."""
    waiting, deadline = Path(folder, "waiting"), time.monotonic() + GUARD_SECONDS
    (waiting / name).touch()
    while len(list(waiting.iterdir())) < len(MOMENTS + STEPS) and time.monotonic() < deadline:
        time.sleep(0.01)
    with suppress(ProcessLookupError):  # another stream killed it
        os.kill(int(Path(folder, "jvm").read_text()), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("alive")


def run(frame: DataFrame, source: str, uri: str) -> None:
    """Run a stream until it ends, in a thread of its own."""
    frame.sparkSession.createDataFrame([], "id bigint")  # makes the session that of the thread
    writer = frame.writeStream.format(source).option("checkpointLocation", f"{uri}-checkpoint")
    writer = writer.trigger(availableNow=True)
    with_patience(lambda: writer.start(uri).awaitTermination())


def main(folder: str) -> None:
    """Runs the streams, and says that all of them died."""
    spark = SparkSession.builder.master("local[2]").config(map=SETTINGS).getOrCreate()
    assert spark._jvm is not None
    Path(folder, "jvm").write_text(str(spark._jvm.java.lang.ProcessHandle.current().pid()))
    Path(folder, "waiting").mkdir()
    rows = spark.readStream.schema("id bigint").json(f"{folder}/incoming")
    with ThreadPoolExecutor(len(MOMENTS + STEPS)) as threads:
        streams = []
        for moment in MOMENTS:
            spark.dataSource.register(mortal_source(moment, partial(die_with_all, folder, moment)))
            streams.append(threads.submit(run, rows, moment, f"{folder}/{moment}"))
        for step in STEPS:
            uri, stop = f"{folder}/{step}", partial(die_with_all, folder, step)
            spark.dataSource.register(stopping_source(f"{uri}-beside", stop, name=step))
            followed = spark.readStream.format(step).load(uri)
            streams.append(threads.submit(run, followed, step, f"{uri}-copy"))
        errors = [stream.exception() for stream in streams]
    are_all_there = len(list(Path(folder, "waiting").iterdir())) == len(streams)
    print("died" if all(errors) and are_all_there else errors, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
