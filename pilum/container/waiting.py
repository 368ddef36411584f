"""Rows of one leaf column that wait to become a page.

How much waits is counted in bytes of Arrow arrays. The dictionary of a dictionary array does not
count as long as its neighbours share it: slices of one table do, and each would else be thought
to be as large as the dictionary of all.
"""

from __future__ import annotations

import pyarrow as pa

from pilum.arrays.joining import join_arrays
from pilum.encodings.dictionary_arrays import dictionary_below
from pilum.errors import UnsupportedTypeError

__all__ = ["Waiting"]

_DICTIONARY_BYTES = 32 * 1024 * 1024
"""Different dictionaries of this size together end a page, whatever their keys take."""


class Waiting:
    """Chains (see `pilum.levels`) that wait.

    Args:
        page_bytes: So much makes a page.
    """

    def __init__(self, page_bytes: int) -> None:
        self._page_bytes = page_bytes
        self._chains: list[pa.Array] = []
        self._chain_bytes = 0
        self._dictionary: pa.Array | None = None
        self._dictionary_bytes = 0

    @property
    def num_bytes(self) -> int:
        """Bytes of all that waits."""
        return self._chain_bytes + self._dictionary_bytes

    def add(self, chain: pa.Array) -> list[pa.Array]:
        """Takes rows; returns chains that are due, a page each."""
        due: list[pa.Array] = []
        while len(chain):
            self._meet(dictionary_below(chain))
            room = max(self._page_bytes - self._chain_bytes, 0)
            size = self._bytes(chain)
            if size <= room:
                self._keep(chain, size)
                return [*due, *self.flush()] if self._is_full else due
            rows = max(int(room / size * len(chain)), 1)
            piece, chain = chain.slice(0, rows), chain.slice(rows)
            self._keep(piece, self._bytes(piece))
            if self._is_full or len(chain):
                due.extend(self.flush())
        return due

    def _keep(self, piece: pa.Array, size: int) -> None:
        self._chains.append(piece)
        self._chain_bytes += size

    def flush(self) -> list[pa.Array]:
        """Returns the chain of all that waits, if anything does.

        More than one if dictionaries are too large together for the type of their keys.
        """
        chains, self._chains, self._chain_bytes = self._chains, [], 0
        self._dictionary, self._dictionary_bytes = None, 0
        return _joined(chains) if chains else []

    @property
    def _is_full(self) -> bool:
        rows_fill_it = self._chain_bytes >= self._page_bytes
        return rows_fill_it or self._dictionary_bytes >= _DICTIONARY_BYTES

    def _meet(self, dictionary: pa.Array | None) -> None:
        """Counts a dictionary, once for all neighbours that share it."""
        if dictionary is None:
            return
        if self._dictionary is None or not _is_same(dictionary, self._dictionary):
            self._dictionary = dictionary
            self._dictionary_bytes += dictionary.nbytes

    def _bytes(self, chain: pa.Array) -> int:
        """Bytes of the rows, without their dictionary, however large it is."""
        if self._dictionary is None:
            return int(chain.nbytes)
        return max(int(chain.nbytes) - int(self._dictionary.nbytes), len(chain))


def _is_same(left: pa.Array, right: pa.Array) -> bool:
    """Whether arrays are the same memory."""
    return _place(left) == _place(right)


def _place(array: pa.Array) -> list[int | None]:
    addresses = [None if one is None else one.address for one in array.buffers()]
    return [*addresses, array.offset, len(array)]


def _joined(chains: list[pa.Array]) -> list[pa.Array]:
    """One chain of all, or of as many as go together."""
    try:
        return [join_arrays(chains, "rows")]
    except UnsupportedTypeError:
        middle = len(chains) // 2
        return [*_joined(chains[:middle]), *_joined(chains[middle:])]
