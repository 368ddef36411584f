"""Errors of local files that cannot be opened: missing ones, and folders."""

from __future__ import annotations

import errno

from pilum.errors import CorruptFileError, NotFoundError

__all__ = ["is_a_folder", "unopened"]


def unopened(path: str, error: OSError) -> OSError:
    """Return the error to raise for a file that cannot be opened."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return _not_found(path)
    if error.errno == errno.ENAMETOOLONG:
        return _not_found(f"{path[:80]}…")
    return is_a_folder(path) if isinstance(error, IsADirectoryError) else error


def is_a_folder(path: str) -> CorruptFileError:
    """Return the error to raise for a folder, where a file is expected."""
    return CorruptFileError("a folder, where a file is expected", path)


def _not_found(path: str) -> NotFoundError:
    return NotFoundError(f"there is no file {path}")
