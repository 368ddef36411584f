"""The journal of a job, with which it resumes after a failure: a folder of small objects.

    {table}/_jobs/{job}/plan.json          what the job does, and to which fragments
    {table}/_jobs/{job}/{fragment}.json    the file of a fragment, noted by the task that wrote it
    {table}/_jobs/{job}/committed.json     fragments whose files are committed, while others are not
    {table}/_jobs/{job}/segment-{uuid}.json    a segment of an index, noted by the task

The plan is written first, and each object atomically. The folder belongs to no version; it is
deleted after everything is committed. A journal may be stored elsewhere, where the driver and all
workers can reach it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pilum.distributed.column_files import ColumnFile
from pilum.errors import CorruptFileError, InvalidInputError, NotFoundError
from pilum.storage.base import Store
from pilum.storage.open import open_store
from pilum.table.versions.commit_handler import open_table

__all__ = ["JOBS_FOLDER", "Journal"]

JOBS_FOLDER = "_jobs"
_PLAN = "plan"
_COMMITTED = "committed"
_SUFFIX = ".json"
_FRAGMENT = re.compile(r"[0-9]+\.json")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Journal:
    """The journal of one job; picklable.

    `uri` is the location of the table, `location` that of the journals; None for its own folder.
    """

    uri: str
    job: str
    location: str | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.job, str) or not _NAME.fullmatch(self.job):
            raise InvalidInputError(
                f"job: expected a name of up to 100 letters, digits, '.', '_' and '-', found "
                f"{self.job!r}"
            )

    def begin(
        self, facts: Mapping[str, Any], plan: Mapping[str, Any], *, restart: bool = False
    ) -> dict[str, Any]:
        """Record what the job does and return the plan in effect, which is that of the first run.

        `facts` say what the job does, `plan` the fragments that it changes; with `restart`, the
        plan replaces that of the first run. InvalidInputError is raised if the name belongs to a
        different job.
        """
        mine = json.loads(json.dumps({"facts": facts, "plan": plan}))
        if restart:
            self.put_note(_PLAN, mine)
            return dict(mine["plan"])
        found = self.keep_note(_PLAN, mine)
        try:
            begun, first = found["facts"], dict(found["plan"])
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptFileError(f"no plan of a job: {error}", self._path(_PLAN)) from error
        if begun != mine["facts"]:
            raise InvalidInputError(
                f"job {self.job!r} was begun with {begun}, not {mine['facts']}; choose another "
                f"name, or delete {self._store().uri}/{self._path('')}"
            )
        return first

    def keep(self, finished: ColumnFile) -> None:
        """Record the finished file of a fragment."""
        path = self._path(f"{finished.fragment.id}.json")
        self._store().put(path, finished.to_json().encode())

    def finished(self) -> dict[int, ColumnFile]:
        """Return the still existing files of earlier runs, by fragment; skip damaged notes."""
        store, table = self._store(), open_table(self.uri, self.storage_options)
        found: dict[int, ColumnFile] = {}
        sizes = {entry.name: entry.size for entry in table.list("data")}
        for entry in store.list(self._path("").rstrip("/")):
            if not _FRAGMENT.fullmatch(entry.name):
                continue
            try:
                one = ColumnFile.from_json(store.read(self._path(entry.name)))
            except (InvalidInputError, NotFoundError):
                continue
            if one.file is None or sizes.get(one.file.path) == one.file.size_bytes:
                found[one.fragment.id] = one
        return found

    def keep_committed(self, fragments: Iterable[int]) -> None:
        """Record the fragments whose files are part of the table."""
        self.put_note(_COMMITTED, sorted(fragments))

    def committed(self) -> set[int]:
        """Return the fragments recorded as having their files in the table."""
        try:
            return {int(number) for number in self.note(_COMMITTED) or ()}
        except (ValueError, TypeError) as error:
            raise CorruptFileError(f"no numbers: {error}", self._path(_COMMITTED)) from error

    def keep_note(self, name: str, note: Any) -> Any:
        """Store a note as JSON, unless one of that name exists; return the stored one."""
        path = self._path(f"{name}.json")
        if self._store().put_if_absent(path, json.dumps(note).encode()):
            return note
        return self.note(name)

    def put_note(self, name: str, note: Any) -> None:
        """Store a note, replacing an existing one."""
        self._store().put(self._path(f"{name}.json"), json.dumps(note).encode())

    def note(self, name: str) -> Any:
        """Return a note, None if there is none; raise CorruptFileError if it is damaged."""
        store, path = self._store(), self._path(f"{name}.json")
        try:
            return json.loads(store.read(path))
        except NotFoundError:
            return None
        except ValueError as error:
            raise CorruptFileError(f"no JSON: {error}", f"{store.uri}/{path}") from error

    def notes(self, prefix: str) -> list[Any]:
        """Return the notes whose names start with a prefix; skip damaged ones."""
        names = [entry.name for entry in self._store().list(self._path("").rstrip("/"))]
        found = []
        for name in sorted(names):
            if name.startswith(prefix) and name.endswith(_SUFFIX):
                with suppress(CorruptFileError):
                    found.append(self.note(name.removesuffix(_SUFFIX)))
        return found

    def remove(self) -> None:
        """Delete the journal after everything is committed; the plan is deleted last."""
        store = self._store()
        names = [entry.name for entry in store.list(self._path("").rstrip("/"))]
        for name in sorted(names, key=f"{_PLAN}.json".__eq__):
            store.delete(self._path(name))

    def _store(self) -> Store:
        if self.location is not None:
            return open_store(self.location, self.storage_options)
        return open_table(self.uri, self.storage_options)

    def _path(self, name: str) -> str:
        return f"{self.job}/{name}" if self.location else f"{JOBS_FOLDER}/{self.job}/{name}"
