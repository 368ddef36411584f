"""Buffer the rows of one leaf column until they form a page.

The size of the buffer is counted in bytes of Arrow arrays. A dictionary is not counted as long as
adjacent arrays share it. Slices of one table do, and each would otherwise count as much as the
whole dictionary.
"""

from __future__ import annotations

import pyarrow as pa

from pilum.arrays.joining import join_arrays
from pilum.encodings.dictionary import dictionary_below
from pilum.errors import UnsupportedTypeError

__all__ = ["Waiting"]

_DICTIONARY_BYTES = 32 * 1024 * 1024
"""Different dictionaries with this total size end a page, regardless of the size of their keys."""


class Waiting:
    """A buffer of chains (see `pilum.levels`).

    Args:
        page_bytes: Bytes at which a page is due.
    """

    def __init__(self, page_bytes: int) -> None:
        self._page_bytes = page_bytes
        self._chains: list[pa.Array] = []
        self._chain_bytes = 0
        self._dictionary: pa.Array | None = None
        self._dictionary_bytes = 0

    @property
    def num_bytes(self) -> int:
        """Bytes of all buffered chains."""
        return self._chain_bytes + self._dictionary_bytes

    def add(self, chain: pa.Array) -> list[pa.Array]:
        """Add rows and return the chains that are due, one per page."""
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
        """Return the chain of all buffered rows, if there are any.

        There are several chains if the joined dictionaries are too large for the key type.
        """
        chains, self._chains, self._chain_bytes = self._chains, [], 0
        self._dictionary, self._dictionary_bytes = None, 0
        return _joined(chains) if chains else []

    @property
    def _is_full(self) -> bool:
        rows_fill_it = self._chain_bytes >= self._page_bytes
        return rows_fill_it or self._dictionary_bytes >= _DICTIONARY_BYTES

    def _meet(self, dictionary: pa.Array | None) -> None:
        """Count a dictionary, once for all adjacent arrays that share it."""
        if dictionary is None:
            return
        if self._dictionary is None or not _is_same(dictionary, self._dictionary):
            self._dictionary = dictionary
            self._dictionary_bytes += dictionary.nbytes

    def _bytes(self, chain: pa.Array) -> int:
        """Return the bytes of the rows, without their dictionary."""
        if self._dictionary is None:
            return int(chain.nbytes)
        return max(int(chain.nbytes) - int(self._dictionary.nbytes), len(chain))


def _is_same(left: pa.Array, right: pa.Array) -> bool:
    """Return whether two arrays have the same memory."""
    return _place(left) == _place(right)


def _place(array: pa.Array) -> list[int | None]:
    addresses = [None if one is None else one.address for one in array.buffers()]
    return [*addresses, array.offset, len(array)]


def _joined(chains: list[pa.Array]) -> list[pa.Array]:
    """Join the chains into one, or into as few as can be joined."""
    try:
        return [join_arrays(chains, "rows")]
    except UnsupportedTypeError:
        middle = len(chains) // 2
        return [*_joined(chains[:middle]), *_joined(chains[middle:])]
