"""Values of tables in the types of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from pilum.arrays import python_values

__all__ = ["json_lines", "plain", "rows_of"]


def json_lines(batch: pa.RecordBatch) -> bytes:
    """Return the rows of a batch as one JSON object per line, in UTF-8."""
    rows = (json.dumps(plain(row), ensure_ascii=False) for row in rows_of(batch))
    return "".join(f"{row}\n" for row in rows).encode()


def rows_of(data: pa.RecordBatch | pa.Table) -> Iterator[dict[str, Any]]:
    """Yield rows as dicts; moments that Python has no object for are texts."""
    names = data.schema.names
    if not names:
        yield from ({} for _ in range(data.num_rows))
        return
    for row in zip(*map(python_values, data.columns), strict=True):
        yield dict(zip(names, row, strict=True))


def plain(value: Any) -> Any:
    """Return a value in the types of JSON; bytes as hexadecimal digits, NaN as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset | range | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return str(value)
    return value if value is None or isinstance(value, str | int) else str(value)
