"""The order of codewords of product quantization."""

from __future__ import annotations

import numpy as np
import pytest

from pilum.index.vector.codeword_order import ordered

RANDOM = np.random.default_rng(5)


@pytest.mark.parametrize("width", [1, 2, 8])
def test_codewords_with_the_same_lower_half_are_near(width: int) -> None:
    words = RANDOM.normal(size=(3, 256, width)).astype(np.float32)
    found = ordered(words)
    for before, after in zip(words, found, strict=True):
        assert np.array_equal(np.unique(before, axis=0), np.unique(after, axis=0))

    def spread(all: np.ndarray) -> float:
        return float(all.reshape(3, 16, 16, width).var(axis=1).sum())

    assert spread(found) < spread(words) * (0.1 if width == 1 else 0.8)


def test_groups_of_a_line_are_its_sixteenths() -> None:
    words = RANDOM.permutation(256).astype(np.float32).reshape(1, 256, 1)
    groups = ordered(words).reshape(16, 16)
    assert sorted(sorted(group // 16) for group in groups.T) == [
        [place] * 16 for place in range(16)
    ]


def test_equal_codewords_and_few_are_kept() -> None:
    same = np.ones((2, 256, 3), np.float32)
    assert np.array_equal(ordered(same), same)
    few = RANDOM.normal(size=(2, 16, 3)).astype(np.float32)
    assert np.array_equal(ordered(few), few)
