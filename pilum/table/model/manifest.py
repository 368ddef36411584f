"""The manifest: the complete description of one version of a table.

Its fragments are a lazy sequence (`fragments.py`); everything else is a plain value. This module
converts between the protobuf message and Python objects; `pilum.table.model.manifest_file` handles
the surrounding bytes of the file. Source: docs/format/table.md, "Manifest".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.unknown_fields import UnknownFieldSet

from pilum.errors import CorruptFileError, UnsupportedFeatureError, UnsupportedVersionError
from pilum.format.messages import has_unknown_members
from pilum.format.pb import file_pb2, table_pb2
from pilum.format.schema import Schema
from pilum.format.version import DEFAULT_VERSION, FileVersion
from pilum.lazy import cached_property
from pilum.table.model.base_paths import BasePath, require_distinct
from pilum.table.model.coverage import without_overlaid
from pilum.table.model.features import SUPPORTED, Feature
from pilum.table.model.fragments import Fragments
from pilum.table.model.stored_fragments import StoredFragments

__all__ = [
    "THIS_WRITER",
    "Manifest",
    "WriterVersion",
    "moment_of",
    "nanoseconds_of",
    "require_readable",
    "require_writable",
]

_NANOSECONDS = 10**9
_FIRST_CERTAIN_COVERAGE = (0, 8, 15)
_EPOCH = datetime.fromtimestamp(0, UTC)
_FIRST_SECOND_OF_9999 = 253_370_764_800
_MAX_FRAGMENT_ID = 2**32 - 1
"""Start of the last year of `datetime`, which is excluded so that any time zone can be used."""
_KEPT = Feature.MIXED_DATA_FILE_VERSIONS | Feature.STABLE_ROW_IDS | Feature.MANAGED_BLOBS
_STORAGE_CLASS = 11  # of a field, in manifests of 0.20 to 0.36; no longer has a meaning
_UNCARRIED = ("clustering", "max_clustering_id")


class WriterVersion(NamedTuple):
    """The library and version that wrote a manifest."""

    library: str
    version: str


THIS_WRITER = WriterVersion("pilum", "0.1.0")


@dataclass(frozen=True)
class Manifest:
    """A version of a table.

    Attributes:
        schema: The columns.
        fragments: The fragments, in scan order.
        version: 1, 2, …; 0 only before the first commit.
        timestamp_ns: Commit time, nanoseconds since 1970 (UTC).
        data_format: Version of the data files that are written by default, such as "2.1".
        max_fragment_id: Highest fragment id ever assigned, None if there was none yet.
        config: Configuration of the table.
        table_metadata: User metadata of the table.
        reader_flags: See `pilum.table.model.features`; includes features that only the content
            shows.
        writer_flags: See `pilum.table.model.features`.
        transaction_file: Name of the file below `_transactions/`, empty if there is none.
        writer_version: None in tables of the oldest writers, whose row counts are unreliable.
        branch: Name of the branch, None on the main line.
        base_paths: Folders outside the table's own that hold files of the table.
        next_row_id: First free row id (with stable row ids).
        max_allocated_field_id: Highest field id ever assigned, in tables that never reuse field
            ids; None in others.
        index_section: `IndexSection` as it was read, byte for byte, if there are no overlays; empty
            without indices.
        message: The message of the manifest that this one was read or derived from, if any, without
            the fragments. It may have members that no other attribute represents.
    """

    schema: Schema
    fragments: Fragments
    version: int
    timestamp_ns: int = 0
    data_format: str = str(DEFAULT_VERSION)
    max_fragment_id: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    table_metadata: Mapping[str, str] = field(default_factory=dict)
    reader_flags: int = 0
    writer_flags: int = 0
    transaction_file: str = ""
    writer_version: WriterVersion | None = THIS_WRITER
    branch: str | None = None
    base_paths: tuple[BasePath, ...] = ()
    next_row_id: int = 0
    max_allocated_field_id: int | None = None
    index_section: bytes = b""
    message: table_pb2.Manifest | None = field(default=None, compare=False, repr=False)

    @property
    def data_version(self) -> FileVersion:
        """The file version in which data is read and written; UnsupportedVersionError if new."""
        for version in FileVersion:
            if str(version) == self.data_format:
                return version
        raise UnsupportedVersionError(
            f"the table has data files of version {self.data_format:.40}; "
            f"supported: {', '.join(map(str, FileVersion))}"
        )

    @property
    def timestamp(self) -> datetime:
        """The commit time in UTC, truncated to microseconds."""
        return moment_of(self.timestamp_ns)

    @property
    def num_rows(self) -> int:
        """The number of rows that are not deleted, as far as it was recorded."""
        return self.fragments.num_rows

    @property
    def is_legacy(self) -> bool:
        """Whether the data files are of version 0.1."""
        return self.data_format == str(FileVersion.LEGACY)

    @property
    def has_doubtful_coverage(self) -> bool:
        """Whether its writer may have recorded too many fragments for an index (before 0.8.15)."""
        if not self.index_section:
            return False
        if self.writer_version is None:
            return True
        library, version = self.writer_version
        numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
        return library == "lance" and numbers < _FIRST_CERTAIN_COVERAGE

    @cached_property
    def is_lossy(self) -> bool:
        """Whether the message has members, at any depth, that the attributes cannot represent."""
        return self.fragments.are_lossy or (self.message is not None and _is_lossy(self.message))

    @property
    def highest_fragment_id(self) -> int:
        """The highest fragment id ever assigned, -1 if there was none."""
        known = -1 if self.max_fragment_id is None else self.max_fragment_id
        return max(known, self.fragments.highest_id)

    @property
    def highest_possible_fragment_id(self) -> int:
        """The highest id that a fragment may have had: old tables do not record the highest one."""
        return _MAX_FRAGMENT_ID if self.max_fragment_id is None else self.highest_fragment_id

    @property
    def first_new_field_id(self) -> int:
        """The first field id for an overwrite: 0, unless field ids are never reused."""
        return 0 if self.max_allocated_field_id is None else self.max_allocated_field_id + 1

    @property
    def contradiction(self) -> str:
        """Describe how fragments contradict the table or each other, as in some of release 0.16."""
        if not self.fragments.are_distinct:
            return "two fragments have one id"
        flags = self.reader_flags | self.writer_flags
        if flags & Feature.STABLE_ROW_IDS and not self.fragments.have_row_ids:
            lacking = [str(one.id) for one in self.fragments if one.row_ids is None]
            return f"stable row ids, but not in the fragments {', '.join(lacking[:3])}"
        if self.writer_flags & Feature.MIXED_DATA_FILE_VERSIONS:
            return ""
        formats = sorted({_format_of_file(*numbers) for numbers in self.fragments.formats})
        return f"data files of versions {' and '.join(formats)}" if len(formats) > 1 else ""

    def sound(self) -> Manifest:
        """Return the manifest after checking all fragments, which otherwise raise on first use."""
        self.fragments.require_sound()
        return self

    def require_continuable(self, where: str) -> None:
        """Raise UnsupportedFeatureError if a version based on this one would lose information.

        The fragments must not contradict each other either.
        """
        require_writable(self.reader_flags, self.writer_flags, where)
        if contradiction := self.contradiction:
            raise CorruptFileError(f"{contradiction}; go on from an earlier version", where)
        if self.is_lossy:
            raise UnsupportedFeatureError(
                f"{where}: the manifest has members that this library would lose"
            )
        marked = self.writer_flags & Feature.NON_REUSABLE_FIELD_IDS
        if marked and self.max_allocated_field_id is None:
            # The next version would lose this marker, and assign field ids twice.
            raise UnsupportedFeatureError(
                f"{where}: field ids must not be reused, but the highest one is not recorded"
            )

    @classmethod
    def from_proto(
        cls,
        message: table_pb2.Manifest,
        fragments: StoredFragments,
        index_section: bytes = b"",
    ) -> Manifest:
        """Build a manifest from its message without the fragments, which must not be changed.

        The index section is as stored, except that indices do not cover what newer overlays changed
        (`coverage.py`); damaged fragments raise on first use.
        UnsupportedFeatureError is raised if the fragments are not in the manifest itself.
        """
        if message.HasField("fragment_tree"):
            raise UnsupportedFeatureError("the manifest keeps its fragments in a tree")
        writer = message.writer_version
        bases = tuple(map(BasePath.from_proto, message.base_paths))
        shown = fragments.features
        if bases:
            require_distinct(bases)
            shown |= Feature.BASE_PATHS.value
        schema = Schema.from_proto(message.fields, message.schema_metadata)
        if not schema.fields and fragments.have_recorded_rows:
            raise CorruptFileError("the schema has no fields, but there are rows")
        if schema.fault:
            raise CorruptFileError(schema.fault)
        made = object.__new__(cls)  # the constructor of a frozen class takes as long as the rest
        made.__dict__.update(
            schema=schema,
            fragments=fragments,
            version=message.version,
            timestamp_ns=nanoseconds_of(message.timestamp),
            data_format=_format_of(message, fragments),
            max_fragment_id=(
                message.max_fragment_id if message.HasField("max_fragment_id") else None
            ),
            config=_plain(message.config),
            table_metadata=_plain(message.table_metadata),
            reader_flags=message.reader_feature_flags | shown,
            writer_flags=message.writer_feature_flags | shown,
            transaction_file=message.transaction_file,
            writer_version=(
                WriterVersion(writer.library, writer.version)
                if message.HasField("writer_version")
                else None
            ),
            branch=message.branch if message.HasField("branch") else None,
            base_paths=bases,
            next_row_id=message.next_row_id,
            max_allocated_field_id=(
                message.max_allocated_field_id
                if message.HasField("max_allocated_field_id")
                else None
            ),
            index_section=index_section,
            message=message,
        )
        return made.with_current_coverage()

    def to_proto(self) -> table_pb2.Manifest:
        """Return the message without the fragments and the offsets of other sections."""
        message = table_pb2.Manifest(
            fields=self.schema.to_proto(),
            version=self.version,
            schema_metadata=self.schema.metadata_to_proto(),
            reader_feature_flags=self.reader_flags,
            writer_feature_flags=self.writer_flags,
            max_fragment_id=self.max_fragment_id,
            transaction_file=self.transaction_file,
            next_row_id=self.next_row_id,
            max_allocated_field_id=self.max_allocated_field_id,
            data_format=table_pb2.DataStorageFormat(file_format="lance", version=self.data_format),
            config=self.config,
            table_metadata=self.table_metadata,
            branch=self.branch,
            base_paths=[base.to_proto() for base in self.base_paths],
        )
        message.timestamp.seconds, message.timestamp.nanos = divmod(self.timestamp_ns, _NANOSECONDS)
        if self.writer_version is not None:
            message.writer_version.library, message.writer_version.version = self.writer_version
        return message

    def with_current_coverage(self) -> Manifest:
        """Return the manifest with indices that do not cover what newer overlays changed."""
        overlaid = self.fragments.overlaid
        if not (overlaid and self.index_section):
            return self
        section = without_overlaid(self.index_section, self.schema, overlaid)
        return replace(self, index_section=section)

    def with_flags(self) -> Manifest:
        """Return the manifest with the reader and writer flags that its content requires.

        InvalidInputError is raised if metadata of the schema contradict the features of tables.
        """
        kept = (self.reader_flags | self.writer_flags) & _KEPT
        indices = table_pb2.IndexSection.FromString(self.index_section).indices
        covering = any(index.covering_fields for index in indices)
        both = kept | (Feature.COVERING_INDEX_FIELDS if covering else 0)
        if self.schema.has_managed_blobs:
            both |= Feature.MANAGED_BLOBS
        if self.base_paths:
            both |= Feature.BASE_PATHS
        if self.fragments.have_deletions:
            both |= Feature.DELETION_FILES
        if self.fragments.have_hidden_columns:
            both |= Feature.SPILLED_ROW_LINEAGE
        if self.fragments.overlaid:
            both |= Feature.DATA_OVERLAY_FILES
        writer = both | (Feature.TABLE_CONFIG if self.config else 0)
        highest = self.max_allocated_field_id
        if highest is not None:
            writer |= Feature.NON_REUSABLE_FIELD_IDS
            highest = max(highest, self.schema.max_field_id)
        return replace(
            self,
            reader_flags=int(both),
            writer_flags=int(writer),
            max_allocated_field_id=highest,
        )


def _plain(stored: Mapping[str, str]) -> dict[str, str]:
    """Return a map of a message as a dict; most are empty, and converting one takes long."""
    return dict(stored) if stored else {}


def require_readable(reader_flags: int, where: str) -> None:
    """Raise UnsupportedFeatureError if a table has a feature that this library cannot read."""
    _require_supported(reader_flags, SUPPORTED, where, "read")


def require_writable(reader_flags: int, writer_flags: int, where: str) -> None:
    """Raise UnsupportedFeatureError if a table has a feature that this library would not keep."""
    _require_supported(reader_flags | writer_flags, SUPPORTED, where, "write")


def _require_supported(flags: int, supported: Feature, where: str, verb: str) -> None:
    unsupported = flags & ~int(supported)  # a plain int: `~` of a flag drops unknown bits
    if not unsupported:
        return
    known = {int(feature): str(feature.name).lower().replace("_", " ") for feature in Feature}
    bits = [1 << bit for bit in range(unsupported.bit_length()) if unsupported >> bit & 1]
    names = ", ".join(known.get(bit, f"unknown feature {bit}") for bit in bits)
    raise UnsupportedFeatureError(
        f"{where}: cannot {verb} a table with {names}; a newer version of this library may "
        "support it"
    )


def _format_of(message: table_pb2.Manifest, fragments: StoredFragments) -> str:
    """Return the recorded data format, else that of all files: 0.16 wrote "0.1" for 2.0 files."""
    written = message.data_format.version
    if written not in ("", "0.1"):
        return written
    formats = {_format_of_file(*pair) for pair in fragments.recorded_formats}
    if len(formats) == 1:
        return formats.pop()
    is_v2 = message.writer_feature_flags & Feature.V2_FORMAT_DEPRECATED
    return written or str(FileVersion.V2_1 if is_v2 else FileVersion.LEGACY)


def _format_of_file(major: int, minor: int) -> str:
    if (major, minor) < (0, 3):
        return "0.1"
    return "2.0" if (major, minor) == (0, 3) else f"{major}.{minor}"


def _is_lossy(message: table_pb2.Manifest) -> bool:
    """Return whether the message has members, at any depth, that `Manifest` cannot represent."""
    if any(map(message.HasField, _UNCARRIED)):
        return True
    if any(map(_is_lossy_field, message.fields)):
        return True
    whole = table_pb2.Manifest()
    whole.CopyFrom(message)
    whole.ClearField("fields")
    return has_unknown_members(whole)


def _is_lossy_field(message: file_pb2.Field) -> bool:
    if message.unenforced_clustering_key or message.unenforced_clustering_key_position:
        return True
    return any(unknown.field_number != _STORAGE_CLASS for unknown in UnknownFieldSet(message))


def nanoseconds_of(stamp: Timestamp) -> int:
    """Return a commit time in nanoseconds since 1970; raise CorruptFileError if out of range."""
    if 0 <= stamp.seconds < _FIRST_SECOND_OF_9999 and 0 <= stamp.nanos < _NANOSECONDS:
        return int(stamp.seconds * _NANOSECONDS + stamp.nanos)
    raise CorruptFileError(f"timestamp: {stamp.seconds} s and {stamp.nanos} ns since 1970")


def moment_of(nanoseconds: int) -> datetime:
    """Return the moment in UTC, truncated to microseconds."""
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)
