"""Compaction in separate steps: a plan, tasks that run anywhere, and one commit."""

from pilum.dataset.compacting import Compaction
from pilum.dataset.compaction_options import CompactionOptions
from pilum.dataset.compaction_tasks import (
    CompactionMetrics,
    CompactionPlan,
    CompactionTask,
    RewriteResult,
)

__all__ = [
    "Compaction",
    "CompactionMetrics",
    "CompactionOptions",
    "CompactionPlan",
    "CompactionTask",
    "RewriteResult",
]
