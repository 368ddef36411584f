"""The interface of a filter: the columns that it reads, and a mask per batch."""

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
    """A filter bound to a schema. Can be pickled, to be sent to another process.

    Attributes:
        columns: The columns that it reads: names of top-level columns, or dotted paths to members
            of structs. Meta columns may be among them.
    """

    columns: tuple[str, ...]

    @abstractmethod
    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return which rows of a batch match.

        Args:
            batch: Contains at least `columns`.

        Returns:
            As many values as the batch has rows; null is already false.

        Raises:
            FilterError: If a value overflows, is divided by zero or does not fit a cast.
        """

    def may_match(
        self, zones: Mapping[tuple[str, ...], Zones], num_zones: int
    ) -> NDArray[np.bool_]:
        """Return which zones may contain a matching row; all of them if the filter cannot decide.

        Args:
            zones: See `pilum.expressions.prune.may_match`.
            num_zones: The number of zones.
        """
        return np.ones(num_zones, dtype=np.bool_)


@dataclass(frozen=True)
class SqlFilter(BoundFilter):
    """A filter that was given as SQL."""

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
    """One computed column, bound to a schema. Can be pickled.

    Attributes:
        columns: The columns that it reads, as in `BoundFilter`.
        field: Type of the values, with the metadata of a column if they are those of a column.
        node: The bound expression.
    """

    columns: tuple[str, ...]
    field: pa.Field
    node: Expression

    @property
    def is_null(self) -> bool:
        """Whether the expression is the constant null."""
        node = self.node.operand if isinstance(self.node, Cast) else self.node
        return isinstance(node, Constant) and not node.value.is_valid

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the values for a batch that contains at least `columns`.

        Raises:
            FilterError: If a value overflows, is divided by zero or does not fit a cast.
        """
        if isinstance(self.node, Column) and pt.is_dictionary(self.field.type):
            return read_column(self.node, batch)
        return to_array(evaluate(self.node, batch), batch.num_rows)
