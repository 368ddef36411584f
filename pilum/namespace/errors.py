"""Errors of this library as those of `lance_namespace`, which a server reports by their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pilum.errors import (
    BranchAlreadyExistsError,
    BranchNotFoundError,
    ColumnNotFoundError,
    CommitConflictError,
    CommitContentionError,
    DatasetAlreadyExistsError,
    DatasetNotFoundError,
    IndexAlreadyExistsError,
    IndexNotFoundError,
    InvalidInputError,
    SchemaMismatchError,
    TagAlreadyExistsError,
    TagNotFoundError,
    UnsupportedFormatError,
    VersionNotFoundError,
)

import lance_namespace as api  # isort: skip  # ids.py has checked that it is installed

__all__ = ["as_error_of_namespaces", "errors_of_namespaces"]

_KINDS: tuple[tuple[type[Exception], Any], ...] = (
    (BranchAlreadyExistsError, api.TableBranchAlreadyExistsError),
    (BranchNotFoundError, api.TableBranchNotFoundError),
    (ColumnNotFoundError, api.TableColumnNotFoundError),
    (CommitConflictError, api.ConcurrentModificationError),
    (CommitContentionError, api.ConcurrentModificationError),
    (DatasetAlreadyExistsError, api.TableAlreadyExistsError),
    (DatasetNotFoundError, api.TableNotFoundError),
    (IndexAlreadyExistsError, api.TableIndexAlreadyExistsError),
    (IndexNotFoundError, api.TableIndexNotFoundError),
    (SchemaMismatchError, api.TableSchemaValidationError),
    (TagAlreadyExistsError, api.TableTagAlreadyExistsError),
    (TagNotFoundError, api.TableTagNotFoundError),
    (VersionNotFoundError, api.TableVersionNotFoundError),
    (InvalidInputError, api.InvalidInputError),
    (UnsupportedFormatError, api.UnsupportedOperationError),
)
"""The first that an error is an instance of decides."""


def as_error_of_namespaces(error: Exception) -> Exception:
    """Return an error of this library, or another one, as one of `lance_namespace`."""
    if isinstance(error, api.LanceNamespaceError):
        return error
    for ours, theirs in _KINDS:
        if isinstance(error, ours):
            known: Exception = theirs(str(error))
            return known
    unknown: Exception = api.InternalError(f"{type(error).__name__}: {error}")
    return unknown


@contextmanager
def errors_of_namespaces() -> Iterator[None]:
    """Raise errors as those of `lance_namespace`."""
    try:
        yield
    except Exception as error:
        found = as_error_of_namespaces(error)
        if found is error:
            raise
        raise found from error
