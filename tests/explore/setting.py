"""Whether the tests run as they always do, or look for something new.

`make test` draws the same examples for everyone. Each round of `make explore` draws others: from
the number in PILUM_ROUND, and only until the moment in PILUM_UNTIL, in seconds since 1970.
"""

from __future__ import annotations

import os
from random import Random

__all__ = ["EXPLORES", "ROUND", "UNTIL", "seeds"]

EXPLORES = "PILUM_ROUND" in os.environ
ROUND = int(os.environ.get("PILUM_ROUND", "0"))
UNTIL = float(os.environ.get("PILUM_UNTIL", "inf"))


def seeds(count: int) -> list[int]:
    """Return the seeds of a test that draws numbers by itself: the same ones, or new ones."""
    if not EXPLORES:
        return list(range(count))
    return Random(ROUND).sample(range(2**32), count)
