"""Compaction in separate steps: a plan, tasks that run anywhere, and one commit."""

from pilum.dataset.compaction import (
    Compaction,
    CompactionMetrics,
    CompactionPlan,
    CompactionTask,
    RewriteResult,
)
from pilum.dataset.upkeep import CompactionOptions

__all__ = [
    "Compaction",
    "CompactionMetrics",
    "CompactionOptions",
    "CompactionPlan",
    "CompactionTask",
    "RewriteResult",
]
