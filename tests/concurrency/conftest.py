"""One process that runs what is killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from concurrency.killing import Killer, killer


@pytest.fixture(scope="module")
def victim() -> Iterator[Killer]:
    """Runs operations in processes that die."""
    with killer() as running:
        yield running
