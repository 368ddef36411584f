"""Going back to a whole version of a table whose newest manifest is damaged. Nothing is removed.

    version 3    whole
    version 4    damaged      nothing can be committed after it, and only older versions opened
    version 5                 `restore_whole`: the content of version 3

    _versions/18446744073709551611.manifest             `set_aside` renames the damaged manifest,
    _versions/18446744073709551611.manifest.damaged     so that no reader takes it for a version

The restored version comes first, so that the number of a damaged one is never given again. For as
long as a damaged manifest has its name, no cleanup removes files: nothing can say which of them
it needs. Source: docs/guide/upkeep.md, "A damaged version".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pilum.errors import CorruptFileError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from pilum.storage.ahead import at_once
from pilum.storage.base import Store
from pilum.table.commit.operations.restore import Restore
from pilum.table.commit.transaction import Transaction
from pilum.table.model.manifest import Manifest
from pilum.table.model.names import LATEST_PATHS, ManifestName
from pilum.table.upkeep.auto_cleanup import commit_and_clean_up
from pilum.table.versions.commit_handler import ConditionalPut, handler_of
from pilum.table.versions.history import list_manifests, load_named, sound

__all__ = ["DamagedVersion", "RepairPlan", "plan_repair", "restore_whole", "set_aside"]

_SUFFIX = ".damaged"
_NAMES_TRIED = 100


@dataclass(frozen=True, slots=True)
class DamagedVersion:
    """A version whose manifest contradicts the format.

    Attributes:
        name: Its number and path.
        what: What is wrong.
    """

    name: ManifestName
    what: str


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What is wrong with the history of a table.

    Attributes:
        newest: Number of the newest version, damaged or not.
        damaged: Damaged versions, oldest first.
        whole: The newest version that is whole, None if there is none.
    """

    newest: int
    damaged: tuple[DamagedVersion, ...]
    whole: Manifest | None

    @property
    def is_blocked(self) -> bool:
        """Whether the newest version is damaged, so that the table cannot be opened as usual."""
        return bool(self.damaged) and self.damaged[-1].name.version == self.newest


def plan_repair(store: Store) -> RepairPlan:
    """Reads all manifests of a line of history and finds those that are damaged.

    Raises:
        InvalidInputError: If there is no version at all.
        UnsupportedFormatError: If a version needs a newer library, which is no damage.
        OSError: If the store failed, which says nothing about a manifest.
    """
    names = list_manifests(store)
    if not names:
        raise InvalidInputError(f"there is no version of a table at {store.uri}")
    found = at_once(store, [partial(_look_at, store, name) for name in names])
    damaged = tuple(one for one in found if isinstance(one, DamagedVersion))
    whole = [one for one in found if isinstance(one, Manifest)]
    return RepairPlan(names[-1].version, damaged, whole[-1] if whole else None)


def restore_whole(store: Store, plan: RepairPlan) -> int:
    """Commits a version with the content of the newest whole one.

    Returns:
        Its number.

    Raises:
        InvalidInputError: If the newest version is whole, or no version is.
        CommitConflictError: If a version came after the damaged one: plan again.
    """
    if not plan.is_blocked:
        raise InvalidInputError(f"{store.uri}: the newest version is not damaged")
    if plan.whole is None:
        raise InvalidInputError(f"{store.uri} has no version that is whole")
    operation = Restore(plan.whole.version, only_after=plan.newest)
    return commit_and_clean_up(store, Transaction(plan.newest, operation)).version


def set_aside(store: Store, plan: RepairPlan) -> list[str]:
    """Gives the manifests of damaged versions names that no reader takes for a version.

    Each is written under its new name before the old one is removed, so that being stopped leaves
    both. Files that only such a manifest names belong to no version then, and a later cleanup
    removes them.

    Returns:
        The new paths.

    Raises:
        InvalidInputError: If the newest version is damaged: it must be followed by another first.
        UnsupportedFeatureError: If something else than names of files decides about versions.
    """
    if plan.is_blocked:
        raise InvalidInputError(
            f"{store.uri}: version {plan.newest} is the newest and damaged; restore another first, "
            "so that its number is not given again"
        )
    if not isinstance(handler_of(store), ConditionalPut):
        raise UnsupportedFeatureError(
            f"{store.uri}: an external manifest store names its manifests, which stay as they are"
        )
    return [_moved(store, one.name.path) for one in plan.damaged if _is_damaged(store, one)]


def _look_at(store: Store, name: ManifestName) -> Manifest | DamagedVersion | None:
    """The manifest, what is wrong with it, or None if a cleanup has just removed it."""
    try:
        return sound(load_named(store, name))
    except NotFoundError:
        return None
    except CorruptFileError as error:
        return DamagedVersion(name, error.what)


def _is_damaged(store: Store, found: DamagedVersion) -> bool:
    """Whether a manifest is still there and damaged, read once more before it is moved."""
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
