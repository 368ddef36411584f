"""The families of file versions: who opens, reads and writes a file. A new one is one line here.

0.1         container/legacy/{file,fields,writer}.py; batches of rows, a page per column and batch
2.0         container/v2_0/; structs and lists have columns too, nesting is theirs
2.1, 2.2    container/{reader,fields,writer}.py; every leaf column carries its nesting
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pilum.cache import CachePart
from pilum.container.blobs import Sidecars
from pilum.container.family import Family
from pilum.container.fields import LeafFieldReader
from pilum.container.footer import version_of
from pilum.container.options import FileOptions
from pilum.container.reader import FileReader
from pilum.container.segments import DataFileReader, FieldReader, FilePart
from pilum.container.storage import check_storage
from pilum.container.tail import Tail
from pilum.container.writer import DataFileWriter, FileWriter
from pilum.errors import CorruptFileError, UnsupportedFormatError, UnsupportedTypeError
from pilum.format.paths import require_storable as require_storable_paths
from pilum.format.schema import Field, Schema
from pilum.format.version import DEFAULT_VERSION, FileVersion
from pilum.storage.base import Sink, Source

__all__ = ["default_version", "field_reader", "new_file", "open_file", "require_storable"]


_DEFAULTS = FileOptions()


def _require_storable(schema: Schema, version: FileVersion, has_sidecars: bool) -> None:
    for field in schema.fields:
        check_storage(field, version, has_sidecars=has_sidecars)


_SINCE_2_1 = Family(
    FileReader.open,
    LeafFieldReader.of,
    _require_storable,
    lambda sink, schema, version, options, sidecars: FileWriter(
        sink, schema, version=version, options=options, sidecars=sidecars
    ),
)


# Most processes never meet a file of an old version, so these are imported with the first one.


def _legacy() -> Family:
    from pilum.container.legacy.family import FAMILY

    return FAMILY


def _v2_0() -> Family:
    from pilum.container.v2_0.family import FAMILY

    return FAMILY


_FAMILIES: dict[FileVersion, Callable[[], Family]] = {
    FileVersion.LEGACY: _legacy,
    FileVersion.V2_0: _v2_0,
    FileVersion.V2_1: lambda: _SINCE_2_1,
    FileVersion.V2_2: lambda: _SINCE_2_1,
}


def open_file(source: Source, lookups: CachePart | None = None) -> DataFileReader:
    """Opens a file of any version with one request, or two if its metadata are large.

    Args:
        source: The file. Where all of it was read, the reader has the bytes and no longer needs it.
        lookups: Where its pages keep what random access needs; None for a cache of its own.

    Raises:
        CorruptFileError: If this is no Lance file, or a damaged one.
        UnsupportedVersionError: If its version is not supported.
    """
    tail = Tail.read(source)
    try:
        version = version_of(tail.data)
    except CorruptFileError as error:
        raise error.at(source.path) from None
    except UnsupportedFormatError as error:
        raise type(error)(f"{error}\n  {source.path}") from None
    return _FAMILIES[version]().open(source, tail, lookups)


def field_reader(field: Field, parts: Sequence[FilePart], num_rows: int) -> FieldReader:
    """The reader of a field of a fragment.

    Args:
        field: With only the members that are wanted.
        parts: The files that hold some of it; what none of them holds is null.
        num_rows: Physical rows of the fragment.

    Raises:
        UnsupportedFormatError: If it is spread over files whose versions do not go together.
        CorruptFileError: If a file is damaged.
    """
    if not parts:
        return LeafFieldReader.of(field, parts, num_rows)
    found = [_FAMILIES[part.reader.version]() for part in parts]
    if len(found) == 1:
        return found[0].field(field, parts, num_rows)
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
    """Starts a file.

    Args:
        sink: Where it goes; finished or aborted by the writer.
        schema: Its fields, with the ids of the table.
        version: Of the file.
        options: Sizes and encodings.
        sidecars: The files beside it, for blobs of version 2.

    Raises:
        InvalidInputError: If the metadata of a field ask for an encoding that does not exist, or
            the options for what the version does not have.
        UnsupportedTypeError: If the version has no form for a field.
    """
    return _FAMILIES[version]().new(
        sink, schema, version, options, sidecars if version.has_blobs_v2 else None
    )


def require_storable(schema: Schema, version: FileVersion, *, has_sidecars: bool) -> None:
    """Refuses a schema that files of a version cannot hold, before there is a file.

    Args:
        schema: The fields.
        version: Of the files.
        has_sidecars: Whether blobs may stand beside a file, as they do in tables.

    Raises:
        UnsupportedTypeError: The text names the column, and the version that could if one can.
    """
    require_storable_paths(schema, version)
    _FAMILIES[version]().require_storable(schema, version, has_sidecars)


def default_version(schema: Schema, *, has_sidecars: bool) -> FileVersion:
    """The version of new files where nobody asks for one: the oldest since 2.1 that can hold them.

    Source: docs/decisions/0004-default-file-version.md.
    """
    try:
        require_storable(schema, DEFAULT_VERSION, has_sidecars=has_sidecars)
    except UnsupportedTypeError:
        return FileVersion.V2_2
    return DEFAULT_VERSION
