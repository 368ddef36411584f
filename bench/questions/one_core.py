"""How long does a scan take on one core? Threads hide what a library computes.

Each answer comes from a process of its own that runs on one core from its beginning:

    python -m bench.questions.one_core PEER PATH

It prints the median of some scans, seconds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

from bench.peers import PEERS
from bench.questions.base import Question, Subject, same, timed

__all__ = ["ScanOnOneCore"]

_SCANS = 7


class ScanOnOneCore(Question):
    """Open, read everything, in a process that has one core."""

    name = "scan on one core"
    rounds = 0
    in_all_versions = False
    shapes = frozenset(
        {
            *("int64 random", "int64 nulls", "float64", "short text", "few strings", "few int64"),
            *("list of int32", "struct", "mixed table", "lineitem", "flights", "documents"),
        }
    )

    def check(self, subject: Subject) -> bool:
        return same(subject.peer.scan(subject.handle), subject.table)

    def measure(self, subject: Subject, round_number: int) -> float:
        answer = subprocess.run(
            [sys.executable, "-m", __name__, subject.peer.name, str(subject.path)],
            check=True,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        return float(answer.stdout.split()[-1])


def scan_and_print(name: str, path: Path) -> None:
    """The child: scans some times and prints the median."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    peer = PEERS[name]()
    samples = [timed(lambda: peer.scan(peer.open(path)))[0] for _ in range(_SCANS + 1)]
    print(statistics.median(samples[1:]))


if __name__ == "__main__":
    scan_and_print(sys.argv[1], Path(sys.argv[2]))
