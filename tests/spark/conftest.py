"""One real Spark session for all tests of this folder."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import jvm
import pytest
from pyspark.sql import SparkSession
from spark.helpers import PUSHDOWN, RELEASE, ROOT

# PySpark 4.0 has no filters, no times, and no streams of Arrow data.
collect_ignore = (
    [
        "test_filters.py",
        "test_types.py",
        *(path.name for path in Path(__file__).parent.glob("test_stream_*")),
    ]
    if RELEASE < (4, 1)
    else []
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs Java. One session serves all tests of a process."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, UTC, and one more try for a task that fails."""
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        pytest.skip("Spark needs Java")
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.defaultJavaOptions": jvm.OPTIONS,
        "spark.driver.memory": "1g",
        "spark.log.level": "OFF",
        "spark.python.daemon.module": "spark.preloaded",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.appName("pilum-tests").master("local[2,2]").config(map=settings)
    with pytest.MonkeyPatch.context() as environment:
        # Of Spark's many short-lived interpreters.
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        environment.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, sys.path)]))
        session = builder.getOrCreate()
        yield session
        session.stop()


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Where a table may be made."""
    return str(tmp_path / "table")


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    """Filters are pushed, for one test."""
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.set(PUSHDOWN, "false")
