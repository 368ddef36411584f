"""Types of indices with parameters, and what a table records about its indices."""

from pilum.dataset.index_forms import (
    IndexConfig,
    IndexDescription,
    IndexProgress,
    IndexSegmentDescription,
)

__all__ = ["IndexConfig", "IndexDescription", "IndexProgress", "IndexSegmentDescription"]
