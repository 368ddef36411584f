"""The checks of a cluster, with machines that differ from the driver's."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pilum.distributed import health
from pilum.distributed.health import Finding, examine
from pilum.distributed.jobs import Attempt

T = TypeVar("T")
R = TypeVar("R")


@dataclass
class Elsewhere:
    """An engine whose tasks find other facts about their machines."""

    other: Callable[[Any], Any] = lambda one: one
    before: Callable[[], Any] = lambda: None

    def run(self, items: Sequence[T], work: Callable[[T, Attempt], R]) -> list[R]:
        self.before()
        return [self.other(work(item, Attempt(n))) for n, item in enumerate(items)]


def failed(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(one.check, one.where) for one in findings if not one.is_ok]


def test_a_healthy_cluster_has_nothing_to_do_and_keeps_nothing(uri: str) -> None:
    findings = examine(Elsewhere(lambda one: replace(one, host="w1")), uri, 3)
    assert failed(findings) == []
    assert {one.check for one in findings} == {"versions", "store", "clock", "disk"}
    assert {one.remedy for one in findings} == {""}
    assert [path for path in Path(uri).rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("change", "check", "detail"),
    [
        ({"versions": (("pilum", "0.0.1"),)}, "versions", "pilum 0.0.1, not "),
        ({"seconds": 0.0}, "clock", "s from the driver's"),
        ({"free_bytes": 1 << 20}, "disk", "0.0 GiB free"),
        ({"store_error": "cannot read"}, "store", "cannot read"),
    ],
)
def test_what_differs_is_found_with_a_remedy(
    uri: str, change: dict[str, Any], check: str, detail: str
) -> None:
    findings = examine(Elsewhere(lambda one: replace(one, host="w1", **change)), uri, 2)
    (bad,) = [one for one in findings if not one.is_ok]
    assert (bad.check, bad.where) == (check, "w1")
    assert detail in bad.detail
    assert bad.remedy


def test_a_location_that_is_not_shared_is_found(uri: str, tmp_path: Path) -> None:
    """As on workers that have a folder of the same name: they do not see the driver's note."""
    aside = tmp_path / "aside"
    findings = examine(Elsewhere(before=lambda: os.rename(uri, aside)), uri, 2)
    (bad,) = [one for one in findings if not one.is_ok]
    assert "does not see what the driver wrote" in bad.detail
    assert "share" in bad.remedy


def test_a_store_that_the_driver_cannot_use_needs_no_tasks(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    findings = examine(Elsewhere(before=pytest.fail), str(tmp_path / "file"), 2)
    assert failed(findings) == [("store", "driver")]


def test_the_digest_is_that_of_the_files() -> None:
    facts = dict(health.this_machine().versions)
    assert len(facts["pilum's files"]) == 12
    assert facts == dict(health.this_machine().versions)
