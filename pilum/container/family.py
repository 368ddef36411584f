"""What the versions of the file format that share a layout have in common: a family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pilum.cache import CachePart
from pilum.container.blobs import Sidecars
from pilum.container.options import FileOptions
from pilum.container.segments import DataFileReader, FieldReader, FilePart
from pilum.container.tail import Tail
from pilum.container.writer import DataFileWriter
from pilum.format.schema import Field, Schema
from pilum.format.version import FileVersion
from pilum.storage.base import Sink, Source

__all__ = ["Family"]


@dataclass(frozen=True, slots=True)
class Family:
    """Who opens, reads, checks and writes its files.

    Attributes:
        open: Opens a file, given what was read of its end, and where its pages keep what random
            access needs.
        field: Makes the reader of a field of a fragment with some number of rows.
        require_storable: Refuses a schema that files cannot hold, by UnsupportedTypeError; the flag
            says whether blobs may stand beside them.
        new: Starts a file, and those beside it for blobs of version 2, if there may be any.
    """

    open: Callable[[Source, Tail, CachePart | None], DataFileReader]
    field: Callable[[Field, Sequence[FilePart], int], FieldReader]
    require_storable: Callable[[Schema, FileVersion, bool], None]
    new: Callable[[Sink, Schema, FileVersion, FileOptions, Sidecars | None], DataFileWriter]
