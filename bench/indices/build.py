"""A build of one index in a process of its own: its seconds, and the memory at its peak.

python -m bench.indices.build MODULE PATH COLUMN KIND OPTIONS
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.indices.cases import Build
from bench.questions.base import timed
from bench.questions.memory import peak

__all__ = ["Built", "built_elsewhere"]

_ROWS_BEFORE = 16


@dataclass(frozen=True, slots=True)
class Built:
    """A build.

    Attributes:
        seconds: Its duration, without imports.
        peak_bytes: The most resident memory of its process.
    """

    seconds: float
    peak_bytes: int


def built_elsewhere(module: str, path: Path, build: Build) -> Built:
    """Build an index in a new process."""
    arguments = [module, str(path), build.column, build.kind, json.dumps(build.options)]
    found = subprocess.run(
        [sys.executable, "-m", "bench.indices.build", *arguments],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return Built(**json.loads(found.stdout.splitlines()[-1]))


def _build(module: str, path: str, column: str, kind: str, options: str) -> Built:
    lance = importlib.import_module(module)
    _warm_up(lance, path, column, kind, json.loads(options))
    dataset = lance.dataset(path)
    seconds, _ = timed(lambda: dataset.create_scalar_index(column, kind, **json.loads(options)))
    return Built(seconds, peak())


def _warm_up(lance: Any, path: str, column: str, kind: str, options: dict[str, Any]) -> None:
    """Index a few rows, so that modules are imported and threads started."""
    few = lance.dataset(path).to_table(columns=[column], limit=_ROWS_BEFORE)
    other = lance.write_dataset(few, f"{path} few", mode="overwrite")
    other.create_scalar_index(column, kind, **options)


if __name__ == "__main__":
    done = _build(*sys.argv[1:])
    print(json.dumps({"seconds": done.seconds, "peak_bytes": done.peak_bytes}))
