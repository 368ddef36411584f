"""The whole matrix: writes the record and the page, then runs all pairs.

python -m matrix            make matrix
python -m matrix --plain    the record and the page only
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from matrix.deviations import unexplained
from matrix.record import Record, plain_runs, varied_runs
from matrix.running import run


def main(plain: bool, varied: bool) -> int:
    """Returns how many cells ended as nobody explains."""
    with tempfile.TemporaryDirectory() as folder:
        record = _plain(Path(folder)) if plain else Record.load()
        runs = varied_runs() if varied else []
        bad = cells = 0
        for number, wanted in enumerate(runs):
            start = time.monotonic()
            for cell, ended in run(wanted, Path(folder), lambda c: bool(record.ended(c).who)):
                cells += 1
                if problem := unexplained(cell, ended, record):
                    bad += 1
                    print(f"{cell}\n    {problem}", flush=True)
            print(f"{number}/{len(runs)} {wanted}: {time.monotonic() - start:.1f} s", flush=True)
    print(f"{cells} cells of {len(runs)} combinations, {bad} unexplained")
    return bad


def _plain(folder: Path) -> Record:
    before = Record.load()
    ends = [
        end
        for wanted in plain_runs()
        for end in run(wanted, folder, lambda cell: bool(before.ended(cell).who))
    ]
    record = Record.of(ends)
    record.save()
    print(f"{len(ends)} plain cells, {len(record.refused)} refused")
    print(Counter(ended.who for ended in record.refused.values()))
    return record


if __name__ == "__main__":
    sys.exit(min(main("--keep" not in sys.argv, "--plain" not in sys.argv), 1))
