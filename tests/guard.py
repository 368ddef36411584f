"""How long tests wait for what must happen."""

from __future__ import annotations

__all__ = ["GUARD_SECONDS"]

GUARD_SECONDS = 900
"""Longer than anything takes on the slowest machine: only what hangs is ended by it."""
