"""Single data files: reading and writing them without a table, and looking inside.

`LanceFileReader` and `LanceFileWriter` speak Arrow. `RawFileReader` and `RawFileWriter` know
columns, pages and buffers by number, and no types.
"""

from pilum.container.raw import Part, RawColumn, RawEncoding, RawPage
from pilum.file.metadata import (
    LanceBufferDescriptor,
    LanceColumnMetadata,
    LanceColumnStatistics,
    LanceFileMetadata,
    LanceFileStatistics,
    LancePageMetadata,
)
from pilum.file.raw import RawFileReader, RawFileWriter
from pilum.file.reader import LanceFileReader, ReaderResults
from pilum.file.session import LanceFileSession, ListResult
from pilum.file.writer import LanceFileWriter
from pilum.format.version import FileVersion

__all__ = [
    "LanceBufferDescriptor",
    "LanceColumnMetadata",
    "LanceColumnStatistics",
    "LanceFileMetadata",
    "LanceFileReader",
    "LanceFileSession",
    "LanceFileStatistics",
    "LanceFileWriter",
    "LancePageMetadata",
    "ListResult",
    "Part",
    "RawColumn",
    "RawEncoding",
    "RawFileReader",
    "RawFileWriter",
    "RawPage",
    "ReaderResults",
    "stable_version",
]


def stable_version() -> str:
    """The newest file version that no longer changes."""
    return str(FileVersion.parse("stable"))
