"""Cleanup that every commit takes care of: after how many, of what, and when it fails."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError
from pilum.table.upkeep.auto_cleanup import seconds_of

ROWS = pa.table({"a": [1, 2, 3]})


def numbers(dataset: pilum.LanceDataset) -> list[int]:
    return [version["version"] for version in dataset.versions()]


def test_a_new_table_cleans_up_after_its_writers(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    options: Any = {"interval": 3, "older_than_seconds": 0}
    dataset = pilum.write_dataset(ROWS, uri, auto_cleanup_options=options)
    assert dataset.config() == {
        "lance.auto_cleanup.interval": "3",
        "lance.auto_cleanup.older_than": "0s",
    }
    seen = []
    for _ in range(6):
        dataset.insert(ROWS)
        seen.append(numbers(dataset))
    assert seen == [[1, 2], [2, 3], [2, 3, 4], [2, 3, 4, 5], [5, 6], [5, 6, 7]]
    assert dataset.count_rows() == 21
    again: Any = {"interval": 5, "older_than_seconds": 0}
    pilum.write_dataset(ROWS, uri, mode="append", auto_cleanup_options=again)
    assert pilum.dataset(uri).config()["lance.auto_cleanup.interval"] == "3"


def test_it_is_switched_on_and_off(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(ROWS, str(tmp_path / "table"))
    dataset.update_config({"mine": "1"})
    dataset.optimize.enable_auto_cleanup({"interval": 4, "older_than_seconds": 0})
    dataset.tags.create("two", 2)
    dataset.insert(ROWS)
    assert numbers(dataset) == [2, 3, 4]
    dataset.optimize.disable_auto_cleanup()
    assert dataset.config() == {"mine": "1"}
    for _ in range(4):
        dataset.insert(ROWS)
    assert numbers(dataset) == [2, 3, 4, 5, 6, 7, 8, 9]
    wrong: tuple[Any, ...] = (None, {"interval": 3}, {"interval": "3", "older_than_seconds": 1})
    for options in wrong:
        with pytest.raises(InvalidInputError):
            dataset.optimize.enable_auto_cleanup(options)


def test_the_newest_versions_may_be_counted(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(ROWS, str(tmp_path / "table"))
    prefix = "lance.auto_cleanup."
    dataset.update_config({f"{prefix}interval": "1", f"{prefix}retain_versions": "3"})
    for _ in range(4):
        dataset.insert(ROWS)
    assert numbers(dataset) == [4, 5, 6]


@pytest.mark.parametrize(
    "settings",
    [
        {"interval": "x"},
        {"interval": "1", "older_than": "long"},
        {"interval": "1", "retain_versions": "-1"},
    ],
)
def test_it_never_fails_a_commit(
    tmp_path: Path, settings: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    dataset = pilum.write_dataset(ROWS, str(tmp_path / "table"))
    dataset.update_config({f"lance.auto_cleanup.{key}": text for key, text in settings.items()})
    with caplog.at_level(logging.WARNING):
        dataset.insert(ROWS)
    assert "automatic cleanup" in caplog.text
    assert dataset.count_rows() == 6
    assert numbers(dataset) == [1, 2, 3]


def test_damage_of_old_versions_does_not_fail_a_commit(tmp_path: Path) -> None:
    options: Any = {"interval": 1, "older_than_seconds": 10**6}
    dataset = pilum.write_dataset(ROWS, str(tmp_path / "table"), auto_cleanup_options=options)
    dataset.insert(ROWS)
    (tmp_path / "table" / "_versions" / f"{2**64 - 2}.manifest").write_bytes(b"")
    dataset.insert(ROWS)
    assert dataset.version == 3


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 0), ("14d", 1209600), ("16m 40s", 1000), ("1h30min", 5400), ("2 weeks", 1209600)],
)
def test_spans_of_time(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "14", "d", "1x", "1d and 2h", "-1s"])
def test_what_is_no_span_of_time(text: str) -> None:
    with pytest.raises(InvalidInputError):
        seconds_of(text)


def test_nothing_is_searched_while_no_version_is_old(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A stream may commit thousands of versions before the first is removed."""
    options: Any = {"interval": 2, "older_than_seconds": 3600}
    dataset = pilum.write_dataset(ROWS, str(tmp_path / "table"), auto_cleanup_options=options)
    for _ in range(4):
        dataset.insert(ROWS)
    # A search would read this manifest, and report the damage.
    (tmp_path / "table" / "_versions" / f"{2**64 - 1 - 2}.manifest").write_bytes(b"damaged")
    with caplog.at_level(logging.WARNING):
        dataset.insert(ROWS)
    assert dataset.version == 6
    assert not caplog.text
    dataset.update_config({"lance.auto_cleanup.older_than": "0s"})
    with caplog.at_level(logging.WARNING):
        dataset.insert(ROWS)
    assert "automatic cleanup" in caplog.text
