"""Versions and time travel."""

from __future__ import annotations

import datetime
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.errors import (
    BranchNotFoundError,
    DatasetNotFoundError,
    InvalidInputError,
    TagNotFoundError,
    VersionNotFoundError,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table with the versions 1, 2 and 3, of 1, 2 and 3 rows."""
    for number in range(3):
        pilum.write_dataset({"a": [number]}, tmp_path / "t", mode="append")
    return tmp_path / "t"


def test_each_version_stays_as_it_was(path: Path) -> None:
    for version in (1, 2, 3):
        found = pilum.dataset(path, version)
        assert found.version == version
        assert found.to_table()["a"].to_pylist() == list(range(version))
        assert pilum.dataset(path).checkout_version(version).count_rows() == version


def test_a_dataset_moves_only_when_told(path: Path) -> None:
    pinned = pilum.dataset(path, version=1)
    assert (pinned.version, pinned.latest_version) == (1, 3)
    pilum.write_dataset({"b": ["other"]}, path, mode="overwrite")
    assert pinned.to_table().to_pydict() == {"a": [0]}
    pinned.checkout_latest()
    assert (pinned.version, pinned.to_table().to_pydict()) == (4, {"b": ["other"]})


def test_the_history(path: Path) -> None:
    history = pilum.dataset(path).versions()
    assert [entry["version"] for entry in history] == [1, 2, 3]
    assert [entry["metadata"]["total_rows"] for entry in history] == ["1", "2", "3"]
    stamps = [entry["timestamp"] for entry in history]
    assert stamps == sorted(stamps)
    age = datetime.datetime.now() - stamps[0]
    assert datetime.timedelta(0) <= age < datetime.timedelta(minutes=10)
    assert pilum.dataset(path, 2).get_version() == history[1]


def test_as_of_a_moment(path: Path) -> None:
    second = pilum.dataset(path).versions()[1]["timestamp"]
    zoned = second.astimezone(datetime.UTC)
    for asof in (second, zoned, second.isoformat(), str(second), zoned.isoformat()):
        assert pilum.dataset(path, asof=asof).version == 2, asof
    tomorrow = second.date() + datetime.timedelta(days=1)
    for later in (tomorrow, tomorrow.isoformat()):
        assert pilum.dataset(path, asof=later).version == 3


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_ends_of_the_calendar_are_moments(
    path: Path, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        for last in (datetime.datetime.max, datetime.datetime.max.replace(tzinfo=datetime.UTC)):
            assert pilum.dataset(path, asof=last).version == 3
        for first in (datetime.datetime.min, datetime.date.min, "0001-01-01"):
            with pytest.raises(VersionNotFoundError, match="as old as"):
                pilum.dataset(path, asof=first)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_as_of_a_timestamp_of_pandas(path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    second = pandas.Timestamp(pilum.dataset(path).versions()[1]["timestamp"])
    here = datetime.datetime.now().astimezone().tzinfo
    for asof in (second, second.tz_localize(here)):
        assert pilum.dataset(path, asof=asof).version == 2
    with pytest.raises(InvalidInputError, match="asof"):
        pilum.dataset(path, asof=pandas.NaT)


def test_a_moment_before_the_table(path: Path) -> None:
    with pytest.raises(VersionNotFoundError, match="as old as"):
        pilum.dataset(path, asof="2001-01-01")


@pytest.mark.parametrize(
    ("arguments", "error", "reason"),
    [
        ({"version": 9}, VersionNotFoundError, "no version 9; it has 1 to 3"),
        ({"version": 0}, VersionNotFoundError, "no version 0"),
        ({"version": "tag"}, TagNotFoundError, "no tag 'tag'"),
        ({"version": ("dev", 1)}, BranchNotFoundError, "branch 'dev'"),
        ({"version": 1.5}, InvalidInputError, "expected a number"),
        ({"asof": "tomorrow"}, InvalidInputError, "asof"),
        ({"asof": 5}, InvalidInputError, "asof"),
        ({"version": 1, "asof": "2001-01-01"}, InvalidInputError, "not both"),
    ],
)
def test_what_is_no_version(
    path: Path, arguments: dict[str, Any], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        pilum.dataset(path, **arguments)


def test_what_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("not a table")
    for name in ("missing", "folder", "file"):
        with pytest.raises(DatasetNotFoundError, match=name):
            pilum.dataset(tmp_path / name)
    assert issubclass(DatasetNotFoundError, FileNotFoundError | ValueError)


def test_versions_of_datasets_from_the_reference(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance", reason="the reference is not installed")
    for number in range(2):
        lance.write_dataset(
            pa.table({"a": [number]}), tmp_path / "t", mode="append", data_storage_version="2.1"
        )
    ours, theirs = pilum.dataset(tmp_path / "t"), lance.dataset(tmp_path / "t")
    for mine, other in zip(ours.versions(), theirs.versions(), strict=True):
        # The reference rounds nanoseconds where Python's own clock cuts them off.
        apart = mine["timestamp"] - other["timestamp"]
        assert abs(apart) <= datetime.timedelta(microseconds=1)
        assert {**mine, "timestamp": None} == {**other, "timestamp": None}
    assert ours.to_table().equals(theirs.to_table())


def test_numbers_of_versions_are_told_without_reading_manifests(tmp_path: Path) -> None:
    for value in (1, 2, 3):
        dataset = pilum.write_dataset({"a": [value]}, tmp_path / "t", mode="append")
    assert dataset.version_refs() == [{"version": number} for number in (1, 2, 3)]
    assert dataset.create_branch("dev", 2).version_refs() == [{"version": 2}]
