"""Compaction in steps: a plan, tasks that run anywhere, one commit."""

from pilum.dataset.compacting import (
    Compaction,
    CompactionMetrics,
    CompactionPlan,
    CompactionTask,
    RewriteResult,
)
from pilum.dataset.compaction_options import CompactionOptions

__all__ = [
    "Compaction",
    "CompactionMetrics",
    "CompactionOptions",
    "CompactionPlan",
    "CompactionTask",
    "RewriteResult",
]
