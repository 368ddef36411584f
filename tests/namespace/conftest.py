"""The folders that namespaces are tested in."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest


@pytest.fixture(params=["local", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Returns an empty folder: a local one, and one of an object store in memory."""
    if request.param == "local":
        return str(tmp_path)
    pytest.importorskip("obstore")
    return f"memory://{uuid4().hex}"
