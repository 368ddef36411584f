"""The registry of file version families, and the functions that open, read and write any file.

A new family is one line here.

0.1         container/legacy/{file,fields,writer}.py; batches of rows, a page per column and batch
2.0         container/v2_0/; structs and lists have columns too, which store the nesting
2.1, 2.2    container/{reader,fields,writer}.py; every leaf column stores its nesting
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from pilum.cache import FileCaches
from pilum.container.blobs import Sidecars
from pilum.container.fields import LeafFieldReader
from pilum.container.frame import Tail, version_of
from pilum.container.reader import FileReader
from pilum.container.segments import DataFileReader, FieldReader, FilePart
from pilum.container.storable import check_storage
from pilum.container.writer import DataFileWriter, FileOptions, FileWriter
from pilum.errors import (
    CorruptFileError,
    UnsupportedFormatError,
    UnsupportedVersionError,
)
from pilum.format.fields import Field
from pilum.format.paths import require_storable as require_storable_paths
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.storage.base import Sink, Source

__all__ = ["field_reader", "new_file", "open_file", "require_storable"]


_DEFAULTS = FileOptions()


@dataclass(frozen=True, slots=True)
class _Family:
    """The functions that open, read, check and write files of a family.

    Attributes:
        open: Opens a file, given the bytes that were read of its end, and its caches.
        field: Makes the reader of a field of a fragment, given the number of rows.
        require_storable: Raises UnsupportedTypeError for a schema that files cannot store; the flag
            says whether blobs may be stored in files beside them.
        new: Starts a file, and the files beside it for blobs of version 2, where these are allowed.
    """

    open: Callable[[Source, Tail, FileCaches | None], DataFileReader]
    field: Callable[[Field, Sequence[FilePart], int], FieldReader]
    require_storable: Callable[[Schema, FileVersion, bool], None]
    new: Callable[[Sink, Schema, FileVersion, FileOptions, Sidecars | None], DataFileWriter]


def _require_storable(schema: Schema, version: FileVersion, has_sidecars: bool) -> None:
    for field in schema.fields:
        check_storage(field, version, has_sidecars=has_sidecars)


_SINCE_2_1 = _Family(FileReader.open, LeafFieldReader.of, _require_storable, FileWriter)


# Most processes never open a file of an old version, so these modules are imported lazily.


@cache
def _legacy() -> _Family:
    from pilum.container.legacy.checks import require_storable
    from pilum.container.legacy.fields import LegacyFieldReader
    from pilum.container.legacy.file import LegacyFile
    from pilum.container.legacy.writer import LegacyWriter

    return _Family(LegacyFile.open, LegacyFieldReader.of, require_storable, LegacyWriter.of)


@cache
def _v2_0() -> _Family:
    from pilum.container.v2_0.fields import ColumnsFieldReader
    from pilum.container.v2_0.reader import PagedFileReader
    from pilum.container.v2_0.writer import PagedFileWriter, require_storable

    return _Family(PagedFileReader.open, ColumnsFieldReader.of, require_storable, PagedFileWriter)


_FAMILIES: dict[FileVersion, Callable[[], _Family]] = {
    FileVersion.LEGACY: _legacy,
    FileVersion.V2_0: _v2_0,
    FileVersion.V2_1: lambda: _SINCE_2_1,
    FileVersion.V2_2: lambda: _SINCE_2_1,
    FileVersion.V2_3: lambda: _SINCE_2_1,
}


@cache
def _family(version: FileVersion) -> _Family:
    return _FAMILIES[version]()


def open_file(source: Source, caches: FileCaches | None = None) -> DataFileReader:
    """Open a file of any version with one request, or two if its metadata are large.

    If the source was read in full, the reader holds the bytes and no longer uses it. The caches are
    what the file shares with others, and what its pages keep; None for its own.

    Raises:
        CorruptFileError: If the file is not a Lance file, or is damaged.
        UnsupportedVersionError: If its version is not supported.
    """
    tail = Tail.read(source)
    try:
        version = version_of(tail.data)
    except CorruptFileError as error:
        raise error.at(source.path) from None
    except UnsupportedFormatError as error:
        raise type(error)(f"{error}\n  {source.path}") from None
    return _family(version).open(source, tail, caches)


def field_reader(field: Field, parts: Sequence[FilePart], num_rows: int) -> FieldReader:
    """Return the reader of a field, with only the projected members, of a fragment.

    Members that are in no part are null. UnsupportedFormatError is raised if the field is spread
    over files of incompatible versions.
    """
    if not parts:
        return LeafFieldReader.of(field, parts, num_rows)
    if len(parts) == 1:
        return _family(parts[0].reader.version).field(field, parts, num_rows)
    found = [_family(part.reader.version) for part in parts]
    families = {id(family): family for family in found}
    if len(families) > 1:
        versions = ", ".join(f"{part.reader.source.path}: {part.reader.version}" for part in parts)
        raise UnsupportedFormatError(f"column {field.name!r} in files of versions {versions}")
    return next(iter(families.values())).field(field, parts, num_rows)


def new_file(
    sink: Sink,
    schema: Schema,
    version: FileVersion,
    options: FileOptions = _DEFAULTS,
    sidecars: Sidecars | None = None,
) -> DataFileWriter:
    """Start a file, whose writer finishes or aborts the sink.

    Its fields have the ids of the table; the sidecars are files beside it, for blobs of version 2.

    Raises:
        InvalidInputError: If the metadata of a field ask for an unknown encoding, or the options
            for something that the version does not support.
        UnsupportedTypeError: If the version cannot store a field.
    """
    sidecars = sidecars if version.has_blobs_v2 else None
    require_storable(schema, version, has_sidecars=sidecars is not None)
    return _family(version).new(sink, schema, version, options, sidecars)


def require_storable(schema: Schema, version: FileVersion, *, has_sidecars: bool) -> None:
    """Raise an error if files of a version cannot hold a schema, before a file is created.

    `has_sidecars` says whether blobs may be stored in files beside a data file, as in tables.
    UnsupportedTypeError names the column, and a version that can store it if there is one;
    UnsupportedVersionError is raised for a version that is read only.
    """
    if not version.is_final:
        raise UnsupportedVersionError(
            f"files of version {version} are read only, as the version is not final"
        )
    if schema.is_plain:
        return  # every version stores these types; tables may have thousands of such columns
    require_storable_paths(schema, version)
    _family(version).require_storable(schema, version, has_sidecars)
