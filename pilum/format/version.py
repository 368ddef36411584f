"""Versions of the file format, as pairs `(major, minor)`."""

from __future__ import annotations

from enum import Enum

from pilum.errors import InvalidInputError, UnsupportedVersionError

__all__ = ["DEFAULT_VERSION", "FileVersion"]


class FileVersion(Enum):
    """A version of the data-file format that this library reads, and writes unless it is not final.

    The value is the one of `DataFile` in a manifest; the footer of a file may have another one.
    """

    LEGACY = (0, 2)
    V2_0 = (2, 0)
    V2_1 = (2, 1)
    V2_2 = (2, 2)
    V2_3 = (2, 3)

    __hash__ = object.__hash__  # that of Enum is a function in Python, and keys contain versions

    def __str__(self) -> str:
        """Return the canonical string of a manifest's `data_format.version`, such as "2.1"."""
        if self is FileVersion.LEGACY:
            return "0.1"
        major, minor = self.value
        return f"{major}.{minor}"

    @property
    def major(self) -> int:
        """The major number as stored in a manifest."""
        return self.value[0]

    @property
    def minor(self) -> int:
        """The minor number as stored in a manifest."""
        return self.value[1]

    @property
    def footer_numbers(self) -> tuple[int, int]:
        """The major and minor number as stored in the footer of a file."""
        return (0, 3) if self is FileVersion.V2_0 else self.value

    @property
    def is_final(self) -> bool:
        """Whether the version no longer changes; files of other versions are read only."""
        return self is not FileVersion.V2_3

    @property
    def has_mini_blocks(self) -> bool:
        """Whether pages have one of the structural layouts, mini-block among them."""
        return self in {FileVersion.V2_1, FileVersion.V2_2, FileVersion.V2_3}

    @property
    def has_large_chunks(self) -> bool:
        """Whether mini-block chunks may be larger than 32 KiB, which makes their headers wider."""
        return self in {FileVersion.V2_2, FileVersion.V2_3}

    @property
    def has_scalar_pages(self) -> bool:
        """Whether a page may hold one value for all of its rows, and levels may be compressed."""
        return self in {FileVersion.V2_2, FileVersion.V2_3}

    @property
    def has_sparse_pages(self) -> bool:
        """Whether a page may store the positions of nulls and lists instead of levels."""
        return self is FileVersion.V2_3

    @property
    def has_compressed_dictionaries(self) -> bool:
        """Whether a dictionary may be compressed as a whole."""
        return self in {FileVersion.V2_2, FileVersion.V2_3}

    @property
    def has_variable_packed_structs(self) -> bool:
        """Whether packed structs may have members of varying length."""
        return self in {FileVersion.V2_2, FileVersion.V2_3}

    @property
    def has_blobs_v2(self) -> bool:
        """Whether tables store blobs in their second form."""
        return self in {FileVersion.V2_2, FileVersion.V2_3}

    @property
    def has_level_runs(self) -> bool:
        """Whether levels may be run-length encoded."""
        return self in {FileVersion.V2_2, FileVersion.V2_3}

    @property
    def has_maps(self) -> bool:
        """Whether files may hold maps and fixed-size lists of structs."""
        return self in {FileVersion.V2_2, FileVersion.V2_3}

    @classmethod
    def from_numbers(cls, major: int, minor: int) -> FileVersion:
        """Return the version with these numbers, from a footer or a manifest.

        UnsupportedVersionError is raised if this library does not know the version.
        """
        found = _BY_NUMBERS.get((major, minor))
        if found is None:
            raise UnsupportedVersionError(
                f"Lance file version {major}.{minor} is not supported; supported: {_known()}"
            )
        return found

    @classmethod
    def parse(cls, text: str) -> FileVersion:
        """Return the version that users write as `data_storage_version`.

        Args:
            text: A canonical string such as "2.1"; "stable" for the newest version that no longer
                changes, "legacy" for "0.1".

        Raises:
            UnsupportedVersionError: If the version of the format is not supported.
            InvalidInputError: If the text is not a version.
        """
        if not isinstance(text, str):
            raise InvalidInputError(
                f"data storage version: expected a text such as '2.2', found {text!r:.80}"
            )
        if text in {"next", str(FileVersion.V2_3)}:
            raise UnsupportedVersionError(
                f"data storage version {text!r} is read only: {FileVersion.V2_3} is not final yet, "
                f"and files of it may become unreadable; supported: {_written()}, 'stable'"
            )
        known = {str(version): version for version in cls} | _ALIASES
        if text in known:
            return known[text]
        raise InvalidInputError(
            f"unknown data storage version {text!r}; supported: {_written()}, "
            + ", ".join(repr(alias) for alias in ("stable", "legacy"))
        )


_BY_NUMBERS = {version.value: version for version in FileVersion} | {
    (0, 0): FileVersion.LEGACY,
    (0, 1): FileVersion.LEGACY,
    (0, 3): FileVersion.V2_0,
}


def _known() -> str:
    return ", ".join(str(version) for version in FileVersion)


def _written() -> str:
    return ", ".join(str(version) for version in FileVersion if version.is_final)


DEFAULT_VERSION = FileVersion.V2_2
_ALIASES = {
    "stable": FileVersion.V2_2,
    "legacy": FileVersion.LEGACY,
    "0.2": FileVersion.LEGACY,
    "0.3": FileVersion.V2_0,
}
