"""The magic `%%pilum` of notebooks: SQL in a cell.

%load_ext pilum.spark

%%pilum                          shows the first rows
SELECT * FROM orders

%%pilum cheap                    the frame becomes the variable `cheap`
SELECT * FROM orders WHERE price < 3

frame = %pilum SELECT * FROM orders
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from pilum.errors import InvalidInputError
from pilum.spark.statements import sql

__all__ = ["load_ipython_extension"]


class Shell(Protocol):
    """The part of IPython's shell that the extension uses."""

    user_ns: dict[str, Any]

    def register_magic_function(
        self, func: Callable[..., Any], magic_kind: str, magic_name: str
    ) -> None:
        """Register a function as a magic."""


def load_ipython_extension(ipython: Shell) -> None:
    """Register the magic `%pilum`, called by IPython for `%load_ext pilum.spark`.

    `%%pilum` executes the cell as one statement of `pilum.spark.sql` and shows the first rows of
    its result. `%%pilum name` stores the frame as a variable instead, and `%pilum statement`
    returns it. The session is the variable `spark`, or else the active one.

    Args:
        ipython: The shell of the notebook.
    """

    def pilum(line: str, cell: str | None = None) -> DataFrame | None:
        """Execute one statement of `pilum.spark.sql`."""
        session, name = _session(ipython), line.strip()
        if cell is None:
            return sql(session, line)
        if name and not name.isidentifier():
            raise InvalidInputError(f"%%pilum {name}: expected the name of a variable, or nothing")
        frame = sql(session, cell)
        if name:
            ipython.user_ns[name] = frame
        else:
            frame.show(truncate=False)
        return None

    ipython.register_magic_function(pilum, magic_kind="line_cell", magic_name="pilum")


def _session(ipython: Shell) -> SparkSession:
    found = ipython.user_ns.get("spark") or SparkSession.getActiveSession()
    if found is None:
        raise InvalidInputError("%%pilum: no session; assign one to the variable `spark`")
    session: SparkSession = found
    return session
