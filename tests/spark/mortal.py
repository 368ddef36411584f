"""A stream whose driver is killed at a moment of its first commit: run as a script.

    python mortal.py before TABLE INCOMING CHECKPOINT   all tasks are done, nothing else is
    python mortal.py within TABLE INCOMING CHECKPOINT   the version is written, but has no name
    python mortal.py behind TABLE INCOMING CHECKPOINT   it is published, and Spark does not know

The commit of a stream happens in a process of its own. It kills the JVM, which is the driver, and
then itself; the process that started the JVM is left alone, and ends.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

from pyspark.sql import SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType
from spark.deadly_workers import grandparent
from spark.elsewhere import SETTINGS
from spark.helpers import with_patience

from pilum.spark.options import Options
from pilum.spark.sink import PilumStreamWriter
from pilum.spark.source import PilumDataSource
from pilum.storage import durable

MOMENT = "PILUM_TEST_MOMENT"  # in the environment, which reaches all processes of Spark


class Mortal(PilumStreamWriter):
    """Does not survive its first commit."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commits, up to the moment."""
        moment = os.environ[MOMENT]
        if moment == "before":
            die()
        if moment == "within":
            vars(durable)["os"] = Deadly()
        super().commit(messages, batchId)
        die()


class MortalSource(PilumDataSource):
    """Makes such writers."""

    @classmethod
    def name(cls) -> str:
        """Of the format."""
        return "mortal"

    def streamWriter(self, schema: StructType, overwrite: bool) -> PilumStreamWriter:  # noqa: N802
        """A writer for one micro-batch."""
        return Mortal(schema, Options.parse(dict(self.options)), overwrite)


class Deadly:
    """The module `os` as the local store sees it: whoever publishes an object dies."""

    def __getattr__(self, name: str) -> Any:
        return die if name == "link" else getattr(os, name)


def die(*_: object) -> NoReturn:
    """Kills the driver, and this process, its child."""
    os.kill(grandparent(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("alive")


def main(uri: str, incoming: str, checkpoint: str) -> None:
    """Runs the stream, and says that it died."""
    spark = SparkSession.builder.master("local[1]").config(map=SETTINGS).getOrCreate()
    spark.dataSource.register(MortalSource)
    rows = spark.readStream.schema("id bigint").json(incoming)
    writer = rows.writeStream.format("mortal").option("checkpointLocation", checkpoint)
    try:
        writer = writer.trigger(availableNow=True)
        with_patience(lambda: writer.start(uri).awaitTermination())
    except Exception:
        print("died", flush=True)
        os._exit(0)


if __name__ == "__main__":
    os.environ[MOMENT] = sys.argv[1]
    main(*sys.argv[2:])
