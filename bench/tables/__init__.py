"""How long do operations on tables take, and how do they grow with versions and fragments?

    python -m bench.tables [--large] [--only PART]

It is also a part of a run of the whole bench. All libraries get copies of the same table, whose
result is checked the first time. pilum is measured twice: as it comes, waiting for the device
before a commit is visible (fsync), and without, as pylance always works.
"""

from __future__ import annotations

from bench.tables.base import Case, Sizes
from bench.tables.changes import CHANGES
from bench.tables.opening import OPENINGS
from bench.tables.run import Operation, measure, rows_of, table_of

__all__ = ["CASES", "HEAD", "Case", "Operation", "Sizes", "measure", "rows_of", "table_of"]

CASES: tuple[Case, ...] = (*OPENINGS, *CHANGES)
HEAD = ("operation", "pilum", "without fsync", "pylance", "÷", "÷ without fsync")
