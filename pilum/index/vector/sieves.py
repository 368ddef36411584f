"""Sieves of partitions: short codes that show which rows are too far from a query.

the first queries ──▶ all rows of a partition are compared
further queries   ──▶ its sieve is made, and kept in the memo of the partition
"""

from __future__ import annotations

from collections.abc import Sequence

from pilum.index.vector.quantizer import Probe
from pilum.kernels import VectorSieve

__all__ = ["sieves_of"]

_LEAST_ROWS = 256
"""Partitions of fewer rows are compared without a sieve."""

_FEW_QUERIES = 3
"""Partitions that so few queries searched have no sieve, as it costs more than it saves."""

_OF_BATCH = 1 / 8
"""What a query of a batch counts: several queries are compared with all rows faster than each."""

_MADE_AT_ONCE = 2
"""A query waits for so many sieves."""


def sieves_of(
    probes: Sequence[Probe], num_queries: int, column: str, metric: str
) -> list[VectorSieve | None]:
    """Return the sieves of partitions; some are made if they are searched often.

    Args:
        probes: The partitions.
        num_queries: Number of queries that search them.
        column: The column of their vectors.
        metric: How its rows are compared.
    """
    left = _MADE_AT_ONCE * num_queries
    for one in probes:
        memo, own = one.memo, num_queries if one.queries is None else len(one.queries)
        memo.num_queries += own if num_queries == 1 else own * _OF_BATCH
        is_often = not memo.has_sieve and memo.num_queries > _FEW_QUERIES
        if is_often and left and len(one.rows) >= _LEAST_ROWS:
            memo.has_sieve = True
            memo.keep(VectorSieve(one.columns[column], metric))
            left -= 1
    return [one.memo.sieve for one in probes]
