"""Texts to signatures.

text ──tokens──▶ shingles ──▶ num_hashes values of 16 bits ──▶ a key of 64 bits for each band

The share of equal values of two signatures estimates the share of the shingles of both texts that
are in both of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.format.rows import Addresses
from pilum.index.inverted.tokens import Analyzer, text_arguments
from pilum.index.minhash.parameters import MinHashParameters
from pilum.kernels import band_keys, equal_values

__all__ = ["Signatures", "Signer", "distances"]


@dataclass(frozen=True, eq=False)
class Signatures:
    """Signatures of rows.

    Attributes:
        references: The row references, uint64, shape (n,).
        values: uint16, shape (n, num_hashes).
        keys: The keys of the bands, uint64, shape (n, num_bands).
    """

    references: Addresses
    values: NDArray[np.uint16]
    keys: NDArray[np.uint64]

    @classmethod
    def stored(
        cls, references: Addresses, values: NDArray[np.uint16], parameters: MinHashParameters
    ) -> Self:
        """Return signatures that were stored without their keys."""
        keys = band_keys(values.reshape(-1), parameters.num_hashes, parameters.num_bands)
        return cls(references, values, keys.reshape(-1, parameters.num_bands))

    def __len__(self) -> int:
        return len(self.references)


class Signer:
    """Makes the signatures of texts. Safe to use from several threads."""

    def __init__(self, parameters: MinHashParameters) -> None:
        self._shape = parameters.num_hashes, parameters.num_bands
        analyzer = Analyzer(parameters.tokenizer)
        self._kernel = analyzer.min_hasher(*self._shape, parameters.shingle_size)

    def sign(self, texts: pa.Array, references: Addresses) -> Signatures:
        """Return the signatures of the texts that have tokens.

        Args:
            texts: Strings, of which some may be null.
            references: The row reference of each.
        """
        num_hashes, num_bands = self._shape
        rows, values, keys = self._kernel.sign(text_arguments(texts)[0])
        return Signatures(
            references[rows], values.reshape(-1, num_hashes), keys.reshape(-1, num_bands)
        )

    def sign_query(self, text: str) -> Signatures:
        """Return the signature of a text; none if it has no tokens."""
        values, keys = self._kernel.sign_one(text)
        num_hashes, num_bands = self._shape
        references = np.zeros(int(len(values) > 0), np.uint64)
        return Signatures(references, values.reshape(-1, num_hashes), keys.reshape(-1, num_bands))


def distances(values: NDArray[np.uint16], query: Signatures) -> NDArray[np.float32]:
    """Return for each signature the share of values that differ from those of a query.

    Args:
        values: uint16, shape (n, num_hashes).
        query: One signature.
    """
    equal = equal_values(values.reshape(-1), query.values.reshape(-1))
    share = equal.astype(np.float32) / np.float32(query.values.shape[1])
    return np.float32(1) - share
