"""What a filter is to the rest of the library: the columns it reads, and a mask per batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import pyarrow as pa

from pilum.expressions.evaluate import evaluate, to_array, to_mask
from pilum.expressions.nodes import Expression

__all__ = ["BoundFilter", "BoundProjection", "SqlFilter"]


@dataclass(frozen=True)
class BoundFilter(ABC):
    """A filter bound to a schema. Pickles, so that it can travel to another process.

    Attributes:
        columns: What it reads: names of top-level columns, or dotted paths to members of
            structs. `_rowid` and `_rowaddr` may be among them.
    """

    columns: tuple[str, ...]

    @abstractmethod
    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Which rows of a batch are wanted.

        Args:
            batch: Holds at least `columns`.

        Returns:
            As many values as the batch has rows; null is already false.

        Raises:
            FilterError: If a value overflows, is divided by zero or does not fit a cast.
        """


@dataclass(frozen=True)
class SqlFilter(BoundFilter):
    """A filter that was SQL."""

    node: Expression

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """See `BoundFilter.mask`."""
        return to_mask(evaluate(self.node, batch), batch.num_rows)


@dataclass(frozen=True)
class BoundProjection:
    """One computed column, bound to a schema. Pickles.

    Attributes:
        columns: What it reads, as in `BoundFilter`.
        type: Of the values.
        node: The bound expression.
    """

    columns: tuple[str, ...]
    type: pa.DataType
    node: Expression

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """The values for a batch that holds at least `columns`.

        Raises:
            FilterError: If a value overflows, is divided by zero or does not fit a cast.
        """
        return to_array(evaluate(self.node, batch), batch.num_rows)
