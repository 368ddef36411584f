"""Tables for files: several pages, layouts and nested columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

ROWS = 30_000


def example(rows: int = ROWS) -> pa.Table:
    """Numbers, words, wide values, lists and a struct."""
    rng = np.random.default_rng(7)
    vectors = pa.array(rng.random(rows * 64, dtype=np.float32))
    return pa.table(
        {
            "number": rng.integers(0, 1 << 40, rows),
            "word": [f"word {i % 100}" if i % 7 else None for i in range(rows)],
            "vector": pa.FixedSizeListArray.from_arrays(vectors, 64),
            "text": [f"{i} " * 40 for i in range(rows)],
            "list": [[i, i + 1] if i % 3 else None for i in range(rows)],
            "pair": [{"x": i, "y": str(i)} for i in range(rows)],
        }
    )


TABLE = example()


def same(found: pa.Table, expected: pa.Table) -> bool:
    return bool(found.combine_chunks().equals(expected.combine_chunks()))
