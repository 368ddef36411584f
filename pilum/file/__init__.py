"""Single data files: reading, writing and inspecting them without a table.

`LanceFileReader` and `LanceFileWriter` use Arrow data. `RawFileReader` and `RawFileWriter` access
columns, pages and buffers by number, without types.
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
    """Return the newest stable file version."""
    return str(FileVersion.parse("stable"))
