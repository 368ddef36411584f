"""Where the programs are that `make servers` installs, for all checkouts."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["CACHE"]

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pilum-tests"
