"""For all tests: how hypothesis works here, and a last word on what was skipped."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from servers.moto import moto_server
from servers.processes import Server

# A shared machine may be slow at any moment: examples have no deadline.
settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(scope="session")
def aws() -> Iterator[Server]:
    """One server of S3 and DynamoDB for all tests; each takes a bucket or table of its own."""
    with moto_server() as server:
        yield server


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says in one line how many tests were skipped, and why."""
    reasons = Counter(_reasons(terminalreporter.stats.get("skipped", ())))
    told = "; ".join(f"{count} × {reason}" for reason, count in reasons.most_common())
    terminalreporter.write_line(f"skipped: {told or 'nothing'}")


def _reasons(reports: Iterable[pytest.TestReport]) -> Iterable[str]:
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        yield reason.removeprefix("Skipped: ")
