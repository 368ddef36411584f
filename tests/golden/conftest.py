"""`pytest tests/golden --update-golden` writes missing files with the reference implementation."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option; it is known only where this folder is named on the command line."""
    parser.addoption("--update-golden", action="store_true", help="write missing golden files")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files that are missing are to be written."""
    return bool(request.config.getoption("--update-golden", default=False))
