"""Distances of vectors from centroids, as tensors.

    pairwise_l2, pairwise_cosine    every vector with every centroid      ──▶ (n, k)
    l2_distance, cosine_distance    every vector with its nearest one     ──▶ numbers (n,),
    dot_distance                                                              distances (n,)

l2 is the squared distance, dot is 1 - product. The number of a vector with NaN is -1. Distances of
many vectors are computed in parts that fit the memory of the device.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from pilum.errors import InvalidInputError

__all__ = ["cosine_distance", "dot_distance", "l2_distance", "pairwise_cosine", "pairwise_l2"]

_MOST_DISTANCES = 1 << 25
"""So many distances are computed together, unless the memory of the device is known."""

_SHARE = 4
"""Distances take at most this part of the free memory of a device."""


def pairwise_cosine(
    x: torch.Tensor, y: torch.Tensor, *, y2: torch.Tensor | None = None
) -> torch.Tensor:
    """Return 1 - the cosine of every vector of `x` with every one of `y`.

    Args:
        x: Shape (n, D).
        y: Shape (k, D).
        y2: The lengths of the vectors of `y`; None to compute them.

    Raises:
        InvalidInputError: If one of them is not a matrix.
    """
    _require_matrices(x, y)
    lengths = torch.linalg.norm(y, dim=1) if y2 is None else y2.reshape(-1)
    return 1 - (x @ y.T) / torch.linalg.norm(x, dim=1, keepdim=True) / lengths


def pairwise_l2(x: torch.Tensor, y: torch.Tensor, y2: torch.Tensor | None = None) -> torch.Tensor:
    """Return the squared distance of every vector of `x` from every one of `y`.

    Args:
        x: Shape (n, D).
        y: Shape (k, D), of the same type.
        y2: The squared lengths of the vectors of `y`; None to compute them.

    Raises:
        InvalidInputError: If one of them is not a matrix, or their types differ.
    """
    _require_matrices(x, y)
    if x.dtype != y.dtype or (y2 is not None and y2.dtype != x.dtype):
        raise InvalidInputError(
            f"pairwise_l2: data types do not match: {x.dtype} and {y.dtype}"
            + ("" if y2 is None else f" and {y2.dtype}")
        )
    wide = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    rows, others = x.to(wide), y.to(wide)
    squares = (others * others).sum(dim=1) if y2 is None else y2.to(wide)
    own = (rows * rows).sum(dim=1, keepdim=True)
    return (own + squares - 2 * rows @ others.T).to(x.dtype)


def cosine_distance(
    vectors: torch.Tensor, centroids: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the centroid with the greatest cosine for each vector, and 1 - that cosine.

    Args:
        vectors: Shape (n, D).
        centroids: Shape (k, D).

    Raises:
        InvalidInputError: If one of them is not a matrix.
    """
    _require_matrices(vectors, centroids)
    lengths = torch.linalg.norm(centroids, dim=1)
    return _nearest(vectors, centroids, lambda part: pairwise_cosine(part, centroids, y2=lengths))


def l2_distance(
    vectors: torch.Tensor, centroids: torch.Tensor, y2: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the nearest centroid of each vector, and the squared distance to it.

    Args:
        vectors: Shape (n, D).
        centroids: Shape (k, D), of the same type.
        y2: The squared lengths of the centroids; None to compute them.

    Raises:
        InvalidInputError: If one of them is not a matrix, or their types differ.
    """
    _require_matrices(vectors, centroids)
    squares = (centroids * centroids).sum(dim=1) if y2 is None else y2
    return _nearest(
        vectors, centroids, lambda part: pairwise_l2(part, centroids, squares).clamp(min=0)
    )


def dot_distance(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the vector of `y` with the greatest product for each one of `x`, and 1 - that product.

    Args:
        x: Shape (n, D).
        y: Shape (k, D).

    Raises:
        InvalidInputError: If one of them is not a matrix.
    """
    _require_matrices(x, y)
    return _nearest(x, y, lambda part: 1 - part @ y.T)


def _nearest(
    vectors: torch.Tensor,
    centroids: torch.Tensor,
    distances_of: Callable[[torch.Tensor], torch.Tensor],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the place of the least distance of each vector, and that distance."""
    step = max(_most_distances(vectors) // max(len(centroids), 1), 1)
    found = [torch.min(distances_of(part), dim=1) for part in vectors.split(step)]
    distances = torch.cat([one.values for one in found])
    numbers = torch.cat([one.indices for one in found])
    return torch.where(distances.isnan(), -1, numbers), distances


def _most_distances(vectors: torch.Tensor) -> int:
    if vectors.device.type != "cuda":
        return _MOST_DISTANCES
    free, _ = torch.cuda.mem_get_info(vectors.device)
    return int(free // _SHARE // vectors.element_size())


def _require_matrices(x: torch.Tensor, y: torch.Tensor) -> None:
    if x.ndim != 2 or y.ndim != 2:
        raise InvalidInputError(
            f"x and y must be 2-D matrix, got: x.shape={tuple(x.shape)}, y.shape={tuple(y.shape)}"
        )
