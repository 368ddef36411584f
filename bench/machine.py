"""What the numbers were measured on, as far as it matters and tells nobody's name."""

from __future__ import annotations

import os
import platform
from pathlib import Path

__all__ = ["summary"]


def summary() -> dict[str, str | int | float]:
    """Cores, memory, processor, system and Python."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores(),
        "memory_gib": round(memory_bytes() / 2**30, 1),
        "processor": processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def cores() -> int:
    """Processors of the machine."""
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """Main memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def processor() -> str:
    """The model, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())
