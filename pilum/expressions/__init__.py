"""Filters: SQL or `pyarrow.compute` expressions, bound to a schema and evaluated per batch."""

from pilum.expressions.bind import bind, bind_assignment, bind_projection
from pilum.expressions.filter import BoundFilter, BoundProjection

__all__ = ["BoundFilter", "BoundProjection", "bind", "bind_assignment", "bind_projection"]
