"""Events of tables reach functions and files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import pilum
from pilum import tracing
from pilum.errors import InvalidInputError


@pytest.fixture(autouse=True)
def _stopped() -> Iterator[None]:
    yield
    tracing.shutdown_tracing()


def test_commits_and_openings_are_reported(tmp_path: Path) -> None:
    events: list[tracing.TraceEvent] = []
    tracing.capture_trace_events(events.append)
    path = str(tmp_path / "t")
    pilum.write_dataset({"a": [1]}, path)
    pilum.dataset(path).delete("a = 1")
    seen = [(event.args["event"], event.args["uri"], event.args.get("version")) for event in events]
    assert seen == [("committed", path, "1"), ("loading", path, "1"), ("committed", path, "2")]
    assert {event.target for event in events} == {"lance::dataset_events"}
    assert [event.args["operation"] for event in events if "operation" in event.args] == [
        "Overwrite",
        "Delete",
    ]
    tracing.shutdown_tracing()
    pilum.dataset(path)
    assert len(events) == 3


def test_a_file_for_chrome(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    tracing.trace_to_chrome(file=str(file))
    pilum.write_dataset({"a": [1]}, tmp_path / "t")
    tracing.shutdown_tracing()
    (event,) = json.loads(file.read_text())
    assert event["name"] == "committed"
    assert event["cat"] == "lance::dataset_events"


def test_a_file_without_events(tmp_path: Path) -> None:
    tracing.trace_to_chrome(file=str(tmp_path / "trace.json"))
    tracing.shutdown_tracing()
    assert json.loads((tmp_path / "trace.json").read_text()) == []


def test_an_error_of_a_function_does_not_undo_a_commit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(event: tracing.TraceEvent) -> None:
        raise InvalidInputError(event.target)

    tracing.capture_trace_events(fails)
    made = pilum.write_dataset({"a": [1]}, tmp_path / "t")
    made.insert({"a": [2]})
    assert pilum.dataset(tmp_path / "t").to_table()["a"].to_pylist() == [1, 2]
    assert "lance::dataset_events: a function that captures events failed" in caplog.text
