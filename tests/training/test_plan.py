"""Every row is in exactly one batch of an epoch, whatever the order and the number of readers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import zip_longest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.errors import InvalidInputError
from pilum.training import EpochPlan

SHUFFLES = ["none", "fragments", "blocks", "window", "full"]


@st.composite
def plans(draw: st.DrawFn) -> EpochPlan:
    fragments = tuple(draw(st.lists(st.integers(0, 40), max_size=6)))
    return EpochPlan(
        sum(fragments),
        draw(st.integers(1, 12)),
        draw(st.sampled_from(SHUFFLES)),
        draw(st.integers(0, 5)),
        draw(st.integers(0, 5)),
        draw(st.integers(1, 4)),
        draw(st.sampled_from(["keep", "drop", "pad"])),
        fragments,
        draw(st.integers(1, 20)),
        draw(st.integers(1, 60)),
        draw(st.integers(1, 5)),
    )


def batches(plan: EpochPlan, rank: int, first: int = 0, workers: int = 1) -> list[list[int]]:
    """The batches of a rank in the order in which its workers deliver them."""
    end = plan.num_batches_of(rank)
    parts = [plan.rows(rank, first + worker, end, workers) for worker in range(workers)]
    turns = [batch for turn in zip_longest(*parts) for batch in turn if batch is not None]
    return [batch.tolist() for batch in turns]


@given(plan=plans())
def test_the_rows_of_all_ranks_are_the_table(plan: EpochPlan) -> None:
    ranks = [batches(plan, rank) for rank in range(plan.world_size)]
    found = Counter(row for rank in ranks for batch in rank for row in batch)
    if plan.uneven == "keep":
        assert found == Counter(range(plan.num_rows))
        assert sum(len(batch) < plan.batch_size for rank in ranks for batch in rank) <= 1
        assert max(map(len, ranks)) - min(map(len, ranks)) <= 1
        return
    assert len({len(rank) for rank in ranks}) == 1
    assert all(len(batch) == plan.batch_size for rank in ranks for batch in rank)
    together = plan.batch_size * plan.world_size
    if plan.uneven == "drop":
        assert set(found.values()) <= {1}
        assert plan.num_rows - sum(found.values()) < together
    else:
        assert set(found) == set(range(plan.num_rows))
        assert sum(found.values()) - plan.num_rows < together
        assert not found or max(found.values()) - min(found.values()) <= 1


@given(plan=plans(), workers=st.integers(1, 4), data=st.data())
def test_any_number_of_workers_continues_after_any_batch(
    plan: EpochPlan, workers: int, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(0, plan.world_size - 1))
    whole = batches(plan, rank)
    used = data.draw(st.integers(0, len(whole)))
    assert batches(plan, rank, used, workers) == whole[used:]
    assert len(whole) == plan.num_batches_of(rank)


@given(plan=plans())
def test_rows_of_a_window_are_those_of_adjacent_blocks(plan: EpochPlan) -> None:
    plan = replace(plan, shuffle="window", uneven="keep")
    in_blocks = replace(plan, shuffle="blocks", world_size=1, lanes=1)
    blocks = [row for batch in batches(in_blocks, 0) for row in batch]
    windows: dict[tuple[int, int, int], list[int]] = {}
    for rank in range(plan.world_size):
        for number, rows in enumerate(batches(plan, rank)):
            lane, window = plan.window_of(rank, number)
            windows.setdefault((0, lane, window), []).extend(rows)
    places = {row: place for place, row in enumerate(blocks)}
    most = max(plan.window_rows // plan.batch_size, 1) * plan.batch_size
    for rows in windows.values():
        at = sorted(places[row] for row in rows)
        assert at == list(range(at[0], at[0] + len(at)))
        assert len(at) <= most


@given(plan=plans())
def test_blocks_do_not_cross_fragments(plan: EpochPlan) -> None:
    one_rank = replace(plan, shuffle="blocks", uneven="keep", world_size=1)
    order = np.array([row for batch in batches(one_rank, 0) for row in batch], dtype=np.int64)
    jumps = np.flatnonzero(np.diff(order) != 1) + 1
    for run in np.split(order, jumps) if len(order) else []:
        # A run may be several blocks that happen to follow each other; its ends are block bounds.
        bounds = np.cumsum([0, *plan.fragment_rows])
        fragment = int(np.searchsorted(bounds, run[0], side="right")) - 1
        assert (run[0] - bounds[fragment]) % plan.block_rows == 0


def test_each_reader_of_windows_reads_its_own_rows() -> None:
    plan = EpochPlan(960, 8, "window", block_rows=16, window_rows=64, world_size=3, lanes=6)
    windows = [
        {plan.window_of(rank, number) for number in range(worker, plan.num_batches_of(rank), 2)}
        for rank in range(3)
        for worker in range(2)
    ]
    assert len(set.union(*windows)) == sum(map(len, windows))


def test_epochs_and_seeds_differ_and_repeat() -> None:
    def order(seed: int, epoch: int = 0) -> list[list[int]]:
        return batches(EpochPlan(500, 10, "full", seed, epoch), 0)

    assert order(1) == order(1)
    assert len({str(order(s, e)) for s in range(3) for e in range(3)}) == 9


@pytest.mark.parametrize("shuffle", ["window", "full"])
def test_a_shuffle_leaves_no_trend(shuffle: str) -> None:
    plan = EpochPlan(20_000, 100, shuffle, block_rows=50, window_rows=2000)  # type: ignore[arg-type]
    order = np.array(batches(plan, 0)).ravel()
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.1
    assert abs(np.corrcoef(order, np.arange(20_000))[0, 1]) < 0.1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"batch_size": 0}, "batch_size: expected at least 1, found 0"),
        ({"shuffle": "some"}, "shuffle: expected one of none, fragments, blocks, window, full"),
        ({"uneven": "fill"}, "uneven: expected one of keep, drop, pad; found 'fill'"),
        ({"fragment_rows": (4, 4)}, "fragment_rows: 8 rows in fragments, num_rows is 10"),
        ({"seed": -1}, "seed: expected at least 0, found -1"),
    ],
)
def test_wrong_arguments_are_refused(change: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        replace(EpochPlan(10, 2), **change)  # type: ignore[arg-type]
