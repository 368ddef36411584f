"""Tables for PyTorch: `pilum.torch.data` has the datasets and loaders. Needs the package torch."""

from __future__ import annotations

from typing import Any

__all__ = ["preferred_device"]


def preferred_device(device: Any = None) -> Any:
    """Return a device of PyTorch.

    Args:
        device: A device or its name; None for the first kind that exists: CUDA, MPS, CPU.
    """
    import torch  # its import takes seconds

    if device is not None:
        return torch.device(device) if isinstance(device, str) else device
    if torch.cuda.is_available():
        return torch.device("cuda")
    has_mps = torch.backends.mps.is_built() and torch.backends.mps.is_available()
    return torch.device("mps" if has_mps else "cpu")
