"""Drivers that are killed while they commit what tasks replaced or rewrote."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from pyspark.sql import SparkSession
from spark import deaths
from spark.helpers import files, version

import pilum


@pytest.fixture(autouse=True)
def names_of_the_dead(spark: SparkSession) -> Iterator[None]:
    """Remove the names of jobs that a killed child leaves in its thread of the JVM."""
    yield
    spark.clearTags()
    spark.sparkContext.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["replace", "partition", "optimize"])
def test_a_driver_killed_at_a_moment_of_its_commit_leaves_all_rows_or_none(
    spark: SparkSession, uri: str, name: str
) -> None:
    """Then the same is done again."""
    (one,) = [one for one in deaths.OPERATIONS if one.name == name]
    place = deaths.prepared(uri)[name]
    first, before = version(place), deaths.rows_of(place)
    for moment in ("before", "within"):
        deaths.killed_at(moment, partial(one.run, spark, place))
        assert (version(place), deaths.rows_of(place)) == (first, before)
    deaths.killed_at("after", partial(one.run, spark, place))
    assert (version(place), deaths.rows_of(place)) == (first + 1, sorted(one.after))
    orphans = set(files(place)) - deaths.in_some_version(place)
    assert len(orphans) >= 4  # two tasks of two drivers

    one.run(spark, place)
    assert deaths.rows_of(place) == sorted(one.after)
    assert orphans.issubset(files(place))
    pilum.dataset(place).cleanup_old_versions(delete_unverified=True)
    assert orphans.isdisjoint(files(place))
    assert pilum.dataset(place).verify(deep=True).is_valid
