"""Caches: what is kept, what goes first, what is counted; descriptions are never mixed up."""

from __future__ import annotations

import os
import threading
from collections import Counter, OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.cache import Cache, CachePart, CacheStats, Descriptions, FileCaches
from pilum.errors import CorruptFileError


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


class Parser:
    """A function that counts its calls."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[object, ...]] = Counter()

    def __call__(self, data: bytes, *context: object) -> list[object]:
        self.calls[(data, *context)] += 1
        return [data, *context]


def test_equal_descriptions_are_parsed_once() -> None:
    descriptions, parse = Descriptions(), Parser()
    first = descriptions.parsed(parse, b"a", 1)
    assert descriptions.parsed(parse, bytes([97]), 1) is first
    assert parse.calls == {(b"a", 1): 1}


def test_functions_and_contexts_are_distinguished() -> None:
    descriptions, parse, other = Descriptions(), Parser(), Parser()
    wanted = [(parse, ()), (parse, (1,)), (parse, (2,)), (other, (1,))]
    found = [descriptions.parsed(function, b"a", *context) for function, context in wanted]
    assert found == [[b"a", *context] for _, context in wanted]
    assert found[1] is not found[3]


def test_the_oldest_are_dropped_where_there_is_no_room() -> None:
    descriptions, parse = Descriptions(limit_bytes=4000), Parser()
    for data in (b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8"):
        descriptions.parsed(parse, data)
    descriptions.parsed(parse, b"8")
    descriptions.parsed(parse, b"0")
    assert (parse.calls[(b"8",)], parse.calls[(b"0",)]) == (1, 2)


def test_one_that_is_larger_than_the_cache_is_parsed_each_time() -> None:
    descriptions, parse = Descriptions(limit_bytes=100), Parser()
    assert [descriptions.parsed(parse, b"a") for _ in range(2)] == [[b"a"], [b"a"]]
    assert parse.calls == {(b"a",): 2}


def test_failures_are_not_kept() -> None:
    def fail(data: bytes) -> None:
        raise CorruptFileError(data.decode())

    descriptions = Descriptions()
    for _ in range(2):
        with pytest.raises(CorruptFileError, match="a"):
            descriptions.parsed(fail, b"a")


def test_a_child_process_starts_without_descriptions() -> None:
    descriptions, parse = Descriptions(), Parser()
    descriptions.parsed(parse, b"a")
    descriptions.renew()
    descriptions.parsed(parse, b"a")
    assert parse.calls == {(b"a",): 2}


def test_private_caches_may_share_descriptions() -> None:
    shared = Descriptions()
    one, other = FileCaches.private("one", shared), FileCaches.private("other", shared)
    assert one.descriptions is other.descriptions is shared
    assert one.pages.cache is not other.pages.cache
    assert FileCaches.private("one").descriptions is not shared
