"""Filters that are `pyarrow.compute.Expression`s: Arrow evaluates them, with Arrow's semantics.

Arrow has no way to list the columns of an expression. It can only report whether an expression
binds to a schema, so a column is needed if the expression does not bind without it. Expressions
that name columns by position read all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pilum.errors import ColumnNotFoundError, FilterError
from pilum.expressions.filter import BoundFilter
from pilum.expressions.plain import FALSE

__all__ = ["ArrowFilter", "bind_arrow"]

_BY_POSITION = "FieldPath("
_ROWS = "number of rows"


@dataclass(frozen=True)
class ArrowFilter(BoundFilter):
    """A filter that Arrow evaluates.

    Attributes:
        expression: The expression that the user passed.
    """

    expression: pc.Expression

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """See `BoundFilter.mask`."""
        columns = [batch.column(name) for name in self.columns]
        # A table without columns has no number of rows.
        columns.append(pa.nulls(batch.num_rows))
        table = pa.Table.from_arrays(columns, names=[*self.columns, _ROWS])
        try:
            found = _project(self.expression, table)
        except pa.ArrowException as error:
            raise FilterError(f"cannot evaluate the filter {self.expression}: {error}") from error
        return pc.fill_null(found.column(0).combine_chunks(), FALSE)


def bind_arrow(expression: pc.Expression, schema: pa.Schema) -> ArrowFilter:
    """Bind an Arrow expression.

    Raises:
        ColumnNotFoundError: If the expression names a column that the schema does not have.
        FilterError: If the expression does not bind to the schema, or is not boolean.
    """
    try:
        result = _project(expression, schema.empty_table()).schema.field(0).type
    except pa.ArrowException as error:
        if "No match for FieldRef" in str(error):
            names = ", ".join(schema.names)
            raise ColumnNotFoundError(f"{str(error).splitlines()[0]}; columns: {names}") from error
        raise FilterError(f"the filter {expression} does not bind: {error}") from error
    if result != pa.bool_():
        raise FilterError(f"the filter {expression} is of type {result}, not boolean")
    return ArrowFilter(_needed(expression, schema), expression)


def _needed(expression: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    if _BY_POSITION in str(expression):
        return tuple(schema.names)
    names = range(len(schema))
    return tuple(schema.field(i).name for i in names if not _binds(expression, schema.remove(i)))


def _binds(expression: pc.Expression, schema: pa.Schema) -> bool:
    try:
        _project(expression, schema.empty_table())
    except pa.ArrowException:
        return False
    return True


def _project(expression: pc.Expression, table: pa.Table) -> pa.Table:
    import pyarrow.acero as acero  # slow to import, and few filters need it

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    options = acero.ProjectNodeOptions([expression], ["mask"])
    plan = acero.Declaration("project", options, inputs=[source])
    return plan.to_table(use_threads=False)
