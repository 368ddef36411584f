"""What users see of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pilum
from pilum.errors import DatasetNotFoundError

__all__ = ["seen"]


def seen(path: Path, options: dict[str, str] | None = None) -> Any:
    """Rows, columns, tags and config of the newest version; None if there is no table."""
    try:
        data = pilum.dataset(path, storage_options=options)
    except DatasetNotFoundError:
        return None
    rows = sorted(data.to_table().to_pylist(), key=lambda row: row["id"])
    tags = {name: tag["version"] for name, tag in data.tags.list().items()}
    return rows, data.schema.names, tags, data.config()
