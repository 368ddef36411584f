"""The number of calls of functions of the package: a measure of cost that no clock disturbs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pilum

__all__ = ["num_calls"]

PACKAGE = Path(pilum.__file__).parent
NOT_COUNTED = ("kernels", "lazy.py")
"""Kernels, and what a decorator of the standard library would do without being counted."""


def num_calls(function: Callable[[], object]) -> int:
    """Returns the number of calls of functions of the package, except `NOT_COUNTED`.

    The collector is off, as finalizers of what other tests left are no part of the work.
    """
    found = 0

    def count(frame: Any, event: str, argument: object) -> None:
        nonlocal found
        del argument
        if event == "call" and _counts(frame.f_code.co_filename):
            found += 1

    gc.collect()
    gc.disable()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    return found


@cache
def _counts(file: str) -> bool:
    path = Path(file)
    return PACKAGE in path.parents and not {path.parent.name, path.name} & set(NOT_COUNTED)
