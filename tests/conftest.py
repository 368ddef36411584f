"""For all tests: which examples they draw, and which of them may be skipped."""

from __future__ import annotations

import gc
import os
import random
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from explore.setting import EXPLORES, ROUND, UNTIL, seeds
from hypothesis import HealthCheck, settings
from servers.moto import moto_server
from servers.processes import Server

# Many tests start interpreters that import pilum: one compiles it, all others find its bytecode.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

ALLOWED_SKIPS = Path(__file__).with_name("skips-allowed.txt")

# Examples are the same for everyone, and none depends on how fast the machine is. Tests that share
# a folder among their examples are no mistake here: each example makes a table of its own.
settings.register_profile(
    "same",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    derandomize=True,
    database=None,
    print_blob=True,
)
settings.register_profile("explore", settings.get_profile("same"), derandomize=False)
settings.load_profile("explore" if EXPLORES else "same")


@pytest.fixture(scope="session")
def aws() -> Iterator[Server]:
    """One server of S3 and DynamoDB for all tests; each takes a bucket or table of its own."""
    with moto_server() as server:
        yield server


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives `seed` to tests that are marked with `seeds(count)`."""
    if mark := metafunc.definition.get_closest_marker("seeds"):
        (count,) = mark.args
        metafunc.parametrize("seed", seeds(count), ids=map(str, range(count)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keeps what lives until the end, all modules and tests, out of the collector's passes."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begins with what takes long, or each round of `make explore` with other files.

    A process that is left with a slow file ends late; a short round may not reach all files.
    """
    if hasattr(config, "workerinput") and not EXPLORES:
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(
            key=lambda item: (item.get_closest_marker("spark") is None, item.path not in slow)
        )
    if EXPLORES:
        of_file: dict[Path, list[pytest.Item]] = {}
        for item in items:
            of_file.setdefault(item.path, []).append(item)
        files = list(of_file)
        random.Random(ROUND).shuffle(files)
        items[:] = [item for file in files for item in of_file[file]]


def pytest_runtest_setup() -> None:
    """Skips what is left of a round when the time is up."""
    if time.time() > UNTIL:
        pytest.skip("the time is up")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails in CI, which has all that tests need, if a test was skipped that may not be."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not os.environ.get("CI"):
        return
    forbidden = set(_reasons(reporter.stats.get("skipped", ()))) - _allowed_skips()
    reporter.ensure_newline()
    for reason in sorted(forbidden):
        reporter.write_line(f"skipped, but not in {ALLOWED_SKIPS.name}: {reason}", red=True)
    if forbidden and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _allowed_skips() -> set[str]:
    lines = ALLOWED_SKIPS.read_text().splitlines()
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says in one line how many tests were skipped, and why."""
    reasons = Counter(_reasons(terminalreporter.stats.get("skipped", ())))
    told = "; ".join(f"{count} × {reason}" for reason, count in reasons.most_common())
    terminalreporter.write_line(f"skipped: {told or 'nothing'}")


def _reasons(reports: Iterable[pytest.TestReport]) -> Iterable[str]:
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        yield reason.removeprefix("Skipped: ")
