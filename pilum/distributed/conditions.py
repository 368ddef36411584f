"""Values in SQL, bound once by the driver and evaluated by the tasks; see `TableVersion.condition`.

"price * 2"    bind_value ──▶ BoundProjection, picklable ──▶ one column of a batch
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from pilum.errors import UnsupportedFeatureError
from pilum.expressions import BoundFilter, BoundProjection, bind_projection
from pilum.format.meta_columns import META_COLUMNS, ROW_ADDRESS, ROW_ID
from pilum.table.read.json_columns import is_json_field

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = [
    "META_COLUMNS",
    "ROW_ADDRESS",
    "ROW_ID",
    "BoundFilter",
    "BoundProjection",
    "bind_value",
    "condition_text",
]


def bind_value(text: str, schema: pa.Schema) -> BoundProjection:
    """Bind an expression over columns whose values are compared or aggregated, as `bind`.

    UnsupportedFeatureError is raised if they are JSON, whose bytes have no meaning of their own.
    """
    bound = bind_projection(text, schema)
    if is_json_field(bound.field):
        raise UnsupportedFeatureError(f"{text}: JSON is not aggregated by its bytes")
    return bound


def condition_text(node: exp.Expression) -> str:
    """Write an expression that sqlglot parsed in the SQL of conditions."""
    from pilum.expressions.parse import LanceFilter  # imports the parser

    return str(node.sql(dialect=LanceFilter))
