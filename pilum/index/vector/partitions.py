"""The number of partitions of an index.

given         the number itself; never more than there are rows
otherwise     rows / target size, from 1 to 4,096
PQ            never more than rows / sample rate
"""

from __future__ import annotations

from typing import Final

__all__ = ["MOST_PARTITIONS", "default_partition_size", "partition_count"]

MOST_PARTITIONS: Final = 4096

_OF_GRAPHS: Final = 2**20
_OF_CODES: Final = 8192
_OTHERS: Final = 4096


def default_partition_size(quantizer: str, *, has_graph: bool) -> int:
    """Return the number of rows that a partition should have.

    Args:
        quantizer: "FLAT", "PQ", "SQ" or "RQ".
        has_graph: Whether partitions are searched by a graph.
    """
    if has_graph:
        return _OF_GRAPHS
    return _OF_CODES if quantizer in ("PQ", "SQ") else _OTHERS


def partition_count(num_rows: int, given: int | None, target_size: int, most: int) -> int:
    """Return the number of partitions of new indices.

    Args:
        num_rows: Rows to index.
        given: The number that the caller requested; None for the default.
        target_size: Rows that a partition should have.
        most: The largest number that can be trained.
    """
    wanted = min(num_rows // target_size, MOST_PARTITIONS) if given is None else given
    return max(1, min(wanted, num_rows, most))
