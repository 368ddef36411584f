"""Damages files and reads them, for as long as one likes.

    python -m fuzz --seconds 300            make fuzz SECONDS=300
    python -m fuzz --replay FILE.lance      one finding again

Workers are processes of their own, so that a crash, a hang or a hunger for memory ends only them;
each puts the file that it is about to read where this process finds it. A finding is saved to
build/fuzz: the damaged file, made as like its seed as it can be, and a text that tells the story.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import count, takewhile
from pathlib import Path

from fuzz.watch import fuzz, replay

_FOUND = Path(__file__).parents[2] / "build" / "fuzz"


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=_FOUND)
    parser.add_argument("--replay", type=Path)
    options = parser.parse_args()
    if options.replay:
        print(replay(options.replay))
        return 0
    print(f"seed {options.seed}, {options.seconds:.0f} s", flush=True)
    until = time.monotonic() + options.seconds
    turns = takewhile(lambda _: time.monotonic() < until, count(options.seed))
    result = fuzz(turns, options.workers, options.out, judges_costs=True)
    print(json.dumps(result.ends, indent=1))
    for finding in result.findings:
        print(f"{finding.file}: {finding.end}")
    print(f"{sum(result.ends.values())} files read, {len(result.findings)} findings")
    return bool(result.findings)


if __name__ == "__main__":
    sys.exit(_main())
