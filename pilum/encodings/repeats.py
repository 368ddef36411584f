"""Estimate from a sample whether values repeat enough for a dictionary.

    column    | . . [a b c] . . . . [b d e] . . . . [f b g] . . . |    stretches, at equal distances

Most columns have no dictionary. A few values that are all different rule one out without counting.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum import kernels
from pilum.blocks import FixedBlock, StringBlock

__all__ = ["repeats", "repeats_each", "validity_bits"]

_DICTIONARY_SAMPLE = 4_096
_STRETCHES = 32

_MOSTLY_DISTINCT = 0.98
"""With this share of distinct values in a sample, their number cannot be estimated."""

_LARGE_SAMPLE = 16_384
_ALIKE = 1.25
"""Ratio of two estimates of one number that chance explains."""
_SMALL_SAMPLE = 512
_SURELY_REPEATED = 16_384
"""Size of the small sample. With no more distinct values than that, it has eight repeats on
average, and none in one of three thousand samples."""


def repeats(leaf: pa.Array, block: FixedBlock | StringBlock, most: int) -> bool:
    """Return whether a sample suggests at most `most` distinct values."""
    count = len(leaf)
    if count >= _SMALL_SAMPLE and most < _SURELY_REPEATED:
        small = _sample_of(leaf, block, _SMALL_SAMPLE)
        if small.distinct == small.drawn:
            return False
    if count <= _DICTIONARY_SAMPLE:
        return True
    sample = _sample_of(leaf, block, _DICTIONARY_SAMPLE)
    share = sample.distinct / _DICTIONARY_SAMPLE
    if share >= _MOSTLY_DISTINCT:
        return False
    if share * count <= most:
        return True
    estimate = _drawn_from(sample)
    if estimate > most or count < 2 * _LARGE_SAMPLE:
        return estimate <= most
    # Where few values are frequent and many are rare, a larger sample finds more of these.
    return _drawn_from(_sample_of(leaf, block, _LARGE_SAMPLE)) <= _ALIKE * estimate


def repeats_each(
    data: NDArray[np.uint8], validity: NDArray[np.uint8] | None, count: int, most: int
) -> NDArray[np.bool_]:
    """Return which of some columns of 64-bit numbers may have at most `most` distinct values.

    The columns have `count` values each and lie one after the other, as do the bits of their
    validity. The columns that are ruled out are among those that `repeats` or counting rules out.
    """
    bits = None if validity is None else (validity, 0)
    if count >= _SMALL_SAMPLE and most < _SURELY_REPEATED:
        size = _SMALL_SAMPLE // _STRETCHES
        drawn, distinct = kernels.sample_words_each(data, 8, bits, count, _STRETCHES, size)
        return distinct < drawn
    _, distinct = kernels.sample_words_each(data, 8, bits, count, 1, count)
    return distinct <= most + (bits is not None)  # nulls count as zeros


class _Sample(NamedTuple):
    """Stretches from all over the values, without nulls.

    Attributes:
        drawn: The number of values.
        per_stretch: The sum of the numbers of distinct values of each stretch.
        distinct: The number of distinct values of all.
    """

    drawn: int
    per_stretch: int
    distinct: int


def _sample_of(leaf: pa.Array, block: FixedBlock | StringBlock, count: int) -> _Sample:
    size, validity = count // _STRETCHES, validity_bits(leaf)
    if isinstance(block, StringBlock):
        sampled = kernels.sample_strings(block.offsets, block.data, validity, _STRETCHES, size)
    else:
        sampled = kernels.sample_words(block.data, block.bits // 8, validity, _STRETCHES, size)
    return _Sample(*sampled)


def _drawn_from(sample: _Sample) -> float:
    """Estimate how many values there are, if so many were drawn of them and so many differed.

    Each of `n` values is among `drawn` ones with a probability of about `1 - exp(-drawn / n)`.
    Values that never occur again, in another stretch, are not drawn from a limited number.
    """
    drawn, distinct = sample.per_stretch, sample.distinct
    if distinct >= drawn:
        return np.inf
    low, high = float(distinct), float(drawn) ** 2
    while high > 1.001 * low:
        middle = (low * high) ** 0.5
        enough = middle * -np.expm1(-drawn / middle) >= distinct
        low, high = (low, middle) if enough else (middle, high)
    return high


def validity_bits(leaf: pa.Array) -> tuple[NDArray[np.uint8], int] | None:
    """Return the bitmap of valid slots and its first bit; None if there are no nulls."""
    if leaf.null_count == 0:
        return None
    return np.frombuffer(leaf.buffers()[0], np.uint8), leaf.offset
