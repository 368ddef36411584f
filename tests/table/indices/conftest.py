"""The index types of these tests are registered while each of them runs."""

from __future__ import annotations

import pytest
from table.indices.value_index import TYPES

from pilum.index import registry


@pytest.fixture(autouse=True)
def value_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the types."""
    monkeypatch.setattr(registry, "_TYPES", (*registry._TYPES, *TYPES))
