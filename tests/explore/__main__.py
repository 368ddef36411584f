"""Runs the tests that draw examples, with new ones in each round, until the time is up.

    python -m explore --seconds 3600               make explore MINUTES=60
    python -m explore --seed 17 tests/x.py::test   make explore SEED=17 ARGS=tests/x.py::test

A test that fails is left out of later rounds. The output of each round with a failure is kept in
build/explore, and the command that draws its examples again is printed.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from random import SystemRandom

from explore.rounds import run_round

_LOGS = Path(__file__).parents[2] / "build" / "explore"


def _main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m explore", epilog="The rest goes to pytest.", allow_abbrev=False
    )
    parser.add_argument("--seconds", type=float, default=3600, help="how long; default 3600")
    parser.add_argument("--seed", type=int, help="run this one round only, to its end")
    options, arguments = parser.parse_known_args()
    if options.seed is not None:
        only = run_round(options.seed, arguments, _LOGS, failed=())
        return only is None or bool(only.failed)
    until = time.time() + options.seconds
    failed: dict[str, int] = {}
    rounds = examples = 0
    while time.time() < until:
        seed = SystemRandom().randrange(2**32)
        ended = run_round(seed, arguments, _LOGS, failed, until)
        if ended is None:
            break
        failed |= dict.fromkeys(ended.failed, seed)
        rounds, examples = rounds + 1, examples + ended.passed
    for test, seed in failed.items():
        print(f"FAILED  make explore SEED={seed} ARGS='{test}'")
    print(f"{rounds} rounds: {examples} runs of tests passed, {len(failed)} tests failed")
    return bool(failed) or not examples


if __name__ == "__main__":
    sys.exit(_main())
