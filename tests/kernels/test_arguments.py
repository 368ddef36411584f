"""Arguments of several types: an interrupt that arrives while one is converted is not lost."""

from __future__ import annotations

import _thread
import operator
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from pilum import _kernels

OFFSETS = np.array([0, 3, 6])
ROWS = np.array([1, 2], np.uint64)
DATA = np.frombuffer(b"abcdef", np.uint8)


@pytest.mark.parametrize(
    "call",
    [
        partial(_kernels.TrigramPostings().add, OFFSETS.astype(np.int32), DATA, ROWS),
        partial(_kernels.TrigramPostings().add, OFFSETS, DATA, ROWS),
        partial(_kernels.equal_pairs, ROWS.astype(np.uint32), ROWS.astype(np.uint32)),
    ],
    ids=["offsets of 32 bits", "offsets of 64 bits", "unsigned integers"],
)
def test_an_interrupt_is_raised_after_the_call(call: Callable[[], Any]) -> None:
    """Nothing between both calls looks for signals, as no function of Python runs."""
    with pytest.raises(KeyboardInterrupt):
        deque(map(operator.call, (_thread.interrupt_main, call)), maxlen=0)


def test_an_argument_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="expected Small, Large, found another type"):
        _kernels.TrigramPostings().add(OFFSETS.astype(np.float64), DATA, ROWS)  # type: ignore[arg-type]
