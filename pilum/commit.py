"""Commits by hand: the operations, and the errors to expect."""

from pilum.dataset.operations import LanceOperation, Transaction
from pilum.errors import CommitConflictError, CommitContentionError

__all__ = ["CommitConflictError", "CommitContentionError", "LanceOperation", "Transaction"]
