"""Permutations that are computed instead of stored, the same on every machine and release.

    up to 1 Mi places   one table: the places in the order of their hashes
    more                a Feistel network over the bits of a place, in constant memory; a result
                        beyond the last place is permuted again, until it is a place

    place   high bits | low bits      one round changes one half by a hash of the other half,
            high ^= hash(low)         so that it can be undone: no two places have one result
            low  ^= hash(high)

Nothing depends on the generators of NumPy, whose results may change between releases: training that
stopped in the middle of an epoch continues with the same order after an upgrade.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pilum.arguments import require_count

__all__ = ["Permutation", "key_of"]

_TABLE_PLACES = 1 << 20
_ROUNDS = 8
_CACHED_TABLES = 4
_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""The constants of the generator "splitmix64"."""


def key_of(*numbers: int) -> int:
    """Return a key of 64 bits that depends on all numbers and their order."""
    key = 0
    for number in numbers:
        key = _mixed(key + _STEP + _mixed(number & _MASK))
    return key


class Permutation:
    """A permutation of the places 0 to `size` - 1, given by a key."""

    def __init__(self, size: int, key: int) -> None:
        self.size = require_count("size", size)
        self._key = key & _MASK
        bits = max(2, (self.size - 1).bit_length())
        self._low_bits = np.uint64(bits // 2)
        self._low = np.uint64((1 << bits // 2) - 1)
        self._high = np.uint64((1 << bits - bits // 2) - 1)

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where the permutation moves some places; int64, of the same shape."""
        if self.size <= _TABLE_PLACES:
            return _table(self.size, self._key)[places]
        found = self._network(places.astype(np.uint64))
        beyond = np.flatnonzero(found >= self.size)
        while len(beyond):
            found[beyond] = self._network(found[beyond])
            beyond = beyond[found[beyond] >= self.size]
        return found.astype(np.int64)

    def _network(self, places: NDArray[np.uint64]) -> NDArray[np.uint64]:
        high, low = places >> self._low_bits, places & self._low
        for number in range(0, _ROUNDS, 2):
            high ^= _hashed(low, key_of(self._key, number)) & self._high
            low ^= _hashed(high, key_of(self._key, number + 1)) & self._low
        return (high << self._low_bits) | low


@lru_cache(_CACHED_TABLES)
def _table(size: int, key: int) -> NDArray[np.int64]:
    """Return the places in the order of their hashes, all of which differ."""
    table = np.argsort(_hashed(np.arange(size, dtype=np.uint64), key)).astype(np.int64, copy=False)
    table.setflags(write=False)
    return table


def _mixed(number: int) -> int:
    number = (number ^ (number >> 30)) * _FIRST & _MASK
    number = (number ^ (number >> 27)) * _SECOND & _MASK
    return number ^ (number >> 31)


def _hashed(numbers: NDArray[np.uint64], key: int) -> NDArray[np.uint64]:
    """Return a hash of each number, one to one: `_mixed` of the number's multiple plus the key."""
    found = numbers * np.uint64(_STEP)
    found += np.uint64(key)
    found ^= found >> np.uint64(30)
    found *= np.uint64(_FIRST)
    found ^= found >> np.uint64(27)
    found *= np.uint64(_SECOND)
    found ^= found >> np.uint64(31)
    return found
