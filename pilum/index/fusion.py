"""Reciprocal-rank fusion: one ranking out of several, such as those of a text and of a vector.

score of a row = sum of 1 / (constant + its rank) over the rankings that have it; ranks from 1
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pilum.arguments import optional_count, require_count
from pilum.errors import InvalidInputError

__all__ = ["reciprocal_rank_fusion"]

_SCORE = "_relevance_score"


def reciprocal_rank_fusion(
    results: Sequence[pa.Table],
    *,
    limit: int | None = None,
    constant: int = 60,
    key: str = "_rowid",
) -> pa.Table:
    """Combine the results of several searches of one version into one ranking.

    Args:
        results: Rows of each search, best first, with the column `key`.
        limit: Maximum number of rows; None for all.
        constant: Number that is added to ranks; the greater it is, the less the first ranks count.
        key: The column that identifies a row.

    Returns:
        Each row once, best first; of equal scores the one that comes first in the results. The
        columns are those that all results have, and `_relevance_score`, float32.

    Raises:
        InvalidInputError: If there are no results, or one has no column `key`.
    """
    require_count("constant", constant)
    optional_count("limit", limit)
    tables = list(results)
    if not tables:
        raise InvalidInputError("results: expected at least one table")
    for table in tables:
        if key not in table.column_names:
            raise InvalidInputError(
                f"results: a table has no column {key!r}; its columns are {table.column_names}"
            )
    others = [set(table.column_names) for table in tables]
    names = [name for name in tables[0].column_names if set.intersection(*others) >= {name}]
    rows = pa.concat_tables([table.select(names) for table in tables]).combine_chunks()
    ranks = np.concatenate([np.arange(1, len(table) + 1) for table in tables])
    encoded = rows.column(key).combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    scores = np.bincount(codes, 1 / (constant + ranks), len(encoded.dictionary))
    _, first = np.unique(codes, return_index=True)
    order = np.lexsort((first, -scores))[:limit]
    best = rows.take(pa.array(first[order]))
    if _SCORE in best.column_names:
        best = best.drop_columns([_SCORE])
    return best.append_column(_SCORE, pa.array(scores[order], pa.float32()))
