"""The allocator keeps freed memory as long as `pilum.kernels.allocator` says, or the user."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from guard import GUARD_SECONDS

from pilum.kernels.allocator import KEPT_MILLISECONDS

VARIABLE = "MIMALLOC_PURGE_DELAY"
SCRIPT = f"import pilum.kernels, os; print(os.environ.get({VARIABLE!r}))"


@pytest.mark.parametrize("given", [None, "20"])
def test_freed_memory_is_kept_for_as_long_as_was_set(given: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    environment["MIMALLOC_VERBOSE"] = "1"
    if given is not None:
        environment[VARIABLE] = given
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        capture_output=True,
        check=True,
        text=True,
        timeout=GUARD_SECONDS,
    )
    # pyarrow has an allocator of the same kind, which prints the same.
    delays = re.findall(r"option 'purge_delay': (\d+)", done.stderr)
    assert (given or str(KEPT_MILLISECONDS)) in delays
    assert done.stdout.split() == [str(given)]
