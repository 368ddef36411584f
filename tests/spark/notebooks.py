"""What a notebook has of IPython: variables and magics."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

__all__ = ["Shell"]


class Shell:
    """The variables and magics of a notebook."""

    def __init__(self, **variables: Any) -> None:
        self.user_ns = variables
        self.magics: dict[str, Callable[..., DataFrame | None]] = {}

    def load(self, module: str) -> None:
        """Loads an extension, as `%load_ext` does."""
        importlib.import_module(module).load_ipython_extension(self)

    def register_magic_function(
        self, func: Callable[..., DataFrame | None], magic_kind: str, magic_name: str
    ) -> None:
        """Is called by an extension."""
        assert magic_kind == "line_cell"
        self.magics[magic_name] = func
