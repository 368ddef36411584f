"""`pilum.spark.doctor`: check a cluster before it is trusted with a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from pyspark.sql import DataFrame, SparkSession

from pilum.distributed.health import Finding, examine
from pilum.errors import InvalidInputError
from pilum.spark.job_reports import reported
from pilum.spark.options import table_uri
from pilum.spark.tasks import SparkTasks

__all__ = ["doctor"]

_SCHEMA = "check string, where string, is_ok boolean, detail string, remedy string"
_NUM_TASKS = 8


@reported("doctor")
def doctor(
    spark: SparkSession,
    uri: str,
    *,
    num_tasks: int = _NUM_TASKS,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Check the driver, the workers, the store and the settings of a session.

    The driver and each task write, read and delete a small file in `_jobs` at the location. The
    checks are: the same pilum, Python and pyarrow everywhere; the same store, with permission to
    write; clocks; free space for temporary files; and settings that are known to do harm.

    Args:
        spark: The session.
        uri: Location of a table, or of one that is to be created.
        num_tasks: Number of tasks; choose more than the cluster has slots, so that all workers are
            checked.
        storage_options: Settings of the store.

    Returns:
        A row per finding: `check`, `where`, `is_ok`, `detail` and `remedy`.

    Raises:
        InvalidInputError: If `num_tasks` is not positive.
        pyspark.errors.PythonException: If a worker cannot run pilum at all.
    """
    if num_tasks < 1:
        raise InvalidInputError(f"num_tasks: expected at least 1, found {num_tasks}")
    findings = examine(SparkTasks(spark), table_uri(uri), num_tasks, storage_options)
    findings += _settings(spark)
    rows = [(one.check, one.where, one.is_ok, one.detail, one.remedy) for one in findings]
    return spark.createDataFrame(rows, _SCHEMA)


def _settings(spark: SparkSession) -> list[Finding]:
    def is_on(key: str) -> bool:
        return str(spark.conf.get(key, "false")).lower() == "true"

    has_pandas = find_spec("pandas") is not None
    speculates = is_on("spark.speculation")
    pushes = is_on("spark.sql.python.filterPushdown.enabled")
    checks = (
        ("pandas", has_pandas, "install pandas: Spark's mapInArrow, by which jobs run, needs it"),
        (
            "spark.speculation",
            not speculates,
            "write with pilum.spark.write: Spark may abort writes of frame.write",
        ),
        (
            "spark.sql.python.filterPushdown.enabled",
            not pushes,
            "turn it off: Spark returns the rows of one query to others of a frame",
        ),
    )
    details = {
        "pandas": "installed" if has_pandas else "not installed",
        "spark.speculation": str(speculates).lower(),
        "spark.sql.python.filterPushdown.enabled": str(pushes).lower(),
    }
    return [
        Finding("settings", "driver", ok, f"{name}: {details[name]}", "" if ok else remedy)
        for name, ok, remedy in checks
    ]
