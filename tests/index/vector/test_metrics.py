"""The names and numbers of metrics."""

from __future__ import annotations

import numpy as np
import pytest

from pilum.errors import CorruptFileError, InvalidInputError
from pilum.index.vector.metrics import Metric


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("l2", Metric.L2),
        ("L2", Metric.L2),
        ("Euclidean", Metric.L2),
        ("cosine", Metric.COSINE),
        ("DOT", Metric.DOT),
        ("hamming", Metric.HAMMING),
    ],
)
def test_names_are_found_in_any_case(name: str, metric: Metric) -> None:
    assert Metric.named(name) is metric


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match=r"no metric 'l3'.*cosine.*hamming"):
        Metric.named("l3")
    with pytest.raises(CorruptFileError, match="l3"):
        Metric.stored("l3", "index.idx")


def test_numbers_are_those_of_messages() -> None:
    numbers = [metric.number for metric in (Metric.L2, Metric.COSINE, Metric.DOT, Metric.HAMMING)]
    assert numbers == [0, 1, 2, 3]
    assert Metric.numbered(2, "") is Metric.DOT
    with pytest.raises(CorruptFileError, match="metric number 4"):
        Metric.numbered(4, "manifest")


def test_bytes_are_compared_by_hamming_unless_another_metric_is_given() -> None:
    assert Metric.default_of(np.dtype(np.uint8)) is Metric.HAMMING
    assert Metric.default_of(np.dtype(np.float16)) is Metric.L2
