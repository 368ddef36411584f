"""Batches come from the source once, and then from a local file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

from pilum.errors import InvalidInputError
from pilum.training import CachedDataset

BATCHES = [pa.record_batch({"a": [number, number + 1]}) for number in range(3)]


def once() -> Iterator[pa.RecordBatch]:
    yield from BATCHES


def test_the_source_is_read_once(tmp_path: Path) -> None:
    with CachedDataset(once(), tmp_path) as cached:
        for _ in range(3):
            assert list(cached) == BATCHES
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidInputError, match="the cache is closed"):
        list(cached)


def test_the_file_goes_with_the_object(tmp_path: Path) -> None:
    cached = CachedDataset(once(), str(tmp_path))
    assert list(cached) == BATCHES
    del cached
    assert list(tmp_path.iterdir()) == []


def test_no_batches_are_cached_too() -> None:
    cached = CachedDataset(iter(()), True)
    assert list(cached) == list(cached) == []


def test_an_unfinished_first_iteration_is_no_cache() -> None:
    cached = CachedDataset(once())
    assert next(iter(cached)) == BATCHES[0]
    with pytest.raises(InvalidInputError, match="has not reached their end"):
        list(cached)


@pytest.mark.parametrize("cache", [False, 3])
def test_other_places_are_refused(cache: object) -> None:
    with pytest.raises(InvalidInputError, match="cache: expected a folder or True"):
        CachedDataset(once(), cache)  # type: ignore[arg-type]


def test_threads_that_begin_together_do_not_share_the_file() -> None:
    """Both take each step of the method before either takes the next; one is refused."""
    cached = CachedDataset(once())
    steps = Barrier(2)

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        del argument
        if frame.f_code is not CachedDataset.__iter__.__code__:
            return None
        if event == "line":
            with suppress(BrokenBarrierError):  # the other thread has left the method
                steps.wait(10)
        return trace

    def begin() -> object:
        sys.settrace(trace)
        try:
            return iter(cached)
        except InvalidInputError as error:
            return error
        finally:
            sys.settrace(None)
            steps.abort()

    with ThreadPoolExecutor(2) as threads:
        found = [task.result() for task in [threads.submit(begin) for _ in range(2)]]
    [refusal] = [one for one in found if isinstance(one, InvalidInputError)]
    assert "has not reached their end" in str(refusal)
    [first] = [one for one in found if isinstance(one, Iterator)]
    assert list(first) == list(cached) == BATCHES
