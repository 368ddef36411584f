"""Caches: what is kept, what goes first, what is counted."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from pilum.cache import Cache, CachePart, CacheStats


def test_the_least_recently_used_goes_first() -> None:
    cache = Cache(10)
    cache.put("a", 1, 4)
    cache.put("b", 2, 4)
    assert cache.get("a") == 1
    cache.put("c", 3, 4)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
    assert cache.stats() == CacheStats(hits=3, misses=1, num_entries=2, size_bytes=8)


def test_a_value_beyond_the_limit_is_not_kept_and_drives_nothing_out() -> None:
    cache = Cache(10)
    cache.put("a", 1, 10)
    cache.put("b", 2, 11)
    assert (cache.get("a"), cache.get("b")) == (1, None)


def test_a_value_that_grows_is_counted_anew() -> None:
    cache = Cache(10)
    value = ["a"]
    cache.put("a", value, 2)
    cache.put("b", "b", 2)
    cache.resize("a", value, 9)
    assert (cache.get("b"), cache.size_bytes) == (None, 9)
    cache.resize("a", ["another"], 1)
    assert cache.size_bytes == 9
    cache.resize("a", value, 11)
    assert (cache.get("a"), cache.size_bytes) == (None, 0)


def test_the_first_of_two_threads_wins() -> None:
    cache = Cache(10)
    assert cache.put_if_absent("a", 1, 1) == 1
    assert cache.put_if_absent("a", 2, 1) == 1
    cache.clear()
    assert cache.put_if_absent("a", 2, 1) == 2


def test_owners_do_not_meet() -> None:
    cache = Cache(10)
    one, other = CachePart(cache, "one").slot(0, 1), CachePart(cache, "other").slot(0, 1)
    one.put("value", 1)
    assert (one.get(), other.get()) == ("value", None)


@given(
    st.integers(0, 30),
    st.lists(st.tuples(st.sampled_from("pg"), st.integers(0, 5), st.integers(0, 12))),
)
def test_like_a_naive_cache(limit: int, calls: list[tuple[str, int, int]]) -> None:
    cache = Cache(limit)
    naive: OrderedDict[int, int] = OrderedDict()
    for call, key, size in calls:
        if call == "g":
            assert cache.get(key) == naive.get(key)
            if key in naive:
                naive.move_to_end(key)
            continue
        cache.put(key, size, size)
        naive.pop(key, None)
        if size <= limit:
            naive[key] = size
        while sum(naive.values()) > limit:
            naive.popitem(last=False)
        assert cache.size_bytes == sum(naive.values())


def test_many_threads() -> None:
    cache = Cache(1000)

    def work(seed: int) -> None:
        for i in range(2000):
            key = (i * seed) % 97
            found = cache.get(key)
            assert found in (None, key)
            cache.put(key, key, 17)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (3, 5, 7, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = cache.stats()
    assert stats.hits + stats.misses == 4 * 2000
    assert stats.size_bytes == 17 * stats.num_entries <= 1000


def test_a_child_process_begins_anew() -> None:
    cache = Cache(10)
    cache.put("a", 1, 1)
    with cache._lock:  # as if another thread were at work
        child = os.fork()
        if child == 0:
            cache.put("b", 2, 1)
            os._exit(0 if (cache.get("a"), cache.get("b")) == (None, 2) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert cache.get("a") == 1
