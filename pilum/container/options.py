"""Options of the data file layout: page sizes, buffer alignment and encodings."""

from __future__ import annotations

from dataclasses import dataclass

from pilum.encodings.options import EncodingOptions
from pilum.errors import InvalidInputError
from pilum.format.version import FileVersion

__all__ = ["MAX_ALIGNMENT", "FileOptions"]

MAX_ALIGNMENT = 4096

_PAGE_BYTES = 8 * 1024 * 1024
_NO_ENCODING = EncodingOptions()


@dataclass(frozen=True, slots=True)
class FileOptions:
    """The options of a file writer.

    Attributes:
        data_cache_bytes: Bytes of rows that are buffered before they become pages, for all
            top-level columns together; 8 MiB for each column if None.
        max_page_bytes: Upper bound of the bytes of a page in memory; a page has at least one row.
        buffer_alignment: Buffers begin at a multiple of it, in bytes: 64, or 4096 for direct I/O,
            or a power of two between.
        encoding: Default encoding options, which the metadata of a field override.
        max_rows_per_group: Rows of a batch in a legacy file; others have no batches.
        group_bounds: Where the batches of a legacy file begin, and the end; None if all have
            `max_rows_per_group` rows.

    Raises:
        InvalidInputError: If a value is not allowed.
    """

    data_cache_bytes: int | None = None
    max_page_bytes: int | None = None
    buffer_alignment: int = 64
    encoding: EncodingOptions = _NO_ENCODING
    max_rows_per_group: int = 1024
    group_bounds: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("data_cache_bytes", "max_page_bytes", "max_rows_per_group"):
            size = getattr(self, name)
            if size is not None and (not hasattr(size, "__index__") or size < 1):
                raise InvalidInputError(f"{name}: expected an integer above 0, found {size!r}")
        if self.buffer_alignment not in {64, 128, 256, 512, 1024, 2048, MAX_ALIGNMENT}:
            raise InvalidInputError(
                f"buffer_alignment: expected a power of two from 64 to {MAX_ALIGNMENT}, found "
                f"{self.buffer_alignment!r}"
            )

    def refuse(self, version: FileVersion, *names: str) -> None:
        """Raise InvalidInputError if an option is set that the file version does not have."""
        for name in names:
            if getattr(self, name) != getattr(FileOptions(), name):
                told = "encoding_options" if name == "encoding" else name
                raise InvalidInputError(
                    f"{told}: files of version {version} have no {getattr(self, name)!r}"
                )

    def page_bytes(self, num_columns: int) -> int:
        """Return the bytes of rows that become a page, given the number of top-level columns."""
        wanted = _PAGE_BYTES
        if self.data_cache_bytes is not None:
            wanted = max(self.data_cache_bytes // max(num_columns, 1), 1)
        return min(wanted, self.max_page_bytes or wanted)
