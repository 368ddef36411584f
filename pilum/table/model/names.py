"""Names of the files of a table, and paths built from them.

    _versions/18446744073709551612.manifest   version 3 (V2: 2**64 - 1 - version, 20 digits)
    _versions/3.manifest                      version 3 (V1, in older tables)
    _versions/d9223372036854775816.manifest   a detached version (bit 63 set), not in the history
    _versions/latest_version_hint.json        {"version":3}, for stores that list without order
    _transactions/2-{uuid}.txn                changes of the commit that read version 2
    data/{24 binary digits}{26 hex digits}.lance
    data/{the same}/{32 binary digits}.blob    blob payloads of the data file of that name
    _blobs/{uuid}.blob                        blob payloads that no data file owns
    _deletions/0-2-81.arrow                   deleted rows of fragment 0, selected in version 2
    _refs/tags/v1.json                        the version that is tagged "v1"
    _refs/branches/dev%2Ffeature.json         a branch, and the version where it began
    tree/dev/feature/                         root of the branch "dev/feature"

A table keeps its initial naming scheme. Source: docs/format/table.md, "Files".
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from pilum.errors import CorruptFileError

__all__ = [
    "BLOBS_FOLDER",
    "BRANCHES_FOLDER",
    "DATA_FOLDER",
    "DELETIONS_FOLDER",
    "DETACHED_BIT",
    "HINT_PATH",
    "LATEST_PATHS",
    "TABLE_FOLDERS",
    "TAGS_FOLDER",
    "TRANSACTIONS_FOLDER",
    "TREE_FOLDER",
    "VERSIONS_FOLDER",
    "ManifestName",
    "NamingScheme",
    "branch_folder",
    "data_path",
    "deletion_path",
    "detached_manifest_path",
    "final_name",
    "index_folder",
    "is_detached",
    "is_detached_name",
    "manifest_names",
    "new_blob_path",
    "new_data_file_name",
    "newest_manifest_name",
    "sidecar_beside",
    "sidecar_folder",
    "transaction_file_name",
    "transaction_path",
]

VERSIONS_FOLDER = "_versions"
TRANSACTIONS_FOLDER = "_transactions"
DATA_FOLDER = "data"
BLOBS_FOLDER = "_blobs"
DELETIONS_FOLDER = "_deletions"
TAGS_FOLDER = "_refs/tags"
BRANCHES_FOLDER = "_refs/branches"
TREE_FOLDER = "tree"
INDICES_FOLDER = "_indices"
TABLE_FOLDERS = (
    VERSIONS_FOLDER,
    TRANSACTIONS_FOLDER,
    DATA_FOLDER,
    BLOBS_FOLDER,
    DELETIONS_FOLDER,
    INDICES_FOLDER,
)
"""Folders with the files of one line of history."""

LATEST_PATHS = ("_latest.manifest", "latest.manifest")
"""Paths at which the oldest writers keep a copy of the newest manifest."""

HINT_PATH = f"{VERSIONS_FOLDER}/latest_version_hint.json"

DETACHED_BIT = 1 << 63
_MAX_VERSION = 2**64 - 1
_DETACHED_NAME = re.compile(r"d[0-9]{1,20}\.manifest")
_STAGED_NAME = re.compile(r"(.+\.manifest)-[0-9a-fA-F-]{36}")
_SUFFIX = ".manifest"
_V2_DIGITS = 20
_V2_LENGTH = _V2_DIGITS + len(_SUFFIX)
_OLDEST_NAME = f"{_MAX_VERSION}.manifest"


class NamingScheme(Enum):
    """The encoding of the version number in the name of a manifest."""

    V1 = 1
    V2 = 2

    def manifest_path(self, version: int) -> str:
        """Return the path of the manifest of a version, relative to the root of the table."""
        if self is NamingScheme.V1:
            return f"{VERSIONS_FOLDER}/{version}.manifest"
        return f"{VERSIONS_FOLDER}/{_MAX_VERSION - version:0{_V2_DIGITS}d}.manifest"

    def manifest_name(self, version: int) -> ManifestName:
        """Return the name of the manifest of a version."""
        return ManifestName(version, self.manifest_path(version), self)


@dataclass(frozen=True, slots=True, order=True)
class ManifestName:
    """A manifest's version number and naming scheme, as given by its file name."""

    version: int
    path: str
    scheme: NamingScheme

    @classmethod
    def parse(cls, name: str) -> ManifestName | None:
        """Parse a file name; return None unless it is the manifest of an attached version."""
        if not _is_attached(name):
            return None
        digits = len(name) - len(_SUFFIX)
        number, path = int(name[:digits]), f"{VERSIONS_FOLDER}/{name}"
        if digits < _V2_DIGITS:
            return cls(number, path, NamingScheme.V1)
        return cls(_MAX_VERSION - number, path, NamingScheme.V2) if number <= _MAX_VERSION else None


def manifest_names(file_names: Iterable[str], where: str, since: int = 0) -> list[ManifestName]:
    """Select the manifests from a listing of `_versions`, oldest version first.

    During a migration of names, the newest versions have V2 names, and one version may have both;
    any other mixture is damage. Versions before `since` may be omitted, which avoids parsing, but
    not the newest one.
    """
    texts = list(file_names)
    if since > 0 and (alone := _of_v2_alone(texts)):
        last = f"{_MAX_VERSION - since:0{_V2_DIGITS}d}.manifest"
        newest = min(alone)
        found = [name for name in alone if name <= last]
        texts = found or ([newest] if ManifestName.parse(newest) else alone)
    names = sorted(filter(None, map(ManifestName.parse, texts)), key=_by_version_and_scheme)
    schemes = [name.scheme.value for name in names]
    if schemes != sorted(schemes):
        raise CorruptFileError("manifests of two naming schemes are in one folder", where)
    return list({name.version: name for name in names}.values())


def _by_version_and_scheme(name: ManifestName) -> tuple[int, int]:
    return name.version, name.scheme.value


def newest_manifest_name(file_names: Iterable[str], where: str) -> ManifestName | None:
    """Return the last of `manifest_names`, found without parsing all of them."""
    names = list(file_names)
    # In the V2 scheme, the first name is that of the newest version.
    first = _first_of_v2_alone(names)
    if first <= _OLDEST_NAME and _is_attached(first):
        return ManifestName.parse(first)
    parsed = manifest_names(names, where)
    return parsed[-1] if parsed else None


def _of_v2_alone(names: list[str]) -> list[str]:
    """Return the names with the length of V2 names; none if there is a V1 name as well.

    There may be very many names, and hardly any others, so they are not checked further.
    """
    return [] if _is_v1_among(names) else [name for name in names if len(name) == _V2_LENGTH]


def _first_of_v2_alone(names: list[str]) -> str:
    """Return the smallest of `_of_v2_alone`, "" if there is none."""
    if _is_v1_among(names):
        return ""
    first = min(names, default="")
    if len(first) == _V2_LENGTH:
        return first  # the usual case, which avoids building another list
    return min((name for name in names if len(name) == _V2_LENGTH), default="")


def _is_v1_among(names: list[str]) -> bool:
    others = [name for name in names if len(name) != _V2_LENGTH]
    return any(map(_is_attached, others))


def _is_attached(name: str) -> bool:
    """Return whether a file name is that of the manifest of an attached version."""
    number = name.removesuffix(_SUFFIX)
    has_length = len(number) < len(name) and len(number) <= _V2_DIGITS
    return has_length and number.isascii() and number.isdecimal()


def final_name(staged: str) -> str | None:
    """Return the final name or path of a manifest with a staged name; None for any other name."""
    match = _STAGED_NAME.fullmatch(staged)
    return match[1] if match else None


def is_detached(version: int) -> bool:
    """Return whether a version number is that of a detached version."""
    return bool(version & DETACHED_BIT)


def is_detached_name(file_name: str) -> bool:
    """Return whether a file of `_versions` is the manifest of a detached version."""
    return _DETACHED_NAME.fullmatch(file_name) is not None


def detached_manifest_path(version: int) -> str:
    """Return the path of the manifest of a detached version."""
    return f"{VERSIONS_FOLDER}/d{version}.manifest"


def transaction_file_name(read_version: int, transaction_uuid: str) -> str:
    """Return the name of a transaction file; the commit that creates a table has read version 0."""
    return f"{read_version}-{transaction_uuid}.txn"


def transaction_path(file_name: str) -> str:
    """Return the path of a transaction file, below the root of the table."""
    return f"{TRANSACTIONS_FOLDER}/{file_name}"


def branch_folder(branch: str) -> str:
    """Return the root of a branch, below that of the main line."""
    return f"{TREE_FOLDER}/{branch}"


def index_folder(uuid: str) -> str:
    """Return the folder of the files of an index, below the root of the table."""
    return f"{INDICES_FOLDER}/{uuid}"


def data_path(file_path: str) -> str:
    """Return the path of a data file below the table's root, from its `DataFile.path`."""
    return f"{DATA_FOLDER}/{file_path}"


def sidecar_folder(file_path: str) -> str:
    """Return the folder of the sidecar files of a data file, from its `DataFile.path`."""
    return f"{DATA_FOLDER}/{file_path.removesuffix('.lance')}"


def sidecar_beside(path: str, blob_id: int) -> str:
    """Return the path of a sidecar of the data file at `path`: the bits of its number, reversed."""
    return f"{path.removesuffix('.lance')}/{f'{blob_id:032b}'[::-1]}.blob"


def deletion_path(fragment_id: int, read_version: int, number: int, suffix: str) -> str:
    """Return the path of a deletion file, below the root of the table."""
    return f"{DELETIONS_FOLDER}/{fragment_id}-{read_version}-{number}.{suffix}"


def new_blob_path() -> str:
    """Return the path of a new object for payloads of managed blobs, relative to its folder."""
    return f"{BLOBS_FOLDER}/{uuid.uuid4()}.blob"


def new_data_file_name(prefix: str | None = None) -> str:
    """Return a new, unique file name; a prefix, with a hyphen, marks the owner of the file.

    The first bytes are binary digits so that object stores, which partition by prefix, spread the
    files.
    """
    random = uuid.uuid4().bytes
    name = f"{int.from_bytes(random[:3], 'big'):024b}{random[3:].hex()}.lance"
    return f"{prefix}-{name}" if prefix else name
