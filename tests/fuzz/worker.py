"""A worker of the fuzzer: `python -m fuzz.worker SEED FILES FOLDER [costs]`.

Before a file is read it stands in FOLDER/current.lance and the name of its seed in current.txt, so
that whoever watches can save it if this process does not come back. With `costs` a file that takes
much time or memory is a finding, too.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from explore.costs import limit_memory
from fuzz.attempt import attempt
from fuzz.mutate import mutate
from fuzz.seeds import Seed, seeds

_MOST_ATTEMPTS = 300
"""To reduce one finding."""


def _main(number: int, files: int, folder: Path, judges_costs: bool) -> None:
    all_seeds = [seed for seed in seeds() if _is_read(seed)]
    limit_memory()
    source = random.Random(number)
    ends: dict[str, int] = {}
    found: dict[str, tuple[str, str, str]] = {}
    for _ in range(files):
        seed = source.choice(all_seeds)
        data = mutate(seed.data, source)
        (folder / "current.txt").write_text(seed.name)
        (folder / "current.lance").write_bytes(data)
        end = attempt(seed, data, judges_costs)
        key = _kind(end)
        ends[key] = ends.get(key, 0) + 1
        if end.startswith("BAD") and key not in found:
            found[key] = (seed.name, _reduced(seed, data, key, judges_costs).hex(), end)
    print(json.dumps({"ends": ends, "found": list(found.values())}))


def _is_read(seed: Seed) -> bool:
    """Whether a seed is read as it is, not refused."""
    end = attempt(seed, seed.data)
    if end.startswith("BAD"):
        raise AssertionError(f"{seed.name} as it is: {end}")
    return end == "values"


def _kind(end: str) -> str:
    """The last line of what went wrong, without its numbers: one finding of a kind is enough."""
    line = end.strip().splitlines()[-1] if end.startswith("BAD: ") else end
    kind = "".join("#" if char.isdigit() else char for char in line)[:150]
    return kind if not end.startswith("BAD") or kind.startswith("BAD") else f"BAD: {kind}"


def _reduced(seed: Seed, data: bytes, key: str, judges_costs: bool) -> bytes:
    """The file with as many bytes of its seed put back as leave the same end."""
    if len(data) != len(seed.data):
        return data
    wrong = [at for at in range(len(data)) if data[at] != seed.data[at]]
    step = max(len(wrong) // 2, 1)
    attempts = 0
    while wrong:
        for first in range(0, len(wrong), step):
            less = bytearray(data)
            for at in wrong[first : first + step]:
                less[at] = seed.data[at]
            if (attempts := attempts + 1) > _MOST_ATTEMPTS:
                return data
            if _kind(attempt(seed, bytes(less), judges_costs)) == key:
                data = bytes(less)
        wrong = [at for at in wrong if data[at] != seed.data[at]]
        if step == 1:
            return data
        step = max(step // 4, 1)
    return data


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), "costs" in sys.argv[4:])
