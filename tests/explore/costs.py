"""What reading a damaged file may cost: judged by `make explore` and `make fuzz` only.

Seconds and resident memory depend on the machine, so no test of `make test` looks at them. There a
file that takes too much ends in a `MemoryError`, and one that takes for ever is found by whoever
waits for its process.
"""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Costs", "limit_memory"]

_HEADROOM_BYTES = 768 * 2**20
_MOST_SECONDS = 1.0
_MOST_BYTES = 200 * 2**20
_PROCESSORS = 2
"""So many, whatever the machine has: each thread takes address space of its own."""


def limit_memory() -> None:
    """Let this process grow by `_HEADROOM_BYTES` of address space, no more."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_PROCESSORS])
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + _HEADROOM_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@dataclass(frozen=True)
class Costs:
    """Of this process since the making of this object."""

    start: float = field(default_factory=time.process_time)
    before: int = field(default_factory=_peak_bytes)

    def judge(self, end: str) -> str:
        """Return the end of an attempt, or that it cost too much."""
        seconds, grown = time.process_time() - self.start, _peak_bytes() - self.before
        if seconds > _MOST_SECONDS:
            return f"BAD: {seconds:.1f} s, then {end}"
        return f"BAD: {grown >> 20} MiB, then {end}" if grown > _MOST_BYTES else end
