"""The matrix of types, nulls, values, sizes, versions and settings, in all three directions.

Here run the cells that the page of the docs shows, and a sample of all others: `make matrix` runs
the whole, and writes the page and the record of what is refused.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("lance", reason="the reference implementation is not installed")

from matrix.axes import KINDS, NULLS, VERSIONS
from matrix.deviations import REFUSALS, unexplained
from matrix.pairs import covering
from matrix.record import PAGE, Record, page_of, plain_runs, varied_runs
from matrix.running import DIRECTIONS, Run, run

pytestmark = [pytest.mark.reference, pytest.mark.slow]

RECORD = Record.load()
_SAMPLE = 8
"""One in so many of the varied runs."""


def name_of(wanted: Run) -> str:
    parts = (wanted.version, wanted.nulls, wanted.shape, wanted.size, wanted.settings)
    return "-".join(map(str, parts))


@pytest.mark.parametrize("wanted", plain_runs(), ids=name_of)
def test_the_cells_of_the_page(tmp_path: Path, wanted: Run) -> None:
    """What is refused is refused by the same and in the same words: if not, `make matrix`."""
    ends = dict(run(wanted, tmp_path, lambda cell: bool(RECORD.ended(cell).who)))
    assert len(ends) == len(KINDS) * len(DIRECTIONS)
    changed = {
        (cell.kind, cell.direction): (ended, RECORD.ended(cell))
        for cell, ended in ends.items()
        if ended != RECORD.ended(cell)
    }
    assert changed == {}, "run: make matrix"


@pytest.mark.parametrize("wanted", varied_runs()[::_SAMPLE], ids=name_of)
def test_a_sample_of_the_rest(tmp_path: Path, wanted: Run) -> None:
    ends = run(wanted, tmp_path, lambda cell: bool(RECORD.ended(cell).who))
    problems = {cell: unexplained(cell, ended, RECORD) for cell, ended in ends}
    assert {cell: problem for cell, problem in problems.items() if problem} == {}


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page_of(RECORD), "run: make matrix"


def test_nothing_is_refused_in_a_way_that_nobody_would_understand() -> None:
    for (_, kind, *_), ended in RECORD.refused.items():
        assert ended.who != "values", kind
        if ended.who.startswith("pilum"):
            assert ended.text.startswith(REFUSALS), ended


def test_every_pair_of_values_meets() -> None:
    axes = {"a": [1, 2, 3], "b": "xy", "c": [True, False], "d": range(4)}
    rows = covering(axes)
    assert len(rows) < 3 * 2 * 2 * 4
    for one in axes:
        for other in axes:
            met = {(row[one], row[other]) for row in rows}
            wanted = len(axes[one]) * len(axes[other]) if one != other else len(axes[one])
            assert len(met) == wanted
    assert {run.version for run in varied_runs()[::_SAMPLE]} == set(VERSIONS)
    assert {run.nulls for run in varied_runs()[::_SAMPLE]} == set(NULLS)
