"""Return to a whole version of a table whose newest manifest is damaged, without removing files.

    version 3    whole
    version 4    damaged      no commit can follow it, and only older versions can be opened
    version 5                 `restore_whole`: the content of version 3

    _versions/18446744073709551611.manifest             `set_aside` renames the damaged manifest,
    _versions/18446744073709551611.manifest.damaged     so that no reader takes it for a version

The restored version comes first, so that the number of a damaged one is never reused. While a
damaged manifest keeps its name, no cleanup removes files, because the files that it needs are
unknown. Source: docs/guide/upkeep.md, "A damaged version".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pilum.errors import CorruptFileError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from pilum.storage.base import Store, run_all
from pilum.table.commit.operations.restore import Restore
from pilum.table.commit.publish import commit
from pilum.table.commit.transaction import Transaction
from pilum.table.model.manifest import Manifest
from pilum.table.model.manifest_file import load_named
from pilum.table.model.names import LATEST_PATHS, ManifestName
from pilum.table.upkeep.auto_cleanup import clean_up_if_due
from pilum.table.versions.commit_handler import ConditionalPut, handler_of, list_manifests

__all__ = ["DamagedVersion", "RepairPlan", "plan_repair", "restore_whole", "set_aside"]

_SUFFIX = ".damaged"
_NAMES_TRIED = 100


@dataclass(frozen=True, slots=True)
class DamagedVersion:
    """A version whose manifest contradicts the format, and in what way."""

    name: ManifestName
    what: str


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """The damage in the history of a table: damaged versions, oldest first.

    `newest` is the newest version, damaged or not; `whole` is the newest whole one, if any.
    """

    newest: int
    damaged: tuple[DamagedVersion, ...]
    whole: Manifest | None

    @property
    def is_blocked(self) -> bool:
        """Return whether the newest version is damaged, so that the table cannot be opened."""
        return bool(self.damaged) and self.damaged[-1].name.version == self.newest


def plan_repair(store: Store) -> RepairPlan:
    """Read all manifests of a line of history and find those that are damaged.

    InvalidInputError is raised if there is no version. A version that needs a newer library, or a
    store that fails, is not damage but another error.
    """
    names = list_manifests(store)
    if not names:
        raise InvalidInputError(f"there is no version of a table at {store.uri}")
    found = run_all(store, [partial(_look_at, store, name) for name in names])
    damaged = tuple(one for one in found if isinstance(one, DamagedVersion))
    whole = [one for one in found if isinstance(one, Manifest)]
    return RepairPlan(names[-1].version, damaged, whole[-1] if whole else None)


def restore_whole(store: Store, plan: RepairPlan) -> int:
    """Commit a version with the content of the newest whole one, and return its number.

    InvalidInputError is raised if the newest version is whole, or none is; CommitConflictError if a
    version was committed after the damaged one: plan again.
    """
    if not plan.is_blocked:
        raise InvalidInputError(f"{store.uri}: the newest version is not damaged")
    if plan.whole is None:
        raise InvalidInputError(f"{store.uri} has no undamaged version")
    transaction = Transaction(plan.newest, Restore(plan.whole.version), follows_directly=True)
    manifest = commit(store, transaction)
    clean_up_if_due(store, manifest)
    return manifest.version


def set_aside(store: Store, plan: RepairPlan) -> list[str]:
    """Rename the manifests of damaged versions, so that no reader takes them for versions.

    Each is written under its new name, which is returned, before the old one is removed, so that an
    interruption leaves both. Files that only such a manifest names then belong to no version, and a
    later cleanup removes them.

    Raises:
        InvalidInputError: If the newest version is damaged: first commit another after it.
        UnsupportedFeatureError: If versions are not determined by file names alone.
    """
    if plan.is_blocked:
        raise InvalidInputError(
            f"{store.uri}: version {plan.newest} is the newest and damaged; restore another first, "
            "so that its number is not used again"
        )
    if not isinstance(handler_of(store), ConditionalPut):
        raise UnsupportedFeatureError(
            f"{store.uri}: an external manifest store names its manifests, which stay as they are"
        )
    return [_moved(store, one.name.path) for one in plan.damaged if _is_damaged(store, one)]


def _look_at(store: Store, name: ManifestName) -> Manifest | DamagedVersion | None:
    """Return a manifest, its damage, or None if a cleanup has just removed it."""
    try:
        return load_named(store, name).sound()
    except NotFoundError:
        return None
    except CorruptFileError as error:
        return DamagedVersion(name, error.what)


def _is_damaged(store: Store, found: DamagedVersion) -> bool:
    """Return whether a manifest still exists and is damaged; used right before it is moved."""
    is_copy = found.name.path in LATEST_PATHS
    return not is_copy and isinstance(_look_at(store, found.name), DamagedVersion)


def _moved(store: Store, path: str) -> str:
    data = store.read(path)
    for number in range(1, _NAMES_TRIED):
        other = path + _SUFFIX + (f"-{number}" if number > 1 else "")
        if store.put_if_absent(other, data) or store.read(other) == data:
            store.delete(path)
            return other
    raise InvalidInputError(f"{store.uri}/{path}: {_NAMES_TRIED} files of this name are there")
