"""The memory that builds and searches of an index need, each in a process of its own. Linux only.

    python -m bench.vectors.memory pilum build /tmp/t '{"index_type": "IVF_PQ", …}'

The process reports by how much its resident size grew at its peak, after the library was imported
and the dataset opened.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from bench.vectors.cases import Shape
from bench.vectors.run import LIBRARIES, K

__all__ = ["Memory", "measure_memory"]

Memory = dict[tuple[str, str, str], int]
"""Bytes by type of index, step ("build" or "search") and library."""

_NUM_QUERIES = 200


def measure_memory(root: Path, shape: Shape) -> Memory:
    """Return the memory of the indices that a shape names; their tables lie in `root`."""
    found: Memory = {}
    for build in shape.builds:
        if build.kind not in shape.with_memory:
            continue
        given = build.keywords(shape.num_rows, shape.dimension)
        steps = {
            "search": {"column": "vector", "k": K, **build.settings},
            "build": {"column": "vector", "index_type": build.kind, "replace": True, **given},
        }
        for step, keywords in steps.items():
            for name in LIBRARIES:
                place = str(root / build.kind / name)
                arguments = [name, step, place, json.dumps(keywords)]
                command = [sys.executable, "-m", "bench.vectors.memory", *arguments]
                output = subprocess.run(command, check=True, capture_output=True, text=True)
                found[build.kind, step, name] = int(output.stdout.split()[-1])
    return found


def _main(name: str, step: str, place: str, text: str) -> None:
    lance: Any = importlib.import_module(LIBRARIES[name])
    dataset, keywords = lance.dataset(place), json.loads(text)
    dimension = dataset.schema.field("vector").type.list_size
    queries = np.random.default_rng(5).normal(size=(_NUM_QUERIES, dimension)).astype(np.float32)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _status("VmRSS:")
    if step == "build":
        dataset.create_index(**keywords)
    else:
        for query in queries:
            columns = ["_rowid", "_distance"]
            dataset.to_table(columns=columns, nearest={**keywords, "q": query})
    print(_status("VmHWM:") - before)


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(key))


if __name__ == "__main__":
    _main(*sys.argv[1:])
