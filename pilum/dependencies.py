"""Optional packages as other packages look for them here: whether they are installed, and a proxy.

    from pilum.dependencies import _PANDAS_AVAILABLE, pandas as pd

A proxy imports its package at the first use of an attribute. The names begin with an underscore
because those of the reference do.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from pilum.errors import MissingDependencyError

__all__ = [
    "_HUGGING_FACE_AVAILABLE",
    "_NUMPY_AVAILABLE",
    "_PANDAS_AVAILABLE",
    "_POLARS_AVAILABLE",
    "_PYDANTIC_AVAILABLE",
    "_TORCH_AVAILABLE",
    "datasets",
    "numpy",
    "pandas",
    "polars",
    "pydantic",
    "torch",
]


class _Proxy(ModuleType):
    """A module that is imported at the first use of an attribute."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return getattr(importlib.import_module(self.__name__), name)
        except ModuleNotFoundError as error:
            raise MissingDependencyError(
                f"{self.__name__} is needed: pip install {self.__name__}"
            ) from error


datasets, numpy, pandas = _Proxy("datasets"), _Proxy("numpy"), _Proxy("pandas")
polars, pydantic, torch = _Proxy("polars"), _Proxy("pydantic"), _Proxy("torch")
_HUGGING_FACE_AVAILABLE = find_spec("datasets") is not None
_NUMPY_AVAILABLE = find_spec("numpy") is not None
_PANDAS_AVAILABLE = find_spec("pandas") is not None
_POLARS_AVAILABLE = find_spec("polars") is not None
_PYDANTIC_AVAILABLE = find_spec("pydantic") is not None
_TORCH_AVAILABLE = find_spec("torch") is not None
