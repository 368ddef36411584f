"""What a filter is to the rest of the library: the columns it reads, and a mask per batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.expressions.evaluate import evaluate, read_column, to_array, to_mask
from pilum.expressions.nodes import Cast, Column, Constant, Expression
from pilum.expressions.prune import Zones, may_match

__all__ = ["BoundFilter", "BoundProjection", "SqlFilter"]


@dataclass(frozen=True)
class BoundFilter(ABC):
    """A filter bound to a schema. Pickles, so that it can travel to another process.

    Attributes:
        columns: What it reads: names of top-level columns, or dotted paths to members of
            structs. `META_COLUMNS` may be among them.
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

    def may_match(
        self, zones: Mapping[tuple[str, ...], Zones], num_zones: int
    ) -> NDArray[np.bool_]:
        """Which zones may hold a wanted row; all of them, if the filter cannot tell.

        Args:
            zones: See `pilum.expressions.prune.may_match`.
            num_zones: How many there are.
        """
        return np.ones(num_zones, dtype=np.bool_)


@dataclass(frozen=True)
class SqlFilter(BoundFilter):
    """A filter that was SQL."""

    node: Expression

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """See `BoundFilter.mask`."""
        return to_mask(evaluate(self.node, batch), batch.num_rows)

    def may_match(
        self, zones: Mapping[tuple[str, ...], Zones], num_zones: int
    ) -> NDArray[np.bool_]:
        """See `BoundFilter.may_match`."""
        return may_match(self.node, zones, num_zones)


@dataclass(frozen=True)
class BoundProjection:
    """One computed column, bound to a schema. Pickles.

    Attributes:
        columns: What it reads, as in `BoundFilter`.
        field: Type of the values, and what else is known of them if they are those of a column.
        node: The bound expression.
    """

    columns: tuple[str, ...]
    field: pa.Field
    node: Expression

    @property
    def is_null(self) -> bool:
        """Whether it is the constant null."""
        node = self.node.operand if isinstance(self.node, Cast) else self.node
        return isinstance(node, Constant) and not node.value.is_valid

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """The values for a batch that holds at least `columns`.

        Raises:
            FilterError: If a value overflows, is divided by zero or does not fit a cast.
        """
        if isinstance(self.node, Column) and pt.is_dictionary(self.field.type):
            return read_column(self.node, batch)
        return to_array(evaluate(self.node, batch), batch.num_rows)
