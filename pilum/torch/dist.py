"""The number of this process among those of `torch.distributed` and of a `DataLoader`.

rank of the process group ── 0                1
worker of its DataLoader  ── 0    1    2      0    1    2
global rank               ── 0    1    2      3    4    5
"""

from __future__ import annotations

import torch.distributed as group
from torch.utils.data import get_worker_info

__all__ = [
    "get_dist_rank",
    "get_dist_world_size",
    "get_global_rank",
    "get_global_world_size",
    "get_mp_rank",
    "get_mp_world_size",
    "has_group",
]


def has_group() -> bool:
    """Return whether this process belongs to a process group."""
    return bool(group.is_available() and group.is_initialized())


def get_dist_world_size() -> int:
    """Return the number of ranks of the process group; 1 if there is none."""
    return int(group.get_world_size()) if has_group() else 1


def get_dist_rank() -> int:
    """Return the rank of this process in the process group; 0 if there is none."""
    return int(group.get_rank()) if has_group() else 0


def get_mp_world_size() -> int:
    """Return the number of workers of the `DataLoader` that this process works for, or 1."""
    worker = get_worker_info()
    return 1 if worker is None else int(worker.num_workers)


def get_mp_rank() -> int:
    """Return the number of this worker of a `DataLoader`; 0 outside of workers."""
    worker = get_worker_info()
    return 0 if worker is None else int(worker.id)


def get_global_world_size() -> int:
    """Return the number of workers of all ranks."""
    return get_dist_world_size() * get_mp_world_size()


def get_global_rank() -> int:
    """Return the number of this process among the workers of all ranks."""
    return get_dist_rank() * get_mp_world_size() + get_mp_rank()
