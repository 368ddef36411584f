"""Every exception that pilum raises.

The tree is grouped by what a caller can do about an error:

    PilumError
    ├── InvalidInputError (ValueError)            correct the call
    │   ├── ColumnNotFoundError (KeyError)        a column that the schema does not have
    │   ├── FilterError                           a filter that does not parse, bind or evaluate
    │   ├── SchemaMismatchError                   data that does not fit the table
    │   ├── UnknownArgumentError (TypeError)      a keyword that the call does not have
    │   └── UnsupportedTypeError (TypeError)      an Arrow type that the file version cannot hold
    ├── NotFoundError (FileNotFoundError)         look elsewhere
    │   ├── DatasetNotFoundError (ValueError)     no table at this path
    │   ├── VersionNotFoundError (ValueError)     the table has no such version
    │   ├── TagNotFoundError (ValueError)         the table has no such tag
    │   ├── IndexNotFoundError (RuntimeError, KeyError)  the table has no such index
    │   └── BranchNotFoundError (ValueError)      the table has no such branch
    ├── DatasetAlreadyExistsError (FileExistsError)  choose append or overwrite
    ├── TagAlreadyExistsError (FileExistsError, ValueError)  choose another name, or move the tag
    ├── BranchAlreadyExistsError (FileExistsError, ValueError)  choose another name
    ├── IndexAlreadyExistsError (FileExistsError, RuntimeError)  choose another name, or replace it
    ├── UnsupportedFormatError (NotImplementedError)  valid, but newer than this library
    │   ├── UnsupportedVersionError               a file version that we do not read or write
    │   └── UnsupportedFeatureError               a feature flag that we do not know
    ├── CorruptFileError (OSError)                damaged bytes; restore the file
    ├── MissingDependencyError (ImportError)      install the package that the text names
    ├── CommitStatusUnknownError (OSError)        check whether the version exists, then continue
    └── CommitError (RuntimeError, OSError)       certainly not committed
        ├── CommitConflictError                   a concurrent commit contradicts this one
        ├── JobMismatchError                      the table has another job with this key
        └── CommitContentionError                 too many concurrent commits: try again

Each class also derives from the builtin exception that users of Lance catch today.
"""

from __future__ import annotations

__all__ = [
    "BranchAlreadyExistsError",
    "BranchNotFoundError",
    "ColumnNotFoundError",
    "CommitConflictError",
    "CommitContentionError",
    "CommitError",
    "CommitStatusUnknownError",
    "CorruptFileError",
    "DatasetAlreadyExistsError",
    "DatasetNotFoundError",
    "FilterError",
    "IndexAlreadyExistsError",
    "IndexNotFoundError",
    "InvalidInputError",
    "JobMismatchError",
    "MissingDependencyError",
    "NotFoundError",
    "PilumError",
    "SchemaMismatchError",
    "TagAlreadyExistsError",
    "TagNotFoundError",
    "UnsupportedFeatureError",
    "UnsupportedFormatError",
    "UnsupportedTypeError",
    "UnsupportedVersionError",
    "VersionNotFoundError",
]


class PilumError(Exception):
    """The base class of all exceptions of this package."""


class InvalidInputError(PilumError, ValueError):
    """An argument is invalid; nothing was read or written because of it."""


class ColumnNotFoundError(InvalidInputError, KeyError):
    """The schema does not have a named column."""

    __str__ = Exception.__str__  # that of KeyError puts quotes around the text


class FilterError(InvalidInputError):
    """A filter expression cannot be parsed, bound to the schema or evaluated."""


class SchemaMismatchError(InvalidInputError):
    """The schema of the data does not fit the table that it is written to."""


class UnknownArgumentError(InvalidInputError, TypeError):
    """A call has no argument of this name."""


class UnsupportedTypeError(InvalidInputError, TypeError):
    """The file version cannot hold an Arrow type."""


class NotFoundError(PilumError, FileNotFoundError):
    """A named object does not exist."""


class DatasetNotFoundError(NotFoundError, ValueError):
    """There is no Lance table at the path."""


class VersionNotFoundError(NotFoundError, ValueError):
    """The table exists, but does not have the requested version."""


class TagNotFoundError(NotFoundError, ValueError):
    """The table exists, but does not have the tag."""


class IndexNotFoundError(NotFoundError, RuntimeError, KeyError):
    """The table does not have the index."""


class BranchNotFoundError(NotFoundError, ValueError):
    """The table exists, but does not have the branch."""


class DatasetAlreadyExistsError(PilumError, FileExistsError):
    """A table already exists where a new one was to be created."""


class TagAlreadyExistsError(PilumError, FileExistsError, ValueError):
    """A tag of this name already exists."""


class BranchAlreadyExistsError(PilumError, FileExistsError, ValueError):
    """A branch of this name already exists."""


class IndexAlreadyExistsError(PilumError, FileExistsError, RuntimeError):
    """An index of this name already exists."""


class UnsupportedFormatError(PilumError, NotImplementedError):
    """Valid data has a form that this version of the library does not know."""


class UnsupportedVersionError(UnsupportedFormatError):
    """This library does not read or write the file version."""


class UnsupportedFeatureError(UnsupportedFormatError):
    """A table uses features (flags of the manifest) that this library does not know."""


class CorruptFileError(PilumError, OSError):
    """Bytes contradict the format.

    The text says what was found; each calling layer adds where (`at`), innermost first.
    """

    def __init__(self, what: str, *where: str) -> None:
        super().__init__(what)
        self.what = what
        self.where: list[str] = list(where)

    def at(self, where: str) -> CorruptFileError:
        """Add one place (`page 3`, `column "label"`, a path) and return the same error."""
        self.where.append(where)
        return self

    def __reduce__(self) -> tuple[type[CorruptFileError], tuple[str, ...]]:
        return (type(self), (self.what, *self.where))

    def __str__(self) -> str:
        return f"{self.what}\n  {', '.join(reversed(self.where))}" if self.where else self.what


class MissingDependencyError(PilumError, ImportError):
    """An optional package is needed; the text contains the command that installs it."""


class CommitStatusUnknownError(PilumError, OSError):
    """The store failed at the moment that decides the commit, and gave no answer afterwards either.

    The commit may have succeeded, may succeed later, or may have failed. Nothing that was written
    for it is deleted.

    Attributes:
        version: The version that the commit would create.
        transaction_uuid: The id by which the version shows which transaction created it.
    """

    def __init__(self, message: str, *, version: int = 0, transaction_uuid: str = "") -> None:
        super().__init__(message)
        self.version = version
        self.transaction_uuid = transaction_uuid


class CommitError(PilumError, RuntimeError, OSError):
    """A commit did not become a version of the table."""


class CommitConflictError(CommitError):
    """A concurrent commit contradicts this one.

    Attributes:
        retryable: Whether the same work, repeated on the latest version, may succeed.
        operation: The operation to commit, as transactions name it (`append`); None if unknown.
        read_version: The version that it was based on.
        other_operation: The operation that it conflicts with.
        version: The version that the other operation created.
        fragment_ids: The fragments over which both conflict; empty if they conflict otherwise.
    """

    def __init__(
        self,
        message: str = "",
        *,
        retryable: bool = False,
        operation: str | None = None,
        read_version: int | None = None,
        other_operation: str | None = None,
        version: int | None = None,
        fragment_ids: tuple[int, ...] = (),
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.operation = operation
        self.read_version = read_version
        self.other_operation = other_operation
        self.version = version
        self.fragment_ids = fragment_ids


class JobMismatchError(CommitError):
    """The table contains a job with the same key, or a later one, that wrote something else."""


class CommitContentionError(CommitError):
    """Every attempt to commit lost against another writer; trying again later is safe."""
