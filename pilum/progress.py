"""Progress of long operations, for objects that users pass; `progress_display` shows bars.

IndexProgress             one message about the build of an index
FragmentWriteProgress     is called at the beginning and the end of each new fragment
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

__all__ = [
    "FileSystemFragmentWriteProgress",
    "FragmentWriteProgress",
    "IndexProgress",
    "NoopFragmentWriteProgress",
]


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """One message about the progress of a build.

    Attributes:
        event: "start", "progress" or "complete".
        stage: Name of the stage.
        completed: Units of work that are done; None if unknown.
        total: Units of work of the stage; None if unknown.
        unit: Unit of work, such as "rows".
    """

    event: Literal["start", "progress", "complete"]
    stage: str
    completed: int | None = None
    total: int | None = None
    unit: str = ""

    @property
    def fraction(self) -> float | None:
        """The share of the work that is done; None if unknown."""
        if self.completed is None or not self.total:
            return None
        return min(self.completed / self.total, 1.0)


class _Fragment(Protocol):
    """A `pilum.FragmentMetadata`."""

    id: int

    def to_json(self) -> dict[str, Any]: ...


class FragmentWriteProgress(ABC):
    """Is called when a write begins and finishes each new fragment.

    The fragments are `pilum.FragmentMetadata`. Their ids are those that a commit to an empty table
    would assign.
    """

    @abstractmethod
    def begin(self, fragment: _Fragment, **kwargs: Any) -> None:
        """Take notice of a fragment whose file is about to be written, and has no rows yet."""

    @abstractmethod
    def complete(self, fragment: _Fragment, **kwargs: Any) -> None:
        """Take notice of a fragment whose file is written."""


class NoopFragmentWriteProgress(FragmentWriteProgress):
    """Does nothing."""

    def begin(self, fragment: _Fragment, **kwargs: Any) -> None:
        """Do nothing."""

    def complete(self, fragment: _Fragment, **kwargs: Any) -> None:
        """Do nothing."""


class FileSystemFragmentWriteProgress(FragmentWriteProgress):
    """Keeps a file for each fragment that is being written.

        fragment_0.in_progress    {"fragment_id": 0, "metadata": {…}}, while it is being written
        fragment_0.json           the fragment as it began

    Args:
        base_uri: Folder for the files: a path, or a URI for `pyarrow.fs`.
        metadata: Facts to store in each file of a fragment in progress, such as the name of the
            worker.
    """

    PROGRESS_EXT: str = ".in_progress"

    def __init__(self, base_uri: str, metadata: Mapping[str, str] | None = None) -> None:
        from pyarrow.fs import FileSystem

        uri = base_uri if "://" in base_uri else os.path.abspath(base_uri)
        self._files, self._folder = FileSystem.from_uri(uri)
        self._metadata = dict(metadata or {})

    def begin(self, fragment: _Fragment, **kwargs: Any) -> None:
        """Write both files."""
        self._files.create_dir(self._folder, recursive=True)
        facts = {"fragment_id": fragment.id, "metadata": self._metadata}
        self._write(self._marker(fragment), facts)
        self._write(f"{self._folder}/fragment_{fragment.id}.json", fragment.to_json())

    def complete(self, fragment: _Fragment, **kwargs: Any) -> None:
        """Delete the file that says that the fragment is in progress."""
        self._files.delete_file(self._marker(fragment))

    def _marker(self, fragment: _Fragment) -> str:
        return f"{self._folder}/fragment_{fragment.id}{self.PROGRESS_EXT}"

    def _write(self, path: str, facts: Any) -> None:
        with self._files.open_output_stream(path) as file:
            file.write(json.dumps(facts).encode())
