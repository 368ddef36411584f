"""A stream from a table into another whose driver is killed at a step: run as a script.

    python mortal_reader.py TABLE FOLDER COPY CHECKPOINT

The steps are those of `beside`, and FOLDER is what its writer knows. Whoever comes to the step
kills the JVM, which is the driver, and itself; the process that started the JVM ends then.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import NoReturn

from pyspark.sql import SparkSession
from spark.beside import stopping_source
from spark.elsewhere import SETTINGS
from spark.helpers import with_patience


def die(folder: str) -> NoReturn:
    """Kills the driver, and this process."""
    os.kill(int((Path(folder) / "jvm").read_text()), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("alive")


def main(uri: str, folder: str, copy: str, checkpoint: str) -> None:
    """Runs the stream, and says that it died."""
    spark = SparkSession.builder.master("local[1]").config(map=SETTINGS).getOrCreate()
    assert spark._jvm is not None
    (Path(folder) / "jvm").write_text(str(spark._jvm.java.lang.ProcessHandle.current().pid()))
    spark.dataSource.register(stopping_source(folder, partial(die, folder)))
    writer = spark.readStream.format("stopping").load(uri).writeStream.format("stopping")
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    try:
        with_patience(lambda: writer.start(copy).awaitTermination())
    except Exception:
        print("died", flush=True)
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
