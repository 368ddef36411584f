"""Versions of the file format: `(major, minor)` and nothing else."""

from __future__ import annotations

from enum import Enum

from pilum.errors import InvalidInputError, UnsupportedVersionError

__all__ = ["DEFAULT_VERSION", "FileVersion"]


class FileVersion(Enum):
    """A version of the data-file format that this library reads and writes.

    The value is what stands in the footer of a file and in `DataFile` of a manifest.
    """

    V2_1 = (2, 1)
    V2_2 = (2, 2)

    def __str__(self) -> str:
        """The canonical string of a manifest's `data_format.version`, such as "2.1"."""
        major, minor = self.value
        return f"{major}.{minor}"

    @property
    def major(self) -> int:
        """Major number as stored in the footer."""
        return self.value[0]

    @property
    def minor(self) -> int:
        """Minor number as stored in the footer."""
        return self.value[1]

    @property
    def has_large_chunks(self) -> bool:
        """Whether mini-block chunks may be larger than 32 KiB, which makes their headers wider."""
        return self is not FileVersion.V2_1

    @property
    def has_scalar_pages(self) -> bool:
        """Whether a page may hold one value for all of its rows, and levels may be compressed."""
        return self is not FileVersion.V2_1

    @property
    def has_wide_dictionaries(self) -> bool:
        """Whether values of 64 bits may have a dictionary."""
        return self is not FileVersion.V2_1

    @property
    def has_compressed_dictionaries(self) -> bool:
        """Whether a dictionary may be compressed as a whole."""
        return self is not FileVersion.V2_1

    @classmethod
    def from_numbers(cls, major: int, minor: int) -> FileVersion:
        """Returns the version with these footer numbers.

        Raises:
            UnsupportedVersionError: If this library does not read that version.
        """
        try:
            return cls((major, minor))
        except ValueError:
            known = ", ".join(str(version) for version in cls)
            raise UnsupportedVersionError(
                f"Lance file version {major}.{minor} is not supported; supported: {known}"
            ) from None

    @classmethod
    def parse(cls, text: str) -> FileVersion:
        """Returns the version that users write as `data_storage_version`.

        Args:
            text: A canonical string such as "2.1", or "stable" for the default of this library.

        Raises:
            UnsupportedVersionError: A version of the format that is not supported.
            InvalidInputError: Not a version at all.
        """
        if text == "stable":
            return DEFAULT_VERSION
        known = {str(version): version for version in cls}
        if text in known:
            return known[text]
        if text in {"legacy", "next", "0.1", "0.2", "0.3", "2.0", "2.3"}:
            raise UnsupportedVersionError(
                f"data storage version {text!r} is not supported; supported: {', '.join(known)}"
            )
        raise InvalidInputError(
            f"unknown data storage version {text!r}; supported: {', '.join(known)}, 'stable'"
        )


DEFAULT_VERSION = FileVersion.V2_1
