"""A family of file versions with one layout: how their files are opened, read and written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pilum.cache import FileCaches
from pilum.container.blobs import Sidecars
from pilum.container.footer import Tail
from pilum.container.options import FileOptions
from pilum.container.segments import DataFileReader, FieldReader, FilePart
from pilum.container.writer import DataFileWriter
from pilum.format.schema import Field, Schema
from pilum.format.version import FileVersion
from pilum.storage.base import Sink, Source

__all__ = ["Family"]


@dataclass(frozen=True, slots=True)
class Family:
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
