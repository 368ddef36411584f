"""Counts the bytes that a process holds, which are the same on every machine.

    import held            before pilum: it wraps the compiled kernels
    …
    held.start()
    …
    print(held.peak_bytes())

Counted are the results of kernels until they are dropped, Arrow's pool, and what Python and numpy
allocate. What allocators keep for later is not: how much that is depends on the machine.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import BuiltinFunctionType, ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["peak_bytes", "start"]

_KERNELS = "pilum._kernels"
_lock = threading.RLock()
_of_kernels = _start = _peak = 0


def start() -> None:
    """Count from here on, what is held already left out."""
    global _start, _peak
    tracemalloc.start()
    _start = _peak = _now()


def peak_bytes() -> int:
    """Return the most that was held since the start, seen whenever a kernel ended."""
    return max(_peak, _now()) - _start


def _now() -> int:
    of_python, _ = tracemalloc.get_traced_memory()
    of_arrow: int = pa.total_allocated_bytes()
    return _of_kernels + of_arrow + of_python


def _counted(kernel: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(kernel)
    def call(*values: Any, **named: Any) -> Any:
        global _peak
        result = kernel(*values, **named)
        with _lock:
            _hold(result)
            _peak = max(_peak, _now())
        return result

    return call


def _hold(result: Any) -> None:
    global _of_kernels
    if isinstance(result, np.ndarray):
        _of_kernels += result.nbytes
        weakref.finalize(result, _drop, result.nbytes)
    elif isinstance(result, tuple | list):
        for one in result:
            _hold(one)


def _drop(size: int) -> None:
    global _of_kernels
    with _lock:
        _of_kernels -= size


def _load_kernels() -> ModuleType:
    assert _KERNELS not in sys.modules, "import held before pilum"
    package = importlib.util.find_spec("pilum")
    assert package is not None
    assert package.origin is not None
    (file,) = Path(package.origin).parent.glob("_kernels*.so")
    spec = importlib.util.spec_from_file_location(_KERNELS, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, value in list(vars(module).items()):
        if isinstance(value, BuiltinFunctionType):
            setattr(module, name, _counted(value))
    return module


sys.modules[_KERNELS] = _load_kernels()
