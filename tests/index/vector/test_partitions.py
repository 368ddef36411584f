"""The number of partitions of an index."""

import pytest

from pilum.index.vector.partitions import default_partition_size, partition_count


@pytest.mark.parametrize(
    ("quantizer", "has_graph", "size"),
    [
        ("FLAT", False, 4096),
        ("RQ", False, 4096),
        ("PQ", False, 8192),
        ("SQ", False, 8192),
        ("FLAT", True, 2**20),
        ("PQ", True, 2**20),
    ],
)
def test_default_sizes(quantizer: str, has_graph: bool, size: int) -> None:
    assert default_partition_size(quantizer, has_graph=has_graph) == size


@pytest.mark.parametrize(
    ("num_rows", "given", "target_size", "most", "count"),
    [
        (100_000, None, 4096, 10**9, 24),
        (4095, None, 4096, 10**9, 1),
        (10**9, None, 4096, 10**9, 4096),
        (10**9, 9000, 4096, 10**9, 9000),
        (3, 10, 4096, 10**9, 3),
        (4000, 300, 8192, 15, 15),
        (100, 300, 8192, 0, 1),
        (0, 5, 8192, 10**9, 1),
    ],
)
def test_counts(num_rows: int, given: int | None, target_size: int, most: int, count: int) -> None:
    assert partition_count(num_rows, given, target_size, most) == count
