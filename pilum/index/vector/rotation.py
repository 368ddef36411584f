"""Rotations of vectors before they are stored as RaBitQ codes.

    fast      sign changes and Walsh-Hadamard transforms; 4 x ceil(D/8) bytes of signs
    matrix    a matrix R of shape (D, D): y = R x

Source: docs/format/vector-indices.md, "Quantizers".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.encodings.base import demand

__all__ = ["FastRotation", "MatrixRotation", "Rotation"]

_ROUNDS = 4

Vectors = NDArray[np.float32]


class Rotation(ABC):
    """A rotation of vectors of one dimension."""

    dimension: int

    @abstractmethod
    def rotated(self, vectors: NDArray[Any]) -> Vectors:
        """Return rotated vectors, shape (n, D)."""

    @abstractmethod
    def equals(self, other: Rotation) -> bool:
        """Return whether another rotation is the same."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """The memory that it uses."""

    def restored(self, vectors: Vectors) -> Vectors:
        """Return vectors as they were before the rotation, shape (n, D)."""
        matrix = self.rotated(np.eye(self.dimension, dtype=np.float32)).T
        return np.asarray(vectors @ matrix)


class FastRotation(Rotation):
    """A rotation by sign changes and transforms, without a matrix.

    Args:
        signs: 4 x ceil(D/8) bytes; bit i (lowest first) of round k negates component i.
        dimension: A multiple of 8.

    Raises:
        CorruptFileError: If the number of bytes does not fit.
    """

    def __init__(self, signs: NDArray[np.uint8], dimension: int) -> None:
        size = _ROUNDS * -(-dimension // 8)
        demand(
            len(signs) == size, f"signs of a rotation: expected {size} bytes, found {len(signs)}"
        )
        self.signs = np.ascontiguousarray(signs)
        self.dimension = dimension

    @classmethod
    def random(cls, dimension: int) -> FastRotation:
        """Return a rotation with random signs."""
        signs = np.random.default_rng().integers(0, 256, _ROUNDS * -(-dimension // 8), np.uint8)
        return cls(signs, dimension)

    def rotated(self, vectors: NDArray[Any]) -> Vectors:
        """Return rotated vectors, shape (n, D)."""
        return kernels.rotate_vectors(np.ascontiguousarray(vectors, np.float32), self.signs)

    def equals(self, other: Rotation) -> bool:
        """Return whether another rotation has the same signs."""
        return isinstance(other, FastRotation) and bytes(self.signs) == bytes(other.signs)

    @property
    def size_bytes(self) -> int:
        """The memory that it uses."""
        return self.signs.nbytes


class MatrixRotation(Rotation):
    """A rotation by a matrix of shape (D, D).

    Raises:
        CorruptFileError: If the shape does not fit.
    """

    def __init__(self, matrix: NDArray[Any], dimension: int) -> None:
        expected = (dimension, dimension)
        demand(matrix.shape == expected, f"rotation: expected {expected}, found {matrix.shape}")
        self.matrix = np.ascontiguousarray(matrix)
        self.dimension = dimension
        self._transposed = np.ascontiguousarray(matrix.T, np.float32)

    def rotated(self, vectors: NDArray[Any]) -> Vectors:
        """Return rotated vectors, shape (n, D)."""
        with np.errstate(all="ignore"):  # values that overflow are infinite
            return np.asarray(np.asarray(vectors, np.float32) @ self._transposed)

    def equals(self, other: Rotation) -> bool:
        """Return whether another rotation has the same matrix."""
        return isinstance(other, MatrixRotation) and np.array_equal(self.matrix, other.matrix)

    @property
    def size_bytes(self) -> int:
        """The memory that it uses."""
        return self.matrix.nbytes + self._transposed.nbytes
