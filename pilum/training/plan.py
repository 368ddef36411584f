"""The order of an epoch: which rows each batch has, computed for any batch at any time.

A plan numbers the batches of all ranks together. It is a function of a few numbers, so each process
computes its own part, and nothing is exchanged or stored:

    batch q   ──▶  rank q % world size  ──▶  worker by turns, in this order

A shuffle has up to two steps. Blocks are runs of adjacent rows of one fragment, or whole fragments:

    "none"       rows in scan order
    "fragments"  whole fragments in random order, the rows of each in scan order
    "blocks"     blocks in random order, the rows of each in scan order
    "window"     blocks in random order, then the rows of each window of some blocks
    "full"       all rows: any order of the table is about as likely as any other

    scan order      0 1 2 3 | 4 5 6 7 | 8 9 10 11 | 12 13 14 15
    blocks          8 9 10 11   0 1 2 3   12 13 14 15   4 5 6 7
    window          1 10 9 3 0 2 11 8     5 14 7 12 4 13 15 6

A process that reads every second batch would read every window, only to use half of it. So the
places of this order are cut into lanes, as many as there are readers, and batches come from the
lanes in turn. The windows of a lane contain its own rows only. Without a window there is one lane.

    lanes: 2        batch 0: lane 0    batch 1: lane 1    batch 2: lane 0    batch 3: lane 1

No row is lost and none is repeated, unless `uneven` says so:

    "keep"   the last batch may be smaller, and some ranks may have one batch more than others
    "drop"   all ranks have the same number of full batches; the last rows are left out
    "pad"    all ranks have the same number of full batches; the first rows are repeated
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pilum.arguments import require_count
from pilum.errors import InvalidInputError
from pilum.lazy import cached_property
from pilum.training.permutation import Permutation, key_of

__all__ = ["EpochPlan", "Shuffle", "Uneven"]

Shuffle = Literal["none", "fragments", "blocks", "window", "full"]
Uneven = Literal["keep", "drop", "pad"]

_BLOCKS, _ROWS = 1, 2
"""What a key is for, so that both steps of a shuffle differ."""


@dataclass(frozen=True)
class EpochPlan:
    """The rows of all batches of one epoch.

    Attributes:
        num_rows: Number of rows, which are numbered in scan order.
        batch_size: Number of rows in a batch.
        shuffle: How rows are shuffled.
        seed: A number that selects one of many orders.
        epoch: The number of the epoch; each has another order.
        world_size: Number of ranks.
        uneven: What happens if the rows do not make the same number of full batches for all ranks.
        fragment_rows: Number of rows of each fragment; blocks do not cross their bounds.
        block_rows: Maximum number of rows in a block.
        window_rows: Number of rows that are shuffled together; at least one batch.
        lanes: Number of processes that read windows at the same time.
    """

    num_rows: int
    batch_size: int
    shuffle: Shuffle = "none"
    seed: int = 0
    epoch: int = 0
    world_size: int = 1
    uneven: Uneven = "keep"
    fragment_rows: tuple[int, ...] = field(default=(), repr=False)
    block_rows: int = 1024
    window_rows: int = 65536
    lanes: int = 1

    def __post_init__(self) -> None:
        for name, least in (("num_rows", 0), ("epoch", 0), ("seed", 0)):
            require_count(name, getattr(self, name), least)
        for name in ("batch_size", "world_size", "block_rows", "window_rows", "lanes"):
            require_count(name, getattr(self, name), 1)
        _require("shuffle", self.shuffle, get_args(Shuffle))
        _require("uneven", self.uneven, get_args(Uneven))
        if self.fragment_rows and sum(self.fragment_rows) != self.num_rows:
            raise InvalidInputError(
                f"fragment_rows: {sum(self.fragment_rows)} rows in fragments, num_rows is "
                f"{self.num_rows}"
            )

    @property
    def num_batches(self) -> int:
        """The number of batches of all ranks."""
        rows, of_all = self.num_rows, self.batch_size * self.world_size
        if self.uneven == "keep":
            return -(-rows // self.batch_size)
        rounds = rows // of_all if self.uneven == "drop" else -(-rows // of_all)
        return rounds * self.world_size

    @property
    def num_planned_rows(self) -> int:
        """The number of rows of all batches, including those that are repeated."""
        if self.uneven == "keep":
            return self.num_rows
        return self.num_batches * self.batch_size

    def num_batches_of(self, rank: int) -> int:
        """Return the number of batches of a rank."""
        return len(range(rank, self.num_batches, self.world_size))

    def rows(self, rank: int, first: int, last: int, step: int = 1) -> list[NDArray[np.int64]]:
        """Return the rows of some batches of a rank, by their position in scan order.

        Args:
            rank: The rank.
            first: The number of the first of these batches, among those of the rank.
            last: The number after the last one.
            step: The distance from one batch to the next; the number of workers of a rank.

        Returns:
            One int64 array for each batch.
        """
        batches = range(rank, self.num_batches, self.world_size)[first:last:step]
        places = [self._places(number) for number in batches]
        if not places:
            return []
        rows = self._at(np.concatenate(places))
        return np.split(rows, np.cumsum([len(one) for one in places])[:-1])

    def window_of(self, rank: int, number: int) -> tuple[int, int]:
        """Return what identifies the window of a batch of a rank, if there are windows."""
        if self.shuffle != "window":
            return 0, 0
        return self._lane_and_window(rank + number * self.world_size)[:2]

    @property
    def _num_lanes(self) -> int:
        return self.lanes if self.shuffle == "window" else 1

    def _lane_and_window(self, number: int) -> tuple[int, int, int]:
        """Return the lane of a batch, the number of its window, and the batches before both."""
        turn, lane = divmod(number, self._num_lanes)
        each, more = divmod(self.num_batches, self._num_lanes)
        return lane, turn // self._window_batches, lane * each + min(lane, more)

    @property
    def _window_batches(self) -> int:
        return max(1, self.window_rows // self.batch_size)

    def _places(self, number: int) -> NDArray[np.int64]:
        """Return the places of the rows of a batch in the order of blocks."""
        lane, window, lane_start = self._lane_and_window(number)
        start = lane_start + number // self._num_lanes
        end = self.num_planned_rows
        first, last = start * self.batch_size, min((start + 1) * self.batch_size, end)
        if self.shuffle != "window":
            return np.arange(first, last)
        lane_batches = len(range(lane, self.num_batches, self._num_lanes))
        begin = lane_start + window * self._window_batches
        until = min(begin + self._window_batches, lane_start + lane_batches)
        offset, stop = begin * self.batch_size, min(until * self.batch_size, end)
        window_order = Permutation(stop - offset, self._key(_ROWS, begin))
        return offset + window_order.at(np.arange(first - offset, last - offset))

    def _key(self, *step: int) -> int:
        return key_of(self.seed, self.epoch, *step)

    def _at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows at some places of the order of blocks; it begins again at its end."""
        around = places % self.num_rows if self.uneven == "pad" else places
        if self.shuffle == "none":
            return around
        if self.shuffle == "full":
            return Permutation(self.num_rows, self._key(_ROWS)).at(around)
        moved, block_places = self._blocks
        block = np.searchsorted(block_places, around, side="right") - 1
        rows: NDArray[np.int64] = moved[block] + around - block_places[block]
        return rows

    @cached_property
    def _blocks(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first row of each block in random order, and the place of that row."""
        starts = self._starts
        order = Permutation(len(starts), self._key(_BLOCKS)).at(np.arange(len(starts)))
        lengths = np.diff(starts, append=self.num_rows)[order]
        return starts[order], np.cumsum(lengths) - lengths

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """The first row of each block, ascending."""
        lengths = np.array([rows for rows in self.fragment_rows if rows] or [self.num_rows])
        bounds: NDArray[np.int64] = np.cumsum(lengths) - lengths
        if self.shuffle == "fragments":
            return bounds
        parts = zip(bounds.tolist(), lengths.tolist(), strict=True)
        return np.concatenate([np.arange(at, at + rows, self.block_rows) for at, rows in parts])


def _require(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidInputError(f"{name}: expected one of {', '.join(known)}; found {value!r}")
