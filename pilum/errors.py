"""Every exception that pilum raises.

The tree is grouped by what the one who catches it would do:

    PilumError
    ├── InvalidInputError (ValueError)            mend the call
    │   ├── ColumnNotFoundError                   a column that the schema does not have
    │   ├── FilterError                           a filter that does not parse, bind or evaluate
    │   ├── SchemaMismatchError                   data that does not fit the table
    │   ├── UnknownArgumentError (TypeError)      a keyword that the call does not have
    │   └── UnsupportedTypeError (TypeError)      an Arrow type that the file version cannot hold
    ├── NotFoundError (FileNotFoundError)         look elsewhere
    │   ├── DatasetNotFoundError (ValueError)     no table at this path
    │   ├── VersionNotFoundError (ValueError)     the table has no such version
    │   ├── TagNotFoundError (ValueError)         the table has no such tag
    │   ├── IndexNotFoundError (RuntimeError)     the table has no such index
    │   └── BranchNotFoundError (ValueError)      the table has no such branch
    ├── DatasetAlreadyExistsError (FileExistsError)  choose append or overwrite
    ├── TagAlreadyExistsError (FileExistsError, ValueError)  choose another name, or move the tag
    ├── BranchAlreadyExistsError (FileExistsError, ValueError)  choose another name
    ├── UnsupportedFormatError (NotImplementedError)  valid, but newer than this library
    │   ├── UnsupportedVersionError               a file version that we do not read or write
    │   └── UnsupportedFeatureError               a feature flag that we do not know
    ├── CorruptFileError (OSError)                damaged bytes; restore the file
    ├── MissingDependencyError (ImportError)      install what it names
    ├── CommitStatusUnknownError (OSError)        look whether the version is there, then go on
    └── CommitError (RuntimeError, OSError)       certainly not committed
        ├── CommitConflictError                   another commit made this one meaningless
        ├── JobMismatchError                      the table has another job with this key
        └── CommitContentionError                 too many others at once: try again

Each class also derives from the builtin that users of the field catch today.
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
    """Base of all exceptions of this package."""


class InvalidInputError(PilumError, ValueError):
    """An argument is wrong; nothing was read or written because of it."""


class ColumnNotFoundError(InvalidInputError):
    """A column was named that the schema does not have."""


class FilterError(InvalidInputError):
    """A filter expression that cannot be parsed, bound to the schema or evaluated."""


class SchemaMismatchError(InvalidInputError):
    """Data whose schema does not fit the table that it is written to."""


class UnknownArgumentError(InvalidInputError, TypeError):
    """A call has no argument of this name."""


class UnsupportedTypeError(InvalidInputError, TypeError):
    """An Arrow type that the file version cannot hold."""


class NotFoundError(PilumError, FileNotFoundError):
    """Something that was named does not exist."""


class DatasetNotFoundError(NotFoundError, ValueError):
    """There is no Lance table at the path."""


class VersionNotFoundError(NotFoundError, ValueError):
    """The table exists, but not in the wanted version."""


class TagNotFoundError(NotFoundError, ValueError):
    """The table exists, but has no such tag."""


class IndexNotFoundError(NotFoundError, RuntimeError):
    """The table has no such index."""


class BranchNotFoundError(NotFoundError, ValueError):
    """The table exists, but has no such branch."""


class DatasetAlreadyExistsError(PilumError, FileExistsError):
    """There is a table already where a new one was to be created."""


class TagAlreadyExistsError(PilumError, FileExistsError, ValueError):
    """There is a tag of this name already."""


class BranchAlreadyExistsError(PilumError, FileExistsError, ValueError):
    """There is a branch of this name already."""


class UnsupportedFormatError(PilumError, NotImplementedError):
    """Valid data in a form that this version of the library does not know."""


class UnsupportedVersionError(UnsupportedFormatError):
    """A file version that this library does not read or write."""


class UnsupportedFeatureError(UnsupportedFormatError):
    """A table that uses features (flags of the manifest) unknown to this library."""


class CorruptFileError(PilumError, OSError):
    """Bytes that contradict the format.

    The text says what was found; each floor above adds where (`at`), innermost first.
    """

    def __init__(self, what: str, *where: str) -> None:
        super().__init__(what)
        self.what = what
        self.where: list[str] = list(where)

    def at(self, where: str) -> CorruptFileError:
        """Adds one place (`page 3`, `column "label"`, a path) and returns the same error."""
        self.where.append(where)
        return self

    def __reduce__(self) -> tuple[type[CorruptFileError], tuple[str, ...]]:
        return (type(self), (self.what, *self.where))

    def __str__(self) -> str:
        return f"{self.what}\n  {', '.join(reversed(self.where))}" if self.where else self.what


class MissingDependencyError(PilumError, ImportError):
    """An optional package is needed; the text has the line that installs it."""


class CommitStatusUnknownError(PilumError, OSError):
    """The store failed in the one moment that decides, and did not tell afterwards either.

    The change may be in, or come in later, or neither; nothing that was written for it is deleted.

    Attributes:
        version: The version that it would be.
        transaction_uuid: By which the version tells whose it is.
    """

    def __init__(self, message: str, *, version: int = 0, transaction_uuid: str = "") -> None:
        super().__init__(message)
        self.version = version
        self.transaction_uuid = transaction_uuid


class CommitError(PilumError, RuntimeError, OSError):
    """A commit that did not become a version of the table."""


class CommitConflictError(CommitError):
    """A concurrent commit contradicts this one.

    Attributes:
        retryable: Whether the same work, done again on the latest version, may succeed.
        operation: What was to be committed, as transactions name it (`append`); None if unknown.
        read_version: The version that it was made for.
        other_operation: What it conflicts with.
        version: The version that the other operation became.
        fragment_ids: The fragments over which both conflict; empty if it is about something else.
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
    """The table has taken in a job with the same key, or a later one, that wrote something else."""


class CommitContentionError(CommitError):
    """Every attempt to commit lost against another writer; trying again later is safe."""
