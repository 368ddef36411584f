"""Lines of history: the main line of a table, and its branches.

    table.lance/                 root of the main line; the names of tags and branches are here
    └── tree/dev/feature/        root of the branch "dev/feature": a table of its own

A version is identified by its line and its number. The version numbers of a branch continue from
the version where the branch began. Source: docs/format/table.md, "Branches".
"""

from __future__ import annotations

from dataclasses import dataclass

from pilum.errors import CorruptFileError
from pilum.storage.base import Store
from pilum.table.model.base_paths import own_store
from pilum.table.model.names import TREE_FOLDER, branch_folder
from pilum.table.versions.commit_handler import open_line
from pilum.table.versions.history import latest_manifest, load_named, newest_sound, no_table

__all__ = ["MAIN", "Line", "uri_of_line"]

MAIN = "main"
"""Name by which users may refer to the main line."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of history: the main line or a branch.

    Attributes:
        root: Store at the root of the main line.
        branch: Name of the branch, None for the main line.
        store: Store at the root of this line.
    """

    root: Store
    branch: str | None
    store: Store

    @classmethod
    def of(cls, store: Store, branch: str | None) -> Line:
        """Return the line that a manifest is on.

        Args:
            store: Store that contains the manifest.
            branch: The branch that the manifest names. A branch that was copied elsewhere is a main
                line there.
        """
        store = own_store(store)
        uri = store.uri.rstrip("/")
        suffix = f"/{branch_folder(branch)}" if branch else ""
        if not branch or not uri.endswith(suffix):
            return cls(store, None, store)
        return cls(open_line(store, uri.removesuffix(suffix)), branch, store)

    @classmethod
    def at(cls, store: Store) -> Line:
        """Return the line with this root; a manifest is read only below a folder of branches.

        Raises:
            CorruptFileError: If all manifests of the line contradict the format.
        """
        if f"/{TREE_FOLDER}/" not in store.uri:
            return cls(store, None, store)
        name = latest_manifest(store)
        if name is None:
            return cls.of(store, None)
        try:
            return cls.of(store, load_named(store, name).branch)
        except CorruptFileError:
            if (whole := newest_sound(store, name.version)) is None:
                raise
            return cls.of(store, whole.branch)

    def other(self, branch: str | None) -> Line:
        """Return another line of the same table, without checking that it exists."""
        if branch in {None, MAIN}:
            return Line(self.root, None, self.root)
        if branch == self.branch:
            return self
        uri = f"{self.root.uri.rstrip('/')}/{branch_folder(str(branch))}"
        return Line(self.root, branch, open_line(self.root, uri))

    def newest(self) -> int:
        """Return the number of the newest version.

        Raises:
            DatasetNotFoundError: If the line has no version.
        """
        name = latest_manifest(self.store)
        if name is None:
            raise no_table(self.store)
        return name.version


def uri_of_line(uri: str, current: str | None, wanted: str | None) -> str:
    """Return the location of a line as users write it, from that of another line of the table.

    Args:
        uri: Location of the line `current`.
        current: Branch at `uri`, None for the main line.
        wanted: Branch to locate, None for the main line.
    """
    if current == wanted:
        return uri
    path, mark, query = uri.partition("?") if "://" in uri else (uri, "", "")
    path = path.rstrip("/")
    if current:
        path = path.removesuffix(f"/{branch_folder(current)}")
    if wanted:
        path = f"{path}/{branch_folder(wanted)}"
    return f"{path}{mark}{query}"
