"""Check a machine, or that the processes of a cluster run the same code and reach the same store.

    driver    note "driver" ──▶ {table}/_jobs/doctor-…/        ◀── all notes are there?
    tasks     their machine; read the note of the driver, write a note of their own

The notes are deleted at the end. Nothing else is written.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from pilum.distributed.jobs import Attempt
from pilum.distributed.journal import JOBS_FOLDER, Journal
from pilum.distributed.tasks import Tasks
from pilum.errors import PilumError
from pilum.version import __version__

__all__ = ["Finding", "Machine", "examine", "examine_machine", "this_machine"]

K = TypeVar("K", bound=Hashable)

_LEAST_FREE_BYTES = 1 << 30
_MOST_SKEW_SECONDS = 5.0
_DRIVER = "driver"
_STORE_ERRORS = (PilumError, OSError)


@dataclass(frozen=True)
class Machine:
    """The facts of one process.

    Attributes:
        host: Name of the machine.
        versions: Versions of Python, pyarrow and pilum, and a digest of pilum's files.
        seconds: Its clock, in seconds since 1970.
        free_bytes: Free space of the folder for temporary files.
        store_error: Why the store could not be used; empty if it could.
    """

    host: str
    versions: tuple[tuple[str, str], ...]
    seconds: float
    free_bytes: int
    store_error: str = ""


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        check: What was checked: "versions", "store", "clock", "disk" or "settings".
        where: The machine, or several of them.
        is_ok: Whether nothing is to be done.
        detail: What was found.
        remedy: What to do; empty if nothing.
    """

    check: str
    where: str
    is_ok: bool
    detail: str
    remedy: str = field(default="")


def this_machine(store_error: str = "") -> Machine:
    """Return the facts of this process."""
    versions = {
        "pilum": __version__,
        "pilum's files": _digest(),
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
    }
    free_bytes = shutil.disk_usage(tempfile.gettempdir()).free
    return Machine(platform.node(), (*versions.items(),), time.time(), free_bytes, store_error)


def examine(
    tasks: Tasks, uri: str, num_tasks: int, storage_options: Mapping[str, str] | None = None
) -> list[Finding]:
    """Check the driver and the machines that run tasks.

    Args:
        tasks: The engine.
        uri: Location of a table, or of one that is to be created.
        num_tasks: Number of tasks; with more tasks than slots, all machines take part.
        storage_options: Settings of the store.
    """
    notes = _notes(uri, storage_options)
    own = this_machine(_stored(notes, _DRIVER))
    try:
        begun = time.time()
        found = tasks.run(range(num_tasks), partial(_look, notes)) if not own.store_error else []
        ended = time.time()
        missing = _missing(notes, num_tasks) if found else []
    finally:
        _forget(notes)
    workers = list({one.host: one for one in found}.values())
    return [
        *_versions(own, found),
        *_stores(uri, own, found, missing),
        *_clocks(found, begun, ended),
        *_disks([own, *workers]),
    ]


def examine_machine(uri: str, storage_options: Mapping[str, str] | None = None) -> list[Finding]:
    """Check this machine alone.

    Args:
        uri: Location of a table, or of one that is to be created.
        storage_options: Settings of the store.
    """
    notes = _notes(uri, storage_options)
    try:
        own = this_machine(_stored(notes, _DRIVER) or _unseen(notes))
    finally:
        _forget(notes)
    findings = *_versions(own, ()), *_stores(uri, own, (), []), *_disks([own])
    return [replace(one, where=own.host) for one in findings]


def _notes(uri: str, storage_options: Mapping[str, str] | None) -> Journal:
    name, folder = f"doctor-{uuid.uuid4()}", f"{uri.rstrip('/')}/{JOBS_FOLDER}"
    return Journal(uri, name, folder, dict(storage_options or {}))


def _look(notes: Journal, number: int, attempt: Attempt) -> Machine:
    """Look around in a task."""
    return this_machine(_unseen(notes) or _stored(notes, f"task-{number}"))


def _unseen(notes: Journal) -> str:
    """Return why the note of the driver cannot be read; empty if it can."""
    try:
        seen = notes.note(_DRIVER)
    except _STORE_ERRORS as error:
        return f"cannot read: {error}"
    return "does not see what the driver wrote" if seen is None else ""


def _stored(notes: Journal, name: str) -> str:
    """Write a note; return why that failed."""
    try:
        notes.put_note(name, {"host": platform.node()})
    except _STORE_ERRORS as error:
        return f"cannot write: {error}"
    return ""


def _missing(notes: Journal, num_tasks: int) -> list[int]:
    return [number for number in range(num_tasks) if notes.note(f"task-{number}") is None]


def _forget(notes: Journal) -> None:
    try:
        notes.remove()
    except _STORE_ERRORS as error:
        print(f"pilum: {notes.location}/{notes.job} is left: {error}", file=sys.stderr)


def _versions(own: Machine, found: Iterable[Machine]) -> list[Finding]:
    mine = dict(own.versions)
    text = ", ".join(f"{name} {version}" for name, version in own.versions)
    findings = [Finding("versions", _DRIVER, True, text)]
    for versions, hosts in _by(found, lambda one: one.versions).items():
        others = {name: text for name, text in versions if mine[name] != text}
        detail = ", ".join(f"{name} {text}, not {mine[name]}" for name, text in others.items())
        remedy = "install the same packages on all machines" if others else ""
        findings.append(Finding("versions", hosts, not others, detail or "as the driver", remedy))
    return findings


def _stores(uri: str, own: Machine, found: Sequence[Machine], missing: list[int]) -> list[Finding]:
    if own.store_error:
        remedy = "check the location, the storage options and the permissions of the driver"
        return [Finding("store", _DRIVER, False, f"{uri}: {own.store_error}", remedy)]
    findings = [Finding("store", _DRIVER, True, f"{uri}: reads and writes")]
    for error, hosts in _by(found, lambda one: one.store_error).items():
        remedy = "use a location that all machines share, with permissions for all of them"
        text = f"{uri}: {error or 'reads and writes'}"
        findings.append(Finding("store", hosts, not error, text, remedy if error else ""))
    if missing and not any(one.store_error for one in found):
        text = f"{uri}: does not see what {len(missing)} tasks wrote"
        findings.append(Finding("store", _DRIVER, False, text, "use a location that is shared"))
    return findings


def _clocks(found: Iterable[Machine], begun: float, ended: float) -> list[Finding]:
    """Compare clocks: tasks ran between two times of the driver."""
    skews = {one.host: max(begun - one.seconds, one.seconds - ended, 0.0) for one in found}
    return [
        Finding(
            "clock",
            host,
            skew <= _MOST_SKEW_SECONDS,
            f"differs by {skew:.1f} s from the driver's",
            "" if skew <= _MOST_SKEW_SECONDS else "synchronize clocks: cleanup compares ages",
        )
        for host, skew in skews.items()
    ]


def _disks(machines: Iterable[Machine]) -> list[Finding]:
    return [
        Finding(
            "disk",
            one.host,
            one.free_bytes >= _LEAST_FREE_BYTES,
            f"{one.free_bytes / (1 << 30):.1f} GiB free for temporary files",
            "" if one.free_bytes >= _LEAST_FREE_BYTES else "free space, or set TMPDIR",
        )
        for one in {machine.host: machine for machine in machines}.values()
    ]


def _by(machines: Iterable[Machine], key: Callable[[Machine], K]) -> dict[K, str]:
    """Return the names of the machines that share a fact, by the fact."""
    hosts: dict[K, set[str]] = {}
    for one in machines:
        hosts.setdefault(key(one), set()).add(one.host)
    return {fact: ", ".join(sorted(names)) for fact, names in hosts.items()}


def _digest() -> str:
    """Return a digest of the names and sizes of pilum's files."""
    root = Path(__file__).parents[1]
    files = sorted(path for path in root.rglob("*") if path.suffix in {".py", ".so"})
    texts = (f"{path.relative_to(root)} {path.stat().st_size}" for path in files)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]
