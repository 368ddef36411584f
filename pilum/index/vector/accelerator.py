"""Training of models by PyTorch: the nearest centroids of vectors are found by a device.

    a block of rows ──▶ device: |c|^2 - 2 x . c of all centroids ──▶ the least, and its number

Everything else of a training stays on the processor. PyTorch is imported when it is needed.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum.dependencies import torch
from pilum.errors import InvalidInputError
from pilum.index.vector.kmeans import Nearest

__all__ = ["accelerated"]

_NAMES = re.compile(r"cuda(:\d+)?|mps")

_MOST_DISTANCES = 1 << 25
"""So many distances are computed together, as float32."""


def accelerated(accelerator: Any) -> Nearest:
    """Return a function that finds the nearest centroids of vectors by a device.

    Args:
        accelerator: "cuda", "cuda:0", … or "mps", or a `torch.device`.

    Raises:
        InvalidInputError: If it is none of these, or PyTorch cannot use it.
        MissingDependencyError: If PyTorch is not installed.
    """
    if isinstance(accelerator, str) and not _NAMES.fullmatch(accelerator):
        raise InvalidInputError(
            f"accelerator={accelerator!r}: expected 'cuda', 'cuda:0', … or 'mps', or a torch.device"
        )
    if not isinstance(accelerator, str | torch.device):
        raise InvalidInputError(
            f"accelerator: expected the name of a device or a torch.device, found "
            f"{accelerator!r:.80}"
        )
    try:
        device = torch.device(accelerator)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InvalidInputError(
            f"accelerator={accelerator!r}: PyTorch cannot use it; omit it ({error})"
        ) from error
    return _Finder(device)


class _Finder:
    """See `accelerated`."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def __call__(
        self, rows: NDArray[np.float32], centroids: NDArray[np.float32]
    ) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
        """Return the number of the centroid nearest to each row, and the squared distance to it."""
        numbers = np.empty(len(rows), np.uint32)
        distances = np.empty(len(rows), np.float32)
        step = max(_MOST_DISTANCES // max(len(centroids), 1), 1)
        with torch.no_grad():
            wide = torch.as_tensor(np.ascontiguousarray(centroids)).to(self._device)
            offsets = (wide * wide).sum(dim=1)
            for start in range(0, len(rows), step):
                part = slice(start, start + step)
                own = torch.as_tensor(np.ascontiguousarray(rows[part])).to(self._device)
                least, places = torch.min(offsets - 2 * own @ wide.T, dim=1)
                found = (least + (own * own).sum(dim=1)).clamp_(min=0)
                numbers[part] = places.cpu().numpy()
                distances[part] = found.cpu().numpy()
        return numbers, distances
