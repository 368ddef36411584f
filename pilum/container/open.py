"""The families of file versions: who opens, reads and writes a file. A new one is one line here.

0.1         container/legacy/{file,fields,writer}.py; batches of rows, a page per column and batch
2.0         container/v2_0/; structs and lists have columns too, nesting is theirs
2.1, 2.2    container/{reader,fields,writer}.py; every leaf column carries its nesting
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pilum.cache import CachePart
from pilum.container.blobs import Sidecars
from pilum.container.fields import LeafFieldReader
from pilum.container.footer import version_of
from pilum.container.legacy.fields import LegacyFieldReader
from pilum.container.legacy.file import LegacyFile
from pilum.container.legacy.writer import LegacyWriter
from pilum.container.options import FileOptions
from pilum.container.reader import FileReader
from pilum.container.segments import DataFileReader, FieldReader, FilePart
from pilum.container.tail import Tail
from pilum.container.v2_0.fields import PagedFieldReader
from pilum.container.v2_0.reader import PagedFileReader
from pilum.container.v2_0.writer import PagedFileWriter
from pilum.container.writer import DataFileWriter, FileWriter
from pilum.errors import CorruptFileError, UnsupportedFormatError, UnsupportedVersionError
from pilum.format.schema import Field, Schema
from pilum.format.version import FileVersion
from pilum.storage.base import Sink, Source

__all__ = ["field_reader", "new_file", "open_file"]


@dataclass(frozen=True, slots=True)
class _Family:
    """What the versions of a family share.

    Attributes:
        open: Opens a file, given what was read of its end, and where its pages keep what random
            access needs.
        field: Makes the reader of a field of a fragment with some number of rows.
        new: Starts a file.
    """

    open: Callable[[Source, Tail, CachePart | None], DataFileReader]
    field: Callable[[Field, Sequence[FilePart], int], FieldReader]
    new: Callable[[Sink, Schema, FileVersion, FileOptions], DataFileWriter]


def _new_2_0(
    sink: Sink, schema: Schema, version: FileVersion, options: FileOptions
) -> DataFileWriter:
    general = replace(options.encoding, compression=None, compression_level=None)
    replace(options, encoding=general).refuse(version, "encoding")
    return PagedFileWriter(sink, schema, options)


def _new_legacy(
    sink: Sink, schema: Schema, version: FileVersion, options: FileOptions
) -> DataFileWriter:
    options.refuse(version, "data_cache_bytes", "max_page_bytes", "buffer_alignment", "encoding")
    return LegacyWriter(sink, schema, options.max_rows_per_group)


_DEFAULTS = FileOptions()
_SINCE_2_1 = _Family(
    FileReader.open,
    LeafFieldReader.of,
    lambda sink, schema, version, options: FileWriter(
        sink, schema, version=version, options=options
    ),
)
_V2_0 = _Family(
    PagedFileReader.open,
    PagedFieldReader.of,
    _new_2_0,
)
_LEGACY = _Family(
    lambda source, tail, cache: LegacyFile.open(source, tail),
    LegacyFieldReader.of,
    _new_legacy,
)
_FAMILIES: dict[FileVersion, _Family] = {
    FileVersion.LEGACY: _LEGACY,
    FileVersion.V2_0: _V2_0,
    FileVersion.V2_1: _SINCE_2_1,
    FileVersion.V2_2: _SINCE_2_1,
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
    return _family(version, source.path).open(source, tail, lookups)


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
    families = {id(family): family for family in (_family_of(part) for part in parts)}
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
        UnsupportedVersionError: If this library does not write the version.
        UnsupportedTypeError: If the version has no form for a field.
    """
    if sidecars is not None and version.has_blobs_v2:
        return FileWriter(sink, schema, version=version, options=options, sidecars=sidecars)
    return _family(version, "a new file").new(sink, schema, version, options)


def _family_of(part: FilePart) -> _Family:
    return _family(part.reader.version, part.reader.source.path)


def _family(version: FileVersion, where: str) -> _Family:
    if version not in _FAMILIES:
        known = ", ".join(map(str, _FAMILIES))
        raise UnsupportedVersionError(
            f"Lance file version {version} is not supported; supported: {known}\n  {where}"
        )
    return _FAMILIES[version]
