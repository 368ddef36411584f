"""Rows of the log in memory (MemWAL) of a table, which this library neither reads nor merges.

    _mem_wal/{shard}/{random}_gen_{number}/    a generation: a table with the rows of a while

A table with such a log has the index `__lance_mem_wal`, which has no files. Generations stay after
their rows were merged into the table. Source: docs/format/table.md, "The log in memory".
"""

from __future__ import annotations

import re
import warnings

from pilum.storage.base import Store
from pilum.table.model.manifest import Manifest

__all__ = ["generations", "has_log", "warn_of_generations"]

_INDEX = b"__lance_mem_wal"
_FOLDER = "_mem_wal"
_GENERATION = re.compile(r"[0-9a-z]+_gen_(\d+)")


def has_log(manifest: Manifest) -> bool:
    """Return whether a table has a log in memory."""
    return _INDEX in manifest.index_section


def warn_of_generations(store: Store, manifest: Manifest) -> None:
    """Warn if a table has generations, whose rows a scan may lack; nothing is read otherwise."""
    if not has_log(manifest):
        return
    found = generations(store)
    if found:
        text = "; ".join(f"{shard}: {', '.join(map(str, one))}" for shard, one in found.items())
        warnings.warn(
            f"{store.uri} has a log in memory (MemWAL) with rows that may not be merged yet and are"
            f" not read, in the generations {text}; merge them with the library that wrote them",
            stacklevel=2,
        )


def generations(store: Store) -> dict[str, list[int]]:
    """Return the numbers of the generations of each shard that has one, in ascending order."""
    found = {}
    for shard in sorted(store.folders(_FOLDER)):
        matches = map(_GENERATION.fullmatch, store.folders(f"{_FOLDER}/{shard}"))
        numbers = sorted(int(match[1]) for match in matches if match)
        if numbers:
            found[shard] = numbers
    return found
