"""Remove old versions, and the files that only they need.

Starting from the oldest version, manifests are removed before the files that only they need. An
interrupted cleanup therefore leaves every version whole or removed, and at most files that nothing
refers to. A later cleanup removes these by their age. Between both steps the history is read again,
because an old version may have been restored. Source: docs/format/table.md, "Cleanup".
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
    """The files that a cleanup removed.

    Attributes:
        removed: Number of files by kind.
        bytes_removed: Size of the removed files, bytes.
        failed: Number of files that the store did not remove.
    """

    removed: Counter[FileKind] = field(default_factory=Counter)
    bytes_removed: int = 0
    failed: int = 0

    @classmethod
    def of(cls, files: Iterable[OwnedFile]) -> CleanupResult:
        """Return the result of removing these files."""
        result = cls()
        for file in files:
            result.add(file)
        return result

    def add(self, file: OwnedFile) -> None:
        """Count a removed file."""
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
    """Remove the planned files; count and leave files that the store does not remove.

    Args:
        store: Where the table is.
        plan: The plan for the table.
        per_second: Maximum number of files a second.
        concurrency: Maximum number of concurrent requests.
        on_file: Called with the number of files done.

    Raises:
        CorruptFileError: If a version that was committed concurrently cannot be read.
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
    """Removes files, several at a time and at a limited rate."""

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
        """Remove files and return those that are gone."""
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
    """Return the keys that versions committed since the plan refer to."""
    names = list_manifests(store)
    new = [name for name in names if name.version not in plan.seen]
    return {key for one in all_references(store, new) for key in one.keys}
