"""Removing old versions, and the files that only they need.

From the oldest version on, manifests go before the files that only they need, so whoever is
stopped leaves whole versions, or none, and at most files that nothing refers to; these go later, by
their age. Between both steps the history is looked at again, as somebody may have restored an old
version. Source: docs/format/table.md, "Cleanup".
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Self

from pilum.storage.base import Store
from pilum.table.upkeep.cleanup_plan import CleanupPlan
from pilum.table.upkeep.owned_files import FileKind, OwnedFile, all_references
from pilum.table.versions.history import list_manifests

__all__ = ["CleanupResult", "run_cleanup"]

_CHUNK = 64
_CONCURRENCY = 8

OnFile = Callable[[int], None]


@dataclass
class CleanupResult:
    """What a cleanup removed.

    Attributes:
        removed: Number of files by kind.
        bytes_removed: Their size.
        failed: Files that the store did not remove.
    """

    removed: Counter[FileKind] = field(default_factory=Counter)
    bytes_removed: int = 0
    failed: int = 0

    @classmethod
    def of(cls, files: Iterable[OwnedFile]) -> CleanupResult:
        """As if these were removed."""
        result = cls()
        for file in files:
            result.add(file)
        return result

    def add(self, file: OwnedFile) -> None:
        """Counts a removed file."""
        self.removed[file.kind] += 1
        self.bytes_removed += file.size


def run_cleanup(
    store: Store,
    plan: CleanupPlan,
    *,
    per_second: int | None = None,
    concurrency: int | None = None,
    on_file: OnFile = lambda num_files: None,
) -> CleanupResult:
    """Removes what was planned; files that the store does not remove are counted and left.

    Args:
        store: Where the table is.
        plan: Of the table.
        per_second: No more files a second.
        concurrency: Requests at a time.
        on_file: Told how many files are done.

    Raises:
        CorruptFileError: If a version that came meanwhile cannot be read.
    """
    result = CleanupResult()
    with _Remover(store, result, per_second, concurrency or _CONCURRENCY, on_file) as remover:
        for start in range(0, len(plan.versions), _CHUNK):
            chunk = plan.versions[start : start + _CHUNK]
            gone = set(remover.remove([version.manifest for version in chunk]))
            needed = _needed_by_new_versions(store, plan)
            remover.remove(
                file
                for version in chunk
                if version.manifest in gone
                for file in version.files
                if file.key not in needed
            )
        needed = _needed_by_new_versions(store, plan)
        remover.remove(file for file in plan.strays if not file.key or file.key not in needed)
    return result


class _Remover:
    """Removes files, several at a time and not too many a second."""

    def __init__(
        self,
        store: Store,
        result: CleanupResult,
        per_second: int | None,
        concurrency: int,
        on_file: OnFile,
    ) -> None:
        self._store = store
        self._result = result
        self._pool = ThreadPoolExecutor(concurrency, "pilum-cleanup")
        self._pause = 1 / per_second if per_second else 0.0
        self._next = time.monotonic()
        self._on_file = on_file
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def remove(self, files: Iterable[OwnedFile]) -> list[OwnedFile]:
        """Returns those that are gone."""
        wanted = list(files)
        done = list(self._pool.map(self._remove, wanted))
        return [file for file, is_gone in zip(wanted, done, strict=True) if is_gone]

    def _remove(self, file: OwnedFile) -> bool:
        self._wait()
        try:
            self._store.delete(file.path)
        except OSError:
            with self._lock:
                self._result.failed += 1
            return False
        with self._lock:
            self._result.add(file)
            self._on_file(1)
        return True

    def _wait(self) -> None:
        if not self._pause:
            return
        with self._lock:
            now = time.monotonic()
            self._next = max(self._next, now) + self._pause
            seconds = self._next - self._pause - now
        time.sleep(max(seconds, 0.0))


def _needed_by_new_versions(store: Store, plan: CleanupPlan) -> set[str]:
    """What versions refer to that were committed since the plan was made."""
    names = list_manifests(store)
    new = [name for name in names if name.version not in plan.seen]
    return {key for one in all_references(store, new) for key in one.keys}
