"""Naive twins of the kernels for RaBitQ codes; see `pilum.kernels.reference`.

y   rotated residual of a row, shape (n, D)     z   rotated centroid of its partition
w   centred value of its code                   e   further bits: `bits - 1`
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "best_cosine",
    "estimates",
    "factors",
    "pack_further",
    "pack_signs",
    "rotate",
    "sign_bits",
]

Floats = NDArray[np.float64]

_ORDER = (0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15)


def rotate(vector: Sequence[float], signs: bytes) -> list[float]:
    """Return a vector after the fast rotation."""
    values, dimension = [float(value) for value in vector], len(vector)
    length = 1 << (dimension.bit_length() - 1)
    for number in range(4):
        flips = signs[number * dimension // 8 : (number + 1) * dimension // 8]
        values = [-x if flips[i // 8] >> (i % 8) & 1 else x for i, x in enumerate(values)]
        start = 0 if number % 2 == 0 else dimension - length
        values[start : start + length] = _hadamard(values[start : start + length])
        if length != dimension:
            low, high = values[: dimension // 2], values[dimension // 2 :]
            values = [a + b for a, b in zip(low, high, strict=True)]
            values += [a - b for a, b in zip(low, high, strict=True)]
    return values if length == dimension else [x / 4 for x in values]


def _hadamard(values: list[float]) -> list[float]:
    """Return the product with the Walsh-Hadamard matrix, whose rows have length 1."""
    rows = range(len(values))
    return [
        sum(x * (-1) ** (i & j).bit_count() for j, x in enumerate(values)) / len(values) ** 0.5
        for i in rows
    ]


def sign_bits(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the bits of plain sign codes, shape (n, D)."""
    return np.unpackbits(codes, axis=1, bitorder="little")


def pack_signs(rows: Sequence[bytes]) -> bytes:
    """Return the sign codes of a partition as they are stored."""
    whole = len(rows) // 32 * 32
    found = bytearray()
    for first in range(0, whole, 32):
        group = rows[first : first + 32]
        for column in range(len(rows[0])):
            for shift in (0, 4):
                for row in _ORDER:
                    low, high = (group[one][column] >> shift & 15 for one in (row, row + 16))
                    found.append(low | high << 4)
    for column in range(len(rows[0]) if rows else 0):
        found += bytes(row[column] for row in rows[whole:])
    return bytes(found)


def pack_further(components: Sequence[int], bits: int) -> bytes:
    """Return the further bits of one row as they are stored."""
    padded = [*components, *[0] * (-len(components) % 64)]
    blocks = [padded[at : at + 64] for at in range(0, len(padded), 64)]
    return b"".join(_block(block, bits) for block in blocks)


def _block(x: list[int], bits: int) -> bytes:
    if bits == 1:
        return sum(bit << i for i, bit in enumerate(x)).to_bytes(8, "little")
    if bits in (3, 5, 7):
        top = sum(
            (x[16 * k + b] >> bits - 1 & 1) << (8 * (b % 8) + 2 * k + b // 8)
            for k in range(4)
            for b in range(16)
        )
        return _low_block([one & (1 << bits - 1) - 1 for one in x], bits) + top.to_bytes(
            8, "little"
        )
    return _low_block(x, bits)


def _low_block(x: list[int], bits: int) -> bytes:
    if bits in (2, 3):
        pairs = ((x[b], x[b + 16], x[b + 32], x[b + 48]) for b in range(16))
        return bytes(p | q << 2 | r << 4 | s << 6 for p, q, r, s in pairs)
    if bits == 4:
        return bytes(x[16 * k + b] | x[16 * k + 8 + b] << 4 for k in range(4) for b in range(8))
    if bits == 5:
        return bytes(x[at + b] | x[at + 16 + b] << 4 for at in (0, 32) for b in range(16))
    if bits in (6, 7):
        return bytes(
            x[16 * k + b] | (x[48 + b] >> 2 * k & 3) << 6 for k in range(3) for b in range(16)
        )
    return bytes(x)


def best_cosine(values: Sequence[float], bits: int) -> float:
    """Return the greatest cosine of a row and its code that any scale reaches."""
    sizes = np.abs(np.asarray(values, np.float64)) / np.linalg.norm(values)
    most = (1 << bits) - 1
    steps = [step / size for size in sizes if size for step in range(1, most + 1)]
    weights = (np.minimum(np.floor(t * sizes + 1e-9), most) + 0.5 for t in steps)
    return max(float(w @ sizes / np.linalg.norm(w)) for w in weights)


def factors(y: Floats, z: Floats, w: Floats, *, is_dot: bool) -> tuple[Floats, Floats, Floats]:
    """Return the add and scale factors and the errors of rows, each of shape (n,)."""
    norm, x = (y * y).sum(axis=1), (y * w).sum(axis=1)
    ratio = np.divide(norm, x, out=np.zeros(len(y)), where=x != 0)
    shift = ratio * (z * w).sum(axis=1)
    dimension = y.shape[1]
    excess = np.divide(norm * dimension / 4, x * x, out=np.zeros(len(y)), where=x != 0) - 1
    error = np.sqrt(norm) * 1.9 * np.sqrt(np.maximum(excess, 0) / (dimension - 1))
    if is_dot:
        return 1 - (y * z).sum(axis=1) + shift, -ratio, error
    return norm + 2 * shift, -2 * ratio, 2 * error


def estimates(
    h: Floats, z: Floats, w: Floats, add: Floats, scale: Floats, *, is_dot: bool
) -> Floats:
    """Return the estimated distance of each row of a partition from a rotated query.

    Args:
        h: The query, shape (D,).
        z: The centroid, shape (D,).
        w: Centred values by signs or by all bits, shape (n, D).
        add: Their add factors.
        scale: Their scale factors.
        is_dot: Whether the metric is dot.
    """
    products = (w @ h) * scale
    if is_dot:
        along = (h @ z) / (z @ z)
        return np.asarray(products + along * (add - 1) + 1 - h @ z)
    return np.asarray(products + add + ((h - z) ** 2).sum())
