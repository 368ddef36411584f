"""Tags: names for versions, one JSON file each, stored outside of the history.

    _refs/tags/v1.json

    {
      "branch": null,
      "version": 3,
      "createdAt": "2026-11-20T16:13:02.444069270Z",
      "updatedAt": "2026-11-20T16:13:02.444069270Z",
      "manifestSize": 526,
      "metadata": {}
    }

A tag is created if no file of its name exists, so one of two concurrent creators wins. Later
changes replace the file: the last change wins. Source: docs/format/table.md, "Tags".
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pilum.errors import (
    CorruptFileError,
    InvalidInputError,
    NotFoundError,
    TagAlreadyExistsError,
    TagNotFoundError,
)
from pilum.storage.base import Store
from pilum.table.model.names import TAGS_FOLDER
from pilum.table.refs.ref_files import RefFiles, encode_ref, number_in, object_in, texts_in
from pilum.table.versions.history import Line, manifest_size

__all__ = [
    "Tag",
    "create_tag",
    "delete_tag",
    "list_tags",
    "load_tag",
    "move_tag",
    "replace_tag_metadata",
]

_CHARACTERS = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class Tag:
    """The record of a tag.

    Attributes:
        version: Number of the version, which may not exist.
        branch: Name of the branch that the version is on, None for the main line.
        manifest_size: Size in bytes of the manifest.
        created_at: When the tag was created; None in tags of older writers.
        updated_at: When the tag was last moved; None in tags of older writers.
        metadata: Key-value notes, set by users.
    """

    version: int
    branch: str | None
    manifest_size: int
    created_at: datetime | None
    updated_at: datetime | None
    metadata: Mapping[str, str]

    @classmethod
    def from_json(cls, values: Any, where: str) -> Tag:
        """Parse the content of a tag file; raise CorruptFileError if it is no record of a tag."""
        values = object_in(values, "a tag", where)
        branch = values.get("branch")
        if not (branch is None or isinstance(branch, str)):
            raise CorruptFileError(f"a tag of branch {branch!r:.50}", where)
        return cls(
            number_in(values, "version", "a tag", where),
            branch,
            number_in(values, "manifestSize", "a tag", where),
            _moment(values, "createdAt", where),
            _moment(values, "updatedAt", where),
            texts_in(values, "metadata", "a tag", where),
        )


def list_tags(store: Store) -> dict[str, Tag]:
    """Return all tags of a table, by name."""
    found = {}
    for name, _ in _FILES.names(store):
        if not _fault(name):
            with suppress(TagNotFoundError):  # deleted since the folder was listed
                found[name] = load_tag(store, name)
    return dict(sorted(found.items()))


def load_tag(store: Store, name: str) -> Tag:
    """Read a tag, with the errors of `RefFiles.load`."""
    return _FILES.load(store, name)


def create_tag(line: Line, name: str, version: int) -> None:
    """Create a tag for a version of a line of history; the errors are those of `Tags.create`."""
    if not _FILES.checked(name).isascii():
        raise InvalidInputError(f"tag {name!r}: use letters and digits of ASCII")
    now = _now()
    values: dict[str, Any] = {
        "branch": line.branch,
        "version": version,
        "createdAt": now,
        "updatedAt": now,
        "manifestSize": manifest_size(line.store, version),
        "metadata": {},
    }
    if not line.root.put_if_absent(_FILES.path(name), encode_ref(values)):
        raise TagAlreadyExistsError(f"{line.root.uri} has a tag {name!r} already; update moves it")


def move_tag(line: Line, name: str, version: int) -> None:
    """Move a tag to another version; the errors are those of `Tags.update`."""
    load_tag(line.root, name)
    size = manifest_size(line.store, version)
    moved = {"branch": line.branch, "version": version, "updatedAt": _now(), "manifestSize": size}
    _FILES.replace(line.root, name, moved)


def replace_tag_metadata(store: Store, name: str, metadata: Mapping[str, str]) -> None:
    """Replace the metadata of a tag; the errors are those of `load_tag`."""
    _FILES.replace(store, name, {"metadata": dict(metadata)})


def delete_tag(store: Store, name: str) -> None:
    """Delete a tag; the version stays. Raise TagNotFoundError if there is none."""
    try:
        store.source(_FILES.path(_FILES.checked(name))).close()
    except NotFoundError:
        raise _FILES.not_found(store, name) from None
    store.delete(_FILES.path(name))


def _fault(name: Any) -> str:
    """Return why this is not a valid name, or "" if it is valid."""
    if not isinstance(name, str) or not _CHARACTERS.fullmatch(name):
        return "expected letters, digits, '.', '-' and '_'"
    if name.startswith(".") or name.endswith(".") or ".." in name:
        return "a dot must be single and within the name"
    return "names must not end with .lock" if name.endswith(".lock") else ""


_FILES = RefFiles(TAGS_FOLDER, "tag", _fault, TagNotFoundError, Tag.from_json)


def _now() -> str:
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"


def _moment(values: Mapping[str, Any], key: str, where: str) -> datetime | None:
    text = values.get(key)
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (TypeError, ValueError, OverflowError) as error:
        raise CorruptFileError(f"a tag whose {key} is {text!r:.50}", where) from error
